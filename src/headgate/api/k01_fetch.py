"""Fetch (key 1), versions 4-18: read records.

A fetch with too few bytes to return is parked with its partitions' waiters until enough was appended or
`max_wait_ms` has passed. A response has whole batches, at most `max_bytes` in all and `partition_max_bytes`
per partition; but the first partition with records returns at least one batch, whatever its size. No response
has more than `_MOST_BYTES`; the limits need not be reached.

* From version 7 within a fetch session (KIP-227), from 13 by topic id (KIP-516).
* A negative limit of bytes counts as 0; Kafka answers UNKNOWN_SERVER_ERROR.
* From version 9 the client's leader epoch is checked (KIP-320).
* With the isolation level read_committed (KIP-98) a fetch never passes the last stable offset and waits for
  bytes below it, and the aborted transactions among the batches are listed.
* `replica_id`, `rack_id` and the KRaft fields are for followers, which do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import topic_name, topic_need, topic_needs
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.log.transaction_index import ListedTransactions
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.topics.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchContext,
    FetchedPartition,
    PartitionOutcome,
    RequestedPartition,
    SessionRequest,
)
from headgate.topics.opening_aside import opened_aside
from headgate.topics.partition import Partition, ReadResult
from headgate.topics.waiters import Waiter, Waiters
from headgate.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from headgate.wire.wide import NARROWEST_WIDE, WideStructs

_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 16
_READ_COMMITTED = 1
_MOST_AT_ONCE = 500
"""More partitions are read in steps: each takes some microseconds."""
_MOST_BYTES_AT_ONCE = 256 << 10
"""More bytes are read in steps, few such requests at a time: each megabyte takes some milliseconds."""
_MOST_ABORTED_AT_ONCE = 20_000
"""A response with more aborted transactions is encoded in a thread: each thousand takes some 0.1 ms."""
_MOST_BYTES = 4 << 20
"""Maximum of a response, which is in memory until the client has read it."""
_LATER: Future[None] = Future()
"""Done already: steps that yield it continue in a later iteration of the loop."""
_LATER.set_result(None)


class _Found(NamedTuple):
    """The result of one partition."""

    wanted: FetchedPartition
    partition: Partition | None
    result: ReadResult


class _Fetch:
    """One fetch, from its arrival to its response."""

    __slots__ = (
        "_call",
        "_cancel_timeout",
        "_context",
        "_found_bytes",
        "_has_error",
        "_is_lost",
        "_is_reading",
        "_is_time_over",
        "_is_woken",
        "_node",
        "_request",
        "_waiter",
        "_was_read_at_once",
    )

    def __init__(self, node: Node, call: Call, request: FetchRequest, context: FetchContext) -> None:
        self._node = node
        self._call = call
        self._request = request
        self._context = context
        self._waiter: Waiter | None = None
        self._cancel_timeout: Callable[[], None] | None = None
        self._is_woken = False
        self._is_reading = False
        """Whether partitions are being read in steps."""
        self._is_time_over = False
        self._is_lost = False
        self._was_read_at_once = True
        self._found_bytes = 0
        """Record bytes of the last read, of all partitions."""
        self._has_error = False
        """Whether a partition failed in the last read."""

    def begin(self) -> FetchResponse | None:
        """Return the response if there is enough to return, or None if it comes later."""
        found = self._read_at_once()
        self._was_read_at_once = found is not None
        if found is None:
            self._read_soon(self._begin_with)
            return None
        if self._park_if_short(found):
            return None
        if not _has_many_aborted(found):
            return self._respond(found)
        self._answer(found)
        return None

    def _begin_with(self, found: list[_Found]) -> None:
        if not self._park_if_short(found):
            self._answer(found)

    def _park_if_short(self, found: list[_Found]) -> bool:
        """Park the fetch if there is too little to return; return whether it was parked."""
        missing_bytes = self._missing_bytes(found)
        if missing_bytes <= 0 or self._request.max_wait_ms <= 0:
            return False
        self._cancel_timeout = self._node.call_later(
            self._request.max_wait_ms, self._call.guard(self._time_out)
        )
        self._park(found, missing_bytes)
        self._call.when_lost(self._abandon)
        return True

    def _abandon(self) -> None:
        """Remove waiter and timer: the connection is lost."""
        self._is_lost = True
        self._is_woken = False
        if self._waiter is not None:
            self._waiters.remove(self._waiter)
        if self._cancel_timeout is not None:
            self._cancel_timeout()

    def _park(self, found: list[_Found], missing_bytes: int) -> None:
        keys = [one.partition.key for one in found if one.partition is not None]
        self._waiter = self._waiters.add(keys, missing_bytes, self._wake)
        if not self._was_read_at_once:
            self._call.in_steps(self._has_moved(found), partial(self._wake_if, self._waiter))

    def _has_moved(self, found: list[_Found]) -> RequestSteps[bool]:
        """Return whether the end of the visible records of any partition has changed since it was read."""
        for one in found:
            yield None
            partition = None if one.partition is None else one.partition.current
            if partition is None or not partition.is_open:
                continue
            if self._is_committed:
                has_moved = partition.last_stable_offset != one.result.last_stable_offset
            else:
                has_moved = partition.high_watermark != one.result.high_watermark
            if has_moved:
                return True
        return False

    def _wake_if(self, waiter: Waiter, has_moved: bool) -> None:
        """Read again if records became visible before the fetch was parked."""
        if has_moved and self._waiter is waiter:
            self._waiters.remove(waiter)
            self._wake()

    def _wake(self) -> None:
        # Read after this iteration of the loop, which may append to more of the partitions and wake others.
        self._waiter = None
        self._is_woken = True
        self._node.soon(self._call.guard(self._look_again))

    def _look_again(self) -> None:
        if not self._is_woken:
            return
        self._is_woken = False
        self._read(self._finish_or_park)

    def _finish_or_park(self, found: list[_Found]) -> None:
        missing_bytes = self._missing_bytes(found)
        if missing_bytes > 0 and not self._is_time_over:
            self._park(found, missing_bytes)
            return
        if self._cancel_timeout is not None:
            self._cancel_timeout()
        self._answer(found)

    def _time_out(self) -> None:
        self._is_time_over = True
        if self._is_reading:
            return  # its result is the response
        self._is_woken = False
        if self._waiter is not None:
            self._waiters.remove(self._waiter)
        self._read(self._answer)

    def _answer(self, found: list[_Found]) -> None:
        if self._is_wide:
            self._call.answer_in_steps(self._respond_in_steps(found))
            return
        response = self._respond(found)
        if _has_many_aborted(found):
            self._call.answer_aside(lambda: response)
        else:
            self._call.answer(response)

    def _missing_bytes(self, found: list[_Found]) -> int:
        """Return how many bytes are missing; 0 also if there is something to report at once."""
        if not found or self._has_error:
            return 0
        # No response exceeds `max_bytes`, so no fetch waits for more.
        return min(self._request.min_bytes, self._most_bytes()) - self._found_bytes

    def _read(self, then: Callable[[list[_Found]], None]) -> None:
        """Read all partitions, now or in steps, then call `then` with the results."""
        found = self._read_at_once()
        self._was_read_at_once = found is not None
        if found is not None:
            then(found)
            return
        self._is_reading = True

        def finish(found: list[_Found]) -> None:
            self._is_reading = False
            then(found)

        self._read_soon(finish)

    def _read_soon(self, then: Callable[[list[_Found]], None]) -> None:
        """Read all partitions in steps, after those of earlier fetches."""
        self._call.when_lost(self._abandon)
        self._call.in_steps(self._read_later(), then)

    @property
    def _is_committed(self) -> bool:
        return self._request.isolation_level == _READ_COMMITTED

    @property
    def _waiters(self) -> Waiters:
        topics = self._node.topics
        return topics.committed_waiters if self._is_committed else topics.waiters

    @property
    def _is_wide(self) -> bool:
        return len(self._context) > _MOST_AT_ONCE

    def _most_bytes(self) -> int:
        return max(0, min(self._request.max_bytes, int(self._node.settings["fetch.max.bytes"]), _MOST_BYTES))

    def _read_at_once(self) -> list[_Found] | None:
        """Read all partitions; return None if that may take long: many partitions or bytes, or a log to
        open.
        """
        if self._is_wide:
            return None
        left = most = self._most_bytes()
        not_at_once = most - _MOST_BYTES_AT_ONCE
        is_empty = True
        has_error = False
        found: list[_Found] = []
        for wanted in self._context.partitions():
            partition, error = self._find(wanted)
            if partition is None or error != ErrorCode.NONE:
                found.append(_Found(wanted, partition, ReadResult(error)))
                has_error = True
                continue
            if partition.needs_opening:
                return None
            limit = max(0, min(left, wanted.max_bytes))
            result = partition.read_unless(
                wanted.fetch_offset,
                limit,
                minimum_one=is_empty,
                unless_bytes=left - not_at_once,
                is_committed=self._is_committed,
            )
            if result is None:
                return None
            if result.records:
                is_empty = False
                left -= len(result.records)
            elif result.error != ErrorCode.NONE:
                has_error = True
            found.append(_Found(wanted, partition, result))
        self._note(most - left, has_error=has_error)
        return found

    def _read_later(self) -> RequestSteps[list[_Found]]:
        """Read all partitions in a later iteration of the loop."""
        yield _LATER
        return [] if self._is_lost else (yield from self._read_in_steps())

    def _read_in_steps(self) -> RequestSteps[list[_Found]]:
        """Read all partitions, one after the other."""
        left = most = self._most_bytes()
        is_empty = True
        has_error = False
        found: list[_Found] = []
        for wanted in self._context.partitions():
            yield None
            partition, error = self._find(wanted)
            if partition is None or error != ErrorCode.NONE:
                found.append(_Found(wanted, partition, ReadResult(error)))
                has_error = True
                continue
            yield from opened_aside(partition)
            result = partition.read(
                wanted.fetch_offset,
                max(0, min(left, wanted.max_bytes)),
                minimum_one=is_empty,
                is_committed=self._is_committed,
            )
            if result.records:
                is_empty = False
                left -= len(result.records)
            elif result.error != ErrorCode.NONE:
                has_error = True
            found.append(_Found(wanted, partition, result))
        self._note(most - left, has_error=has_error)
        return found

    def _note(self, found_bytes: int, *, has_error: bool) -> None:
        """Keep the totals of a read of all partitions."""
        self._found_bytes, self._has_error = found_bytes, has_error

    def _find(self, wanted: FetchedPartition) -> tuple[Partition | None, ErrorCode]:
        name = wanted.key.topic
        if isinstance(name, str):
            topic = self._node.topics.by_name(name)
        else:
            topic = self._node.topics.by_id(name)
            if topic is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
        partition = None if topic is None else topic.find_partition(wanted.key.partition)
        if partition is None:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Fetch accepts any epoch for a negative one; other APIs only for -1.
        return partition, partition.check_leader_epoch(max(wanted.current_leader_epoch, -1))

    def _respond(self, found: list[_Found]) -> FetchResponse:
        response = FetchResponse(session_id=self._context.session_id)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for one in found:
            self._add_to_response(one, response, topics)
        return response

    def _respond_in_steps(self, found: list[_Found]) -> RequestSteps[FetchResponse]:
        response = FetchResponse(session_id=self._context.session_id)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for one in found:
            yield None
            self._add_to_response(one, response, topics)
        return response

    def _add_to_response(
        self, one: _Found, response: FetchResponse, topics: dict[str | bytes, FetchableTopicResponse]
    ) -> None:
        """Add the result of a partition to the response, if the session includes it."""
        result = one.result
        outcome = PartitionOutcome(
            bool(result.records), result.error, result.high_watermark, result.log_start_offset
        )
        if not self._context.settle(outcome, one.wanted):
            return
        name = one.wanted.key.topic
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchableTopicResponse(topic=name)
                if isinstance(name, str)
                else FetchableTopicResponse(topic_id=name)
            )
            response.responses.append(topic)
        topic.partitions.append(self._partition_data(one))

    def _partition_data(self, one: _Found) -> PartitionData:
        result = one.result
        aborted: Any = None
        if one.partition is None or (self._is_committed and result.error == ErrorCode.NONE):
            aborted = _listed(result.aborted)
        data = PartitionData(
            partition_index=one.wanted.key.partition,
            error_code=result.error,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=aborted,
            records=result.records,
        )
        if result.error == ErrorCode.FENCED_LEADER_EPOCH and self._call.api_version >= _LEADERS_SINCE:
            data.current_leader = LeaderIdAndEpoch(
                leader_id=self._node.node_id, leader_epoch=self._node.topics.leader_epoch
            )
        return data


def handle(node: Node, call: Call, request: FetchRequest) -> FetchResponse | None:
    """Find the session, then read the records."""
    if _named(request.topics) + _named(request.forgotten_topics_data) > _MOST_AT_ONCE:

        def begin(context: FetchContext | ErrorCode) -> None:
            response = _begin(node, call, request, context)
            if response is not None:
                call.answer(response)

        call.in_steps(_context_in_steps(node, call, request), begin)
        return None
    asked = _session_request(call, request, _wanted(call, request.topics))
    return _begin(node, call, request, node.topics.fetch_sessions.begin(asked, node.steady_time()))


def _named(topics: Sequence[FetchTopic | ForgottenTopic]) -> int:
    """Return the number of partitions named."""
    return sum(len(topic.partitions) for topic in topics)


def _context_in_steps(
    node: Node, call: Call, request: FetchRequest
) -> RequestSteps[FetchContext | ErrorCode]:
    asked = _session_request(call, request, (yield from _wanted_in_steps(call, request)))
    return (yield from node.topics.fetch_sessions.begin_in_steps(asked, node.steady_time()))


def _begin(
    node: Node, call: Call, request: FetchRequest, context: FetchContext | ErrorCode
) -> FetchResponse | None:
    if isinstance(context, ErrorCode):
        return FetchResponse(error_code=context)
    return _Fetch(node, call, request, context).begin()


def _wanted(call: Call, topics: Sequence[FetchTopic]) -> list[FetchedPartition]:
    uses_topic_ids = call.api_version >= _TOPIC_IDS_SINCE
    return [
        FetchedPartition(
            RequestedPartition(topic.topic_id if uses_topic_ids else topic.topic, partition.partition),
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
        )
        for topic in topics
        for partition in topic.partitions
    ]


def _wanted_in_steps(call: Call, request: FetchRequest) -> RequestSteps[list[FetchedPartition]]:
    wanted: list[FetchedPartition] = []
    for topic in request.topics:
        for first in range(0, len(topic.partitions), _MOST_AT_ONCE):
            some = topic.partitions[first : first + _MOST_AT_ONCE]
            wanted += _wanted(
                call, (FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=some),)
            )
            yield None
    return wanted


def _session_request(call: Call, request: FetchRequest, wanted: list[FetchedPartition]) -> SessionRequest:
    uses_topic_ids = call.api_version >= _TOPIC_IDS_SINCE
    forgotten: Iterable[RequestedPartition] = ()
    if request.forgotten_topics_data:
        forgotten = (
            RequestedPartition(topic.topic_id if uses_topic_ids else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        )
    return SessionRequest(request.session_id, request.session_epoch, uses_topic_ids, wanted, forgotten)


def needs(node: Node, call: Call, request: FetchRequest) -> Iterator[Need]:
    """Return the needs: READ on each topic fetched: those in the request, and those of its session."""
    yield from topic_needs(node, Operation.READ, request.topics)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return
    for named in node.topics.fetch_sessions.topics_of(request.session_id):
        name = topic_name(node, named)
        if name is not None:
            yield topic_need(Operation.READ, name)


def _has_many_aborted(found: Iterable[_Found]) -> bool:
    """Return whether the response with these results takes long to encode."""
    return sum(len(one.result.aborted) for one in found) > _MOST_ABORTED_AT_ONCE


def _listed(aborted: ListedTransactions) -> Any:
    """Return aborted transactions for the response, many of them in columns."""
    if len(aborted) < NARROWEST_WIDE:
        return [AbortedTransaction(producer_id=id_, first_offset=at) for id_, at in aborted]
    columns = {"producer_id": aborted.producer_ids, "first_offset": aborted.first_offsets}
    return WideStructs(AbortedTransaction(), columns)


API = Api(
    key=1,
    name="Fetch",
    min_version=4,
    max_version=18,
    request_type=FetchRequest,
    response_type=FetchResponse,
    handle=handle,
    needs=needs,
)
