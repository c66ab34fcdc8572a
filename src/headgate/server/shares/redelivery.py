"""Delivery of records again of which there are dead letters, in steps.

The dead-letter topic of the group is searched for letters of the share-partition. Records that are complete,
and that the log still has, are opened again: they are delivered as for the first time, to this group alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Final

from headgate.api.contract import RequestSteps
from headgate.core.share.deliveries import AlterationResult, AlteredRange, OffsetRange
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain import dead_letters
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.log.batch import CorruptBatch
from headgate.records.share_batches import DeliveryState
from headgate.server.shares.letters import Origin, WrittenLetter
from headgate.server.shares.partition import SharedPartition
from headgate.server.shares.searching import search_letters
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.topic import Topic

_MOST_RECORDS: Final = 1_000
"""Records of one request: those with the lowest offsets."""
_SETTLE_MS: Final = 20
_SETTLE_TRIES: Final = 250
_WHY_NOT: Final = {
    DeliveryState.AVAILABLE: "it waits to be delivered",
    DeliveryState.ACQUIRED: "it is being delivered",
    DeliveryState.ACKNOWLEDGED: "it was acknowledged since",
    DeliveryState.ARCHIVING: "its dead letter is being written",
    DeliveryState.ARCHIVED: "its rejection is being written",
}
_NO_LETTERS: Final = f"The group has no dead-letter topic: {dead_letters.TOPIC} is not set."


class Redelivery:
    """One request to deliver again."""

    def __init__(self, node: Surroundings, shared: SharedPartition) -> None:
        self._node = node
        self._shared = shared
        self._ranges: Sequence[OffsetRange] = ()
        self._found: set[int] = set()
        self._since = 0

    def run(self, ranges: Sequence[OffsetRange], *, is_dry_run: bool) -> RequestSteps[AlterationResult]:
        """Return what happened to the records that have letters, or would happen, when that is durable."""
        key, name = self._shared.key, self._shared.settings.dead_letter_topic
        source = self._node.topics.by_id(key.topic_id)
        topic = self._node.topics.by_name(TopicName(name)) if name else None
        if topic is None or source is None:
            message = f"The dead-letter topic {name} does not exist." if name else _NO_LETTERS
            return AlterationResult(error=ErrorCode.INVALID_REQUEST, message=message)
        self._ranges, self._since = ranges, source.created_at
        try:
            yield from self._search(topic, Origin(key.group_id, source.name, key.partition))
        except (OSError, CorruptBatch) as problem:
            return AlterationResult(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(problem))
        if not is_dry_run and not (yield from self._settled()):
            message = "Dead letters of the share-partition are being written; try again."
            return AlterationResult(error=ErrorCode.REQUEST_TIMED_OUT, message=message)
        return (yield from self._redeliver(sorted(self._found), is_dry_run=is_dry_run))

    # --- the letters ---

    def _search(self, topic: Topic, origin: Origin) -> RequestSteps[None]:
        """Search all partitions: the number of partitions may have changed since."""
        for index in topic.written_partitions():
            partition = topic.find_partition(index)
            if partition is not None:
                yield from search_letters(partition, 0, origin, self._take)

    def _take(self, letter: WrittenLetter) -> None:
        """Note a letter, unless it is of an earlier topic with the same name."""
        if letter.timestamp < self._since:
            return
        if any(first <= letter.offset <= last for first, last in self._ranges):
            self._found.add(letter.offset)
            if len(self._found) > 4 * _MOST_RECORDS:
                self._found = set(sorted(self._found)[: _MOST_RECORDS + 1])

    def _settled(self) -> RequestSteps[bool]:
        """Wait until no dead letter is in doubt: a letter of the past would be taken for a later one."""
        for _ in range(_SETTLE_TRIES):
            if self._shared.letters.is_settled:
                return True
            later: Future[None] = Future()
            self._node.call_later(_SETTLE_MS, lambda later=later: later.set_result(None))  # type: ignore[misc]
            yield later
        return False

    # --- the records ---

    def _redeliver(self, offsets: Sequence[int], *, is_dry_run: bool) -> RequestSteps[AlterationResult]:
        machine = self._shared.machine
        if self._shared.error or machine is None:
            return AlterationResult(error=self._shared.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._shared.partition()
        if isinstance(partition, ErrorCode):
            return AlterationResult(error=partition)
        rows = list(_rows(machine, offsets[:_MOST_RECORDS], partition.log_start_offset))
        next_offset = offsets[_MOST_RECORDS] if len(offsets) > _MOST_RECORDS else -1
        opened = [(row.first_offset, row.last_offset) for row in rows if row.after is not None]
        error = ErrorCode.NONE
        if opened and not is_dry_run:
            done: Future[ErrorCode] = Future()
            self._shared.reopen(opened, done.set_result)
            yield done
            error = done.result()
        return AlterationResult(error=error, ranges=rows, next_offset=next_offset)


def _rows(machine: SharePartition, offsets: Sequence[int], log_start: int) -> Iterator[AlteredRange]:
    """Yield what becomes of records with letters; equal neighbours are one."""
    held: AlteredRange | None = None
    for offset in offsets:
        row = _row(machine, offset, log_start)
        if held is not None and held.last_offset + 1 == offset and held[2:] == row[2:]:
            held = held._replace(last_offset=offset)
            continue
        if held is not None:
            yield held
        held = row
    if held is not None:
        yield held


def _row(machine: SharePartition, offset: int, log_start: int) -> AlteredRange:
    if offset < log_start:
        return AlteredRange(offset, offset, None, 0, None, "the record was deleted")
    if offset < machine.start_offset:
        return AlteredRange(offset, offset, None, 0, DeliveryState.AVAILABLE)
    pieces = machine.pieces(offset, offset, 1)
    if not pieces:
        return AlteredRange(offset, offset, None, 0, None, "it was never delivered")
    state, count = pieces[0].delivery.state, pieces[0].delivery.delivery_count
    if state == DeliveryState.ARCHIVED:
        return AlteredRange(offset, offset, DeliveryState.ARCHIVED, count, DeliveryState.AVAILABLE)
    before = next(machine.deliveries(offset, offset)).state
    why = _WHY_NOT[before]
    return AlteredRange(offset, offset, before, count, None, why)
