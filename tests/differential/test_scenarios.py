"""Every scenario, played to Apache Kafka and to Headgate at once: the same story but for what is accepted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

import pytest
from tests.differential.accepted import ACCEPTED, NOT_YET
from tests.differential.conftest import Run
from tests.differential.normal import differences
from tests.differential.scenarios import SCENARIOS
from tests.differential.script import Answer, play


def _why_not_yet(name: str) -> list[str]:
    return [reason for pattern, reason in NOT_YET.items() if fnmatchcase(name, pattern)]


def _scenario(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.xfail(reason=reason) for reason in _why_not_yet(name)])


@pytest.mark.parametrize("name", [_scenario(name) for name in SCENARIOS])
def test_headgate_answers_as_kafka_does(run: Run, name: str) -> None:
    """Step by step, field by field."""
    with ThreadPoolExecutor(2) as threads:
        playing = [
            threads.submit(play, SCENARIOS[name], side, name + run.tag) for side in (run.kafka, run.headgate)
        ]
    kafka, ours = (one.result() for one in playing)
    found = _differences(run, name, kafka, ours)
    run.played.add(name)
    assert not found, "\n".join(["the stories differ:", *found])


def test_what_is_accepted_is_still_seen(run: Run) -> None:
    """A difference that is no more must not stand among those that are accepted."""
    for place, one in enumerate(ACCEPTED):
        meant = {name for name in SCENARIOS if fnmatchcase(name, one.scenario)}
        assert meant, f"no scenario is called {one.scenario}"
        if {name for name in meant if not _why_not_yet(name)} <= run.played:
            assert place in run.seen, f"not seen any more: {one}"


def _differences(run: Run, name: str, kafka: list[Answer], ours: list[Answer]) -> list[str]:
    lines: list[str] = []
    for number, (theirs, mine) in enumerate(zip_longest(kafka, ours), 1):
        if theirs is None or mine is None or theirs.step != mine.step:
            return [*lines, f"{number}. Kafka's story goes on with {theirs}, ours with {mine}"]
        for difference in differences(theirs.tree, mine.tree):
            covering = [
                place
                for place, one in enumerate(ACCEPTED)
                if one.covers(name, theirs.step, difference, mine.tree)
            ]
            run.seen.update(covering)
            if not covering:
                path, kafkas, headgates = difference
                lines.append(
                    f"{number}. {theirs.step}: {path}\n     kafka    {kafkas!r}\n     headgate {headgates!r}"
                )
    return lines
