"""Random lives, played to Apache Kafka and to Headgate; `python -m tests.differential.lives` has more."""

from __future__ import annotations

import pytest
from tests.differential.conftest import Run
from tests.differential.lives import LIVES
from tests.differential.lives.playing import differences_of

SEEDS = {"offsets": 12, "transactions": 10, "wide": 4}


def test_each_kind_of_life_is_played() -> None:
    """A new one has seeds here."""
    assert SEEDS.keys() == LIVES.keys()


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind, count in SEEDS.items() for seed in range(1, count + 1)]
)
def test_headgate_answers_as_kafka_does_whatever_is_asked(run: Run, kind: str, seed: int) -> None:
    """Answer by answer, field by field."""
    found = differences_of(run, kind, seed)
    assert not found, "\n".join(["the stories differ:", *found])
