"""Every scenario, played to Apache Kafka and to Headgate at once: the same story but for what is accepted."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from tests.differential.accepted import ACCEPTED
from tests.differential.comparing import compare
from tests.differential.conftest import Run
from tests.differential.scenarios import SCENARIOS


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_headgate_answers_as_kafka_does(run: Run, name: str) -> None:
    """Step by step, field by field."""
    found = compare(run, name, SCENARIOS[name], ACCEPTED)
    assert not found, "\n".join(["the stories differ:", *found])


def test_what_is_accepted_is_still_seen(run: Run) -> None:
    """A difference that is no more must not stand among those that are accepted."""
    for place, one in enumerate(ACCEPTED):
        meant = {name for name in SCENARIOS if fnmatchcase(name, one.scenario)}
        assert meant, f"no scenario is called {one.scenario}"
        if meant <= run.played:
            assert place in run.seen, f"not seen any more: {one}"
