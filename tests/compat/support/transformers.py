"""Loops that consume, transform and produce in transactions, in processes that can be killed.

The process is transformer_program.py (Python libraries), node/transformer.js or java/Transformer.java.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.compat.support.java import JVM_START_S, java_command_of
from tests.compat.support.kafkajs import NODE
from tests.compat.support.talking import TalkingProcess
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("transformer_program.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """What a transformer is told."""

    library: str
    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    hold_at: int = -1
    """The number of the transaction that is held before its commit; -1: none."""
    session_timeout_ms: int = 2_000


def _command(told: Transformation) -> list[str]:
    asked = json.dumps(asdict(told))
    if told.library == "kafkajs":
        return ["node", str(NODE / "transformer.js"), asked]
    if told.library == "java":
        return java_command_of("Transformer", asked)
    return [sys.executable, str(PROGRAM), asked]


class Talker(TalkingProcess):
    """A process that says events in lines of JSON. What is left of it is killed at the end of its block."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._start(command, environment)

    def __enter__(self) -> Talker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _hear(self, said: dict[str, Any]) -> None:
        self.events.append(said)

    def said(self, event: str) -> list[dict[str, Any]]:
        """The events of a kind so far."""
        return [one for one in self.events if one["event"] == event]

    def wait_for(self, event: str) -> dict[str, Any]:
        """The first event of a kind; fails, with what the process said, when it does not come or ends."""

        def found() -> bool:
            assert self.is_running or self.said(event), self.trouble()
            return bool(self.said(event))

        wait_until(found, lambda: f"it says {event!r}: {self.trouble()}", JVM_START_S)
        return self.said(event)[0]

    def trouble(self) -> str:
        """What it said and complained of."""
        return f"{self.events} {self.complaints()}"


def transformer(told: Transformation) -> Talker:
    """Start a transformer."""
    return Talker(_command(told))
