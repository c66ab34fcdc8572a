"""What members of share groups may be told, by what all of them were told before (KIP-932).

For each record and group the model knows who has it, for how long at least, whether its delivery is complete,
and how often it was delivered. It learns only from exchanges: when a request arrived, and when its answer was
sent. What happened in between is bounded by these two moments. An acknowledgement whose answer is lost, or is
an error of the disk, may have happened or not.

The invariants:

1. An offset has one record, the produced one.
2. A record is delivered to another member only after its lock may have ended, or may have been given back.
3. The delivery count rises with every delivery, and never exceeds the limit. A restart of the server forgets
   deliveries, but none that an answered release told of.
4. A record whose acceptance, rejection or last release was answered is never delivered again.
5. An acknowledgement of records that the member surely has is not refused.
6. The start offset never moves back, and passes no record that is not complete. A group that begins at the
   end of the log begins behind no record that was delivered.
7. Readers of committed records get none of a transaction whose commit was not requested.
8. In the end all records are complete, from the first start on (`check_end`).

What 3 and 4 say of restarts begins when the group has told that a partition is initialized. Members here
fetch before that, which no real client does: if the initialization is repeated, what they did is lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.requests import Violation
from tests.simulation.shares.link import Exchange, Link
from tests.simulation.shares.records import Records

from headgate.domain.errors import ErrorCode
from headgate.log.batch import iterate_records
from headgate.wire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from headgate.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from headgate.wire.messages.share_fetch import ShareFetchRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
COMPLETING = (GAP, ACCEPT, REJECT)
NO_EFFECT = (
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
)
"""Errors of acknowledgements that certainly changed nothing."""
TICK_SECONDS = 0.002
"""The server's clock has milliseconds."""


@dataclass(frozen=True)
class GroupRules:
    """The settings of a group."""

    limit: int
    lock_seconds: float
    is_committed: bool
    most_locks: int
    begins_at_the_end: bool = False
    """Whether a partition without a start begins at the end of the log, or at its first record."""


@dataclass(eq=False)
class Holding:
    """A delivery of a record, which its member may still have."""

    member: str
    link: Link
    life: int
    count: int
    arrived: float
    """The records were acquired after this."""
    locked_from: float
    """The lock began, or was renewed, after this."""
    doubts: set[Exchange] = field(default_factory=set)
    """Acknowledgements that may have ended it."""


@dataclass(eq=False)
class Entry:
    """What is known of one record in one group."""

    holding: Holding | None = None
    complete: tuple[int, float] | None = None
    """The delivery count when it became complete, and when that was answered."""
    perhaps_complete: set[Exchange] = field(default_factory=set)
    counts: dict[int, int] = field(default_factory=dict)
    """The highest delivery count by the server's life."""
    durable_count: int = 0
    """The count that a restart must not forget."""


class ShareModel:
    """One group, in all partitions and over all lives of the server."""

    def __init__(self, group_id: str, rules: GroupRules, records: Records, counts: Counter[str]) -> None:
        self.group_id = group_id
        self.rules = rules
        self._records = records
        self._counts = counts
        self._entries: dict[tuple[int, int], Entry] = defaultdict(Entry)
        """By partition and offset."""
        self._session_ended: dict[str, float] = {}
        """When a member's session may have ended the last time."""
        self._unseen = 0
        """Number of deliveries that may have happened and were not seen."""
        self.starts: dict[int, int] = {}
        """The last start offset of each partition."""
        self._initialized: set[int] = set()
        """Partitions that the group has told of."""
        self._begins: dict[int, int] = {}
        """By partition, an offset behind which the group did not begin."""

    # --- requests ---

    def arrived(self, exchange: Exchange) -> None:
        """Note what a request may change from now on."""
        request = exchange.request
        if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            for index, offset, kind in _acknowledged(request):
                entry = self._entries[index, offset]
                if kind != RENEW and entry.holding is not None:
                    entry.holding.doubts.add(exchange)
                if kind in COMPLETING or self._is_last(entry, kind):
                    entry.perhaps_complete.add(exchange)
            if request.share_session_epoch == -1:
                self._session_ended[exchange.who] = exchange.arrived

    def _is_last(self, entry: Entry, kind: int) -> bool:
        held = entry.holding
        return kind == RELEASE and (held is None or held.count >= self.rules.limit)

    def lost(self, exchange: Exchange) -> None:
        """Note that an answer is unknown."""
        if isinstance(exchange.request, ShareFetchRequest):
            self._unseen += 1

    def connection_lost(self, who: str, at: float) -> None:
        """Note that the member's session ends."""
        self._session_ended[who] = at

    def answered(self, exchange: Exchange) -> None:
        """Check an answer. Raises Violation."""
        request, answer = exchange.request, exchange.answer
        if isinstance(request, DescribeShareGroupOffsetsRequest):
            self._described(answer)
        elif isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            self._acknowledgements_answered(exchange)
            if isinstance(request, ShareFetchRequest) and not answer.error_code:
                for index, data in _partitions(answer):
                    self._delivered(exchange, index, data)

    # --- acknowledgements ---

    def _acknowledgements_answered(self, exchange: Exchange) -> None:
        errors = _errors(exchange)
        for index, batches in _batches(exchange.request):
            error = errors.get(index, ErrorCode(exchange.answer.error_code))
            if error == ErrorCode.INVALID_RECORD_STATE and self._surely_has(exchange, index, batches):
                raise Violation(f"{exchange.who} has what {exchange.request} acknowledges, but {error!r}")
            for offset, kind in _each(batches):
                self._acknowledgement_answered(exchange, index, self._entries[index, offset], kind, error)
        self._counts["acknowledgements refused"] += any(one in NO_EFFECT for one in errors.values())

    def _surely_has(self, exchange: Exchange, index: int, batches: list[Any]) -> bool:
        return all(
            self._is_surely_held(self._entries[index, offset].holding, exchange)
            for offset, _ in _each(batches)
        )

    def _is_surely_held(self, held: Holding | None, exchange: Exchange) -> bool:
        return (
            held is not None
            and held.member == exchange.who
            and held.link is exchange.link
            and held.life == exchange.life
            and not held.doubts - {exchange}
            and exchange.sent < held.locked_from + self.rules.lock_seconds - TICK_SECONDS
            and self._session_ended.get(held.member, -1.0) < held.arrived
        )

    def _acknowledgement_answered(
        self, exchange: Exchange, index: int, entry: Entry, kind: int, error: ErrorCode
    ) -> None:
        held = entry.holding
        if error in NO_EFFECT:
            entry.perhaps_complete.discard(exchange)
            if held is not None:
                held.doubts.discard(exchange)
        if error:
            return
        self._counts[f"acknowledged by {kind}"] += 1
        if held is None or not self._is_surely_held(held, exchange):
            return  # perhaps below the start offset: then it was ignored
        is_kept = index in self._initialized
        if is_kept and (kind in COMPLETING or (kind == RELEASE and held.count >= self.rules.limit)):
            entry.complete = entry.complete or (held.count, exchange.sent)
        if is_kept and kind == RELEASE:
            entry.durable_count = max(entry.durable_count, held.count)
        if kind == RENEW:
            held.locked_from = max(held.locked_from, exchange.arrived)

    # --- deliveries ---

    def _delivered(self, exchange: Exchange, index: int, data: Any) -> None:
        values = dict(iterate_records(data.records)) if data.records else {}
        for acquired in data.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset not in values:
                    raise Violation(f"{exchange.who} acquired {index}@{offset}, which is no record")
                self._records.delivered(index, offset, values[offset].value or b"")
                self._check_transaction(index, offset)
                self._delivered_one(exchange, index, offset, acquired.delivery_count)

    def _check_transaction(self, index: int, offset: int) -> None:
        if self.rules.is_committed and not self._records.may_be_committed(index, offset):
            raise Violation(f"{self.group_id} got {index}@{offset}, which was never committed")

    def _delivered_one(self, exchange: Exchange, index: int, offset: int, count: int) -> None:
        entry, where = self._entries[index, offset], f"{self.group_id} {index}@{offset}"
        what = f"{where} was delivered to {exchange.who}, count {count}"
        if count > self.rules.limit:
            raise Violation(f"{what}, and the limit is {self.rules.limit}")
        if count <= max(entry.counts.get(exchange.life, 0), entry.durable_count):
            raise Violation(f"{what}, and before {entry.counts}, durably {entry.durable_count}")
        if entry.complete is not None and exchange.arrived > entry.complete[1]:
            raise Violation(f"{what}, and it was complete at {entry.complete}")
        held = entry.holding
        if held is not None and held.life == exchange.life and self._is_still_held(held, exchange):
            raise Violation(f"{what}, and {held.member} has it")
        if index in self._initialized:
            self._begins[index] = min(offset, self._begins.get(index, offset))
        self._counts["deliveries"] += 1
        self._counts["deliveries again"] += count > 1
        entry.counts[exchange.life] = count
        arrived = exchange.arrived
        entry.holding = Holding(exchange.who, exchange.link, exchange.life, count, arrived, arrived)

    def _is_still_held(self, held: Holding, exchange: Exchange) -> bool:
        return (
            not held.doubts
            and exchange.sent < held.locked_from + self.rules.lock_seconds - TICK_SECONDS
            and self._session_ended.get(held.member, -1.0) < held.arrived
        )

    # --- start offsets ---

    def _described(self, answer: Any) -> None:
        for group in answer.groups:
            if group.group_id != self.group_id or group.error_code:
                continue
            for topic in group.topics:
                self._initialized.update(one.partition_index for one in topic.partitions)
                for one in topic.partitions:
                    if not one.error_code and one.start_offset >= 0:
                        self._started_at(one.partition_index, one.start_offset, one.lag)

    def _started_at(self, index: int, start: int, lag: int) -> None:
        before = self.starts.get(index)
        if before is None:
            before = self._begins[index] = self._first_start(index, start)
        if start < before:
            raise Violation(f"the start of {self.group_id} {index} moved back from {before} to {start}")
        for offset in range(before, start):
            self._check_complete(index, offset, f"the start moved to {start}")
        if lag < -1:
            raise Violation(f"the lag of {self.group_id} {index} is {lag}")
        self._counts["starts that moved"] += start > before
        self.starts[index] = start

    def _first_start(self, index: int, start: int) -> int:
        """Return where a partition began at the latest, of which the first known start is given."""
        return min(start, self._begins.get(index, start)) if self.rules.begins_at_the_end else 0

    def _check_complete(self, index: int, offset: int, why: str) -> None:
        if not self._records.is_deliverable(index, offset, is_committed=self.rules.is_committed):
            return
        entry = self._entries[index, offset]
        most = max(entry.counts.values(), default=0) + self._unseen
        if entry.complete is None and not entry.perhaps_complete and most < self.rules.limit:
            raise Violation(f"{why}, and {self.group_id} {index}@{offset} is not complete: {entry}")

    def check_end(self) -> None:
        """Check that nothing is left. Raises Violation."""
        for index, offset in self._records.acknowledged():
            if offset >= self._begins[index]:
                self._check_complete(index, offset, "this is the end")


def _partitions(answer: Any) -> Iterator[tuple[int, Any]]:
    for topic in answer.responses:
        for data in topic.partitions:
            yield data.partition_index, data


def _errors(exchange: Exchange) -> dict[int, ErrorCode]:
    is_fetch = isinstance(exchange.request, ShareFetchRequest)
    return {
        index: ErrorCode(data.acknowledge_error_code if is_fetch else data.error_code)
        for index, data in _partitions(exchange.answer)
    }


def _batches(request: Any) -> Iterator[tuple[int, list[Any]]]:
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                yield partition.partition_index, partition.acknowledgement_batches


def _each(batches: list[Any]) -> Iterator[tuple[int, int]]:
    """Yield each offset with the type of its acknowledgement."""
    for batch in batches:
        types = batch.acknowledge_types
        for place, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
            yield offset, types[0] if len(types) == 1 else types[place]


def _acknowledged(request: Any) -> Iterator[tuple[int, int, int]]:
    for index, batches in _batches(request):
        for offset, kind in _each(batches):
            yield index, offset, kind
