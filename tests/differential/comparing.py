"""One scenario with both brokers at once, and where their stories differ without leave."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest

from tests.differential.accepted import Accepted
from tests.differential.conftest import Run
from tests.differential.normal import differences
from tests.differential.script import Scenario, play


def compare(run: Run, name: str, scenario: Scenario, accepted: Sequence[Accepted]) -> list[str]:
    """The differences, line by line; which of `accepted` were seen is noted in `run`, by their places."""
    with ThreadPoolExecutor(2) as threads:
        playing = [threads.submit(play, scenario, side, name + run.tag) for side in (run.kafka, run.headgate)]
    kafka, ours = (one.result() for one in playing)
    run.played.add(name)
    lines: list[str] = []
    for number, (theirs, mine) in enumerate(zip_longest(kafka, ours), 1):
        if theirs is None or mine is None or theirs.step != mine.step:
            return [*lines, f"{number}. Kafka's story goes on with {theirs}, ours with {mine}"]
        for difference in differences(theirs.tree, mine.tree):
            covering = [
                place
                for place, one in enumerate(accepted)
                if one.covers(name, theirs.step, difference, mine.tree)
            ]
            run.seen.update(covering)
            if not covering:
                path, kafkas, headgates = difference
                lines.append(
                    f"{number}. {theirs.step}: {path}\n     kafka    {kafkas!r}\n     headgate {headgates!r}"
                )
    return lines
