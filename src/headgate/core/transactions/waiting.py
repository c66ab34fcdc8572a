"""Partitions that are to be added while the last transaction is being completed.

A producer of version 2 may write at once after the end of a transaction, and its markers take some
milliseconds more. So its question waits for the last marker. Both transitions are then one batch of the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.core.contract import Token
from headgate.core.transactions.commands import AddPartitions

PATIENCE_MS: Final = 100
"""The longest time that partitions wait, as long as Kafka tries again."""
MOST_WAITING: Final = 10
"""Commands that wait for one id, and the partitions of each: all of them are decided in one step, and their
record is in the batch of the completion, which must not become too large by them.
"""
MOST_PARTITIONS: Final = 100


class PatienceOver(NamedTuple):
    """The deadline of what waits for a transactional id."""

    transactional_id: str


class WaitingPartitions:
    """The parked `AddPartitions` of a shard, by transactional id, in their order."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, list[tuple[AddPartitions, Token]]] = {}

    def park(self, command: AddPartitions, token: Token) -> bool:
        """Keep a command; return whether there is room for it."""
        waiting = self._by_id.get(command.transactional_id, [])
        if len(waiting) == MOST_WAITING or _count(command) > MOST_PARTITIONS:
            return False
        self._by_id[command.transactional_id] = [*waiting, (command, token)]
        return True

    def take(self, transactional_id: str) -> list[tuple[AddPartitions, Token]]:
        """Return the commands of an id, which wait no more."""
        return self._by_id.pop(transactional_id, [])


def _count(command: AddPartitions) -> int:
    return sum(map(len, command.partitions.values()))
