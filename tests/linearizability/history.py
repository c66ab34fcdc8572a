"""What clients asked a server and what they were told, in the order in which it was observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.linearizability.checker import ABSENT, Contradiction, Key, Operation, Value, find_contradiction


@dataclass(slots=True, eq=False)
class Pending:
    """A request on its way. It may write `writes` to its group."""

    group_id: str
    name: str
    began: int
    writes: Mapping[Key, Value]
    ended: int | None = None
    """When its server was found dead, if it was not answered before."""


@dataclass
class History:
    """By group, all that is known to have happened, or may have."""

    operations: dict[str, list[Operation]] = field(default_factory=dict)
    keys: dict[str, set[Key]] = field(default_factory=dict)
    _now: int = 0
    _pending: dict[Pending, None] = field(default_factory=dict)

    def begin(self, group_id: str, name: str, writes: Mapping[Key, Value] | None = None) -> Pending:
        """A request is about to be sent."""
        self._now += 1
        pending = Pending(group_id, f"{name} of {group_id} at {self._now}", self._now, writes or {})
        self._pending[pending] = None
        self.keys.setdefault(group_id, set()).update(pending.writes)
        return pending

    def answered(self, pending: Pending, reads: Mapping[Key, Value] | None = None) -> None:
        """It was done, and found this."""
        self._end(pending, reads or {}, is_answered=True)

    def found_nothing(self, pending: Pending) -> None:
        """It was refused because there is no such group: then no offset of it can be there."""
        pending.writes = {}
        self._end(pending, dict.fromkeys(self.keys[pending.group_id], ABSENT), is_answered=True)

    def refused(self, pending: Pending) -> None:
        """It was turned away before anybody looked at it: it did not happen."""
        self._pending.pop(pending, None)

    def server_is_gone(self) -> None:
        """What it did not do until now it must never do. An answer may still be on its way."""
        self._now += 1
        for pending in self._pending:
            pending.ended = pending.ended or self._now

    def close(self) -> None:
        """Nothing is answered any more."""
        self.server_is_gone()
        for pending in list(self._pending):
            self._end(pending, {}, is_answered=False)

    def unanswered_writes(self) -> list[Mapping[Key, Value]]:
        """What those would have written that the server died on, without an answer so far."""
        operations = [one for each in self.operations.values() for one in each]
        lost = [one.writes for one in operations if one.writes and not one.is_answered]
        return lost + [one.writes for one in self._pending if one.writes and one.ended is not None]

    def contradiction(self) -> Contradiction | None:
        """The first reason why some group's history is not linearizable."""
        found = (find_contradiction(operations) for operations in self.operations.values())
        return next((contradiction for contradiction in found if contradiction is not None), None)

    def _end(self, pending: Pending, reads: Mapping[Key, Value], *, is_answered: bool) -> None:
        self._pending.pop(pending, None)
        self._now += 1
        ended = pending.ended or self._now
        operation = Operation(pending.name, pending.began, ended, reads, pending.writes, is_answered)
        self.operations.setdefault(pending.group_id, []).append(operation)
