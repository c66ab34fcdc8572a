"""Fetch sessions (KIP-227): a consumer names its partitions once, then sends and receives only changes.

Sans I/O. `FetchSessions.begin` turns the session fields of a request into a `FetchContext`: the partitions to
read, in order, and the decision which results to send. Rules, from KIP-227 and Kafka's answers:

1. Epoch -1 closes the session named and fetches without one. Epoch 0 closes the session named and asks for a
   new one, which is created if a slot is free. Any other epoch must be the next epoch of the session.
2. An unknown session is FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH, a change
   between names and topic ids FETCH_SESSION_TOPIC_ID_ERROR; the client then starts again with epoch 0.
3. An incremental response omits a partition without records, error, or new high watermark or log start.
4. A partition that returned records goes to the end of the order, so that all partitions get a share of full
   responses.
5. When all slots are taken, a new session replaces one that was idle for two minutes, or else a smaller one
   that is older than two minutes.
6. All sessions together hold at most MOST_PARTITIONS. A request beyond that gets no session, and a session
   that grows beyond it is removed: its client starts again, without one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis

ValueT = TypeVar("ValueT")

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MOST_PARTITIONS = 500_000
"""Each takes a quarter of a kilobyte, whether or not it exists."""
_TAKEN_AT_ONCE = 500
"""Partitions that one step of a long request handles; each takes a microsecond."""
_MAXIMUM_EPOCH = (1 << 31) - 1


class RequestedPartition(NamedTuple):
    """A partition as the request names it: its topic by name, or by the 16 bytes of its id (Fetch 13+)."""

    topic: str | bytes
    partition: int


@dataclass(slots=True)
class FetchedPartition:
    """The client's parameters for one partition, and the values last sent to it (-1: none yet)."""

    key: RequestedPartition
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    known_high_watermark: int = -1
    known_log_start_offset: int = -1


@dataclass(slots=True, frozen=True)
class SessionRequest:
    """The session fields of a fetch request."""

    session_id: int
    epoch: int
    uses_topic_ids: bool
    wanted: list[FetchedPartition]
    forgotten: Iterable[RequestedPartition] = ()
    """Iterated once."""


@dataclass(slots=True, frozen=True)
class PartitionOutcome:
    """The fields of a partition's result that decide whether an incremental response includes it."""

    has_records: bool
    error: ErrorCode
    high_watermark: int
    log_start_offset: int


@dataclass(slots=True)
class _Session:
    session_id: int
    uses_topic_ids: bool
    created_at: Millis
    last_used_at: Millis
    partitions: dict[RequestedPartition, FetchedPartition]
    next_epoch: int = 1
    # The size that evictions compare: that of the last use, as in Kafka.
    size: int = 0


def _epoch_after(epoch: int) -> int:
    return 1 if epoch == _MAXIMUM_EPOCH else epoch + 1


class FetchContext:
    """One fetch in its session: the partitions to read, and the results to send."""

    __slots__ = ("_full", "_partitions", "_session", "session_id")

    def __init__(
        self, partitions: dict[RequestedPartition, FetchedPartition], session: _Session | None, *, full: bool
    ) -> None:
        self._partitions = partitions
        self._session = session
        self._full = full
        self.session_id = NO_SESSION if session is None else session.session_id

    def partitions(self) -> list[FetchedPartition]:
        """Return the partitions to read, least recently served first."""
        return list(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def should_send(self, outcome: PartitionOutcome, partition: FetchedPartition) -> bool:
        """Return whether the response would include a result (rule 3). Changes nothing: a long poll calls it
        repeatedly.
        """
        return (
            self._full
            or outcome.has_records
            or outcome.error != ErrorCode.NONE
            or outcome.high_watermark != partition.known_high_watermark
            or outcome.log_start_offset != partition.known_log_start_offset
        )

    def settle(self, outcome: PartitionOutcome, partition: FetchedPartition) -> bool:
        """Record a result in the session as the response is sent; return whether the response includes it."""
        should_send = self.should_send(outcome, partition)
        if self._session is None:
            return should_send
        if outcome.error != ErrorCode.NONE:
            # An error is sent until it ends, and the first result after it is always sent.
            partition.known_high_watermark = -1
        else:
            partition.known_high_watermark = outcome.high_watermark
            partition.known_log_start_offset = outcome.log_start_offset
        if outcome.has_records and self._partitions.pop(partition.key, None) is not None:
            self._partitions[partition.key] = partition
        return should_send


class FetchSessions:
    """Every fetch session of this node; `slots` is `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """`new_id` returns random positive 31-bit integers."""
        self._slots = slots
        self._new_id = new_id
        # In order of last use, least recent first.
        self._sessions: dict[int, _Session] = {}
        self._partition_count = 0
        """Number of partitions of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def topics_of(self, session_id: int) -> list[str | bytes]:
        """Return the topics of a session as its client names them; an empty list for an unknown session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(dict.fromkeys(key.topic for key in session.partitions))

    def begin(self, request: SessionRequest, now: Millis) -> FetchContext | ErrorCode:
        """Return the context of the request, or the error code of the whole response."""
        if request.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._begin_full(request, {partition.key: partition for partition in request.wanted}, now)
        session = self._session_of(request)
        if isinstance(session, ErrorCode):
            return session
        before = len(session.partitions)
        if request.wanted or request.forgotten:
            self._update(session, request.wanted, request.forgotten)
        return self._continue(session, before, now)

    def begin_in_steps(
        self, request: SessionRequest, now: Millis
    ) -> Generator[None, None, FetchContext | ErrorCode]:
        """Do the same as `begin` for a request with many partitions, some in each step."""
        if request.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            partitions: dict[RequestedPartition, FetchedPartition] = {}
            for some in _some_at_a_time(request.wanted):
                partitions.update((partition.key, partition) for partition in some)
                yield None
            return self._begin_full(request, partitions, now)
        session = self._session_of(request)
        if isinstance(session, ErrorCode):
            return session
        before = len(session.partitions)
        for wanted in _some_at_a_time(request.wanted):
            self._update(session, wanted, ())
            yield None
        for forgotten in _some_at_a_time(request.forgotten):
            self._update(session, (), forgotten)
            yield None
        return self._continue(session, before, now)

    def _session_of(self, request: SessionRequest) -> _Session | ErrorCode:
        """Return the session that the request continues, and advance its epoch (rules 1 and 2)."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != request.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != request.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.next_epoch = _epoch_after(session.next_epoch)
        return session

    def _update(
        self, session: _Session, wanted: Iterable[FetchedPartition], forgotten: Iterable[RequestedPartition]
    ) -> None:
        """Add and change partitions, then remove some; do not count those of a session that was removed."""
        before = len(session.partitions)
        _update(session.partitions, wanted, forgotten)
        if self._is_known(session):
            self._partition_count += len(session.partitions) - before

    def _is_known(self, session: _Session) -> bool:
        return self._sessions.get(session.session_id) is session

    def _continue(self, session: _Session, before: int, now: Millis) -> FetchContext | ErrorCode:
        """Return the context of a continued session; `before` is how many partitions it had."""
        if not self._is_known(session):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if self._partition_count > MOST_PARTITIONS and len(session.partitions) > before:
            self._forget(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not session.partitions:
            self._forget(session.session_id)
            return FetchContext({}, None, full=True)
        session.last_used_at = now
        session.size = len(session.partitions)
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchContext(session.partitions, session, full=False)

    def _begin_full(
        self, request: SessionRequest, partitions: dict[RequestedPartition, FetchedPartition], now: Millis
    ) -> FetchContext:
        if request.session_id != NO_SESSION:
            self._forget(request.session_id)
        session: _Session | None = None
        if request.epoch == INITIAL_EPOCH and partitions and self._has_room_for(len(partitions), now):
            session = _Session(
                self._unused_id(), request.uses_topic_ids, now, now, partitions, size=len(partitions)
            )
            self._sessions[session.session_id] = session
            self._partition_count += len(partitions)
        return FetchContext(partitions, session, full=True)

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def _has_room_for(self, size: int, now: Millis) -> bool:
        if self._partition_count + size > MOST_PARTITIONS:
            for idle in [one for one in self._sessions.values() if now - one.last_used_at > EVICTION_MS]:
                self._forget(idle.session_id)
            if self._partition_count + size > MOST_PARTITIONS:
                return False
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used_at > EVICTION_MS:
            self._forget(oldest.session_id)
            return True
        settled = [session for session in self._sessions.values() if now - session.created_at > EVICTION_MS]
        smallest = min(settled, key=lambda session: session.size, default=None)
        if smallest is None or smallest.size >= size:
            return False
        self._forget(smallest.session_id)
        return True

    def _unused_id(self) -> int:
        while (session_id := self._new_id()) in self._sessions or session_id == NO_SESSION:
            pass
        return session_id


def _some_at_a_time(values: Iterable[ValueT]) -> Iterator[list[ValueT]]:
    left = iter(values)
    while some := list(islice(left, _TAKEN_AT_ONCE)):
        yield some


def _update(
    partitions: dict[RequestedPartition, FetchedPartition],
    wanted: Iterable[FetchedPartition],
    forgotten: Iterable[RequestedPartition],
) -> None:
    """Add, change and remove partitions: added ones go to the end, changed ones keep their place."""
    for partition in wanted:
        known = partitions.get(partition.key)
        if known is None:
            partitions[partition.key] = partition
        else:
            known.fetch_offset = partition.fetch_offset
            known.max_bytes = partition.max_bytes
            known.current_leader_epoch = partition.current_leader_epoch
    for key in forgotten:
        partitions.pop(key, None)
