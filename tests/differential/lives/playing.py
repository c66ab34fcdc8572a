"""Play a life of a seed to both brokers, and tell where their answers differ."""

from __future__ import annotations

from random import Random

from tests.differential.accepted import ANY, Accepted
from tests.differential.comparing import compare
from tests.differential.conftest import Run
from tests.differential.lives import LIVES
from tests.differential.script import Script

ACCEPTED_IN_LIVES = (
    Accepted(
        scenario="life-of-transactions-*",
        step="main: produce *",
        path="responses/*/log_append_time",
        kafka=ANY,
        headgate=None,
        difference="A repeated batch gets the answer of the first one",
    ),
    Accepted(
        scenario="life-of-transactions-*",
        step="main: produce *",
        path="responses/*/error_message",
        kafka=None,
        headgate=ANY,
        difference="Refusals are explained",
    ),
)
"""What scenarios are accepted for, in the words of lives; here it need not be seen each time."""


def differences_of(run: Run, kind: str, seed: int) -> list[str]:
    """The differences, line by line. Names have the seed, so that lives do not meet."""

    def live(ask: Script) -> None:
        LIVES[kind](ask, Random(seed)).live()

    return compare(run, f"life-of-{kind}-{seed}", live, ACCEPTED_IN_LIVES)
