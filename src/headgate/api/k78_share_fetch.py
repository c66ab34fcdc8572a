"""ShareFetch (78), versions 1-2: acquire records for a member of a share group, and acknowledge (KIP-932).

* Acknowledgements are applied before records are acquired; the response waits until they are durable.
* A request with the final epoch only acknowledges; then what the member still has is released.
* A request that renews locks (version 2, KIP-1222) only acknowledges too, and must ask for no records.
* A response has the partitions with acquired records, errors or acknowledgements; the first one of a session
  has all partitions. It has at most a mebibyte of batches, but at least one batch.
* `min_bytes` is not waited for: what is available is acquired at once.
* Whoever fetches need not be a member, as in Kafka.
* Unlike in Kafka, an unknown topic id is an error of its partitions, not of the whole request, and markers of
  transactions are never acquired.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.registration import Api
from headgate.api.share_requests import (
    acknowledge_message,
    acknowledged,
    answer_with,
    by_topic,
    check_member,
    end_with_connection,
    has_acknowledgements,
    keys_of,
    needs,
    session_request,
)
from headgate.core.share.fetching import (
    AcknowledgeErrors,
    DeliveredRecords,
    ShareFetchWish,
)
from headgate.core.share.partition.model import AcquireMode
from headgate.core.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PARTITIONS_A_STEP,
    PartitionKey,
    SessionRequest,
    ShareSession,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.wire.messages.share_fetch import (
    AcquiredRecords,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)


class _Fetch:
    """One request, until its acknowledgements are durable and its records acquired."""

    def __init__(self, node: Node, call: Call, request: ShareFetchRequest, session: ShareSession) -> None:
        self._node = node
        self._call = call
        self._request = request
        self._session = session
        self._errors: AcknowledgeErrors | None = None
        self._delivered: Sequence[DeliveredRecords] | None = None

    def begin(self) -> None:
        """Acknowledge, and fetch unless this is the last request or one that only renews."""
        on_done = self._call.guard(self._acknowledged)
        steps = acknowledged(self._node, self._request, self._session, on_done)
        self._call.in_steps(steps, lambda nothing: self._begin_fetch())

    def _begin_fetch(self) -> None:
        request = self._request
        if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
            self._deliver([])
        else:
            self._prepare(_rotated(list(self._session.partitions), request.share_session_epoch))

    def _prepare(self, keys: Sequence[PartitionKey]) -> None:
        shares, group_id = self._node.shares, self._session.group_id
        if shares.needs_preparation(group_id, keys):
            self._call.in_steps(shares.prepare(group_id, keys), lambda nothing: self._fetch(keys))
        else:
            self._fetch(keys)

    def _fetch(self, keys: Sequence[PartitionKey]) -> None:
        request = self._request
        wish = ShareFetchWish(
            session=self._session,
            partitions=keys,
            max_wait_ms=request.max_wait_ms,
            max_bytes=request.max_bytes,
            max_records=request.max_records,
            batch_size=request.batch_size,
            mode=AcquireMode(request.share_acquire_mode),
        )
        fetch = self._node.shares.fetch(wish, self._call.guard(self._deliver))
        self._call.when_lost(fetch.cancel)
        self._call.in_steps(fetch.begin(), lambda nothing: None)

    def _acknowledged(self, errors: AcknowledgeErrors) -> None:
        self._errors = errors
        self._answer_if_complete()

    def _deliver(self, delivered: Sequence[DeliveredRecords]) -> None:
        self._delivered = delivered
        self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        errors, delivered = self._errors, self._delivered
        if errors is None or delivered is None:
            return
        node = self._node
        keys = list(dict.fromkeys([*(one.key for one in delivered), *errors, *self._always_answered()]))
        lock_ms = node.shares.lock_duration_ms(self._session.group_id)
        leader = LeaderIdAndEpoch(leader_id=node.node_id, leader_epoch=node.topics.leader_epoch)
        answer_with(self._call, partial(_response, keys, errors, delivered, lock_ms, leader), len(keys))

    def _always_answered(self) -> Sequence[PartitionKey]:
        """Return the partitions that the response has in any case: all of a new session."""
        is_new = self._request.share_session_epoch == INITIAL_EPOCH and not self._request.is_renew_ack
        return tuple(self._session.partitions) if is_new else ()


def _response(
    keys: Sequence[PartitionKey],
    errors: AcknowledgeErrors,
    delivered: Sequence[DeliveredRecords],
    lock_ms: int,
    leader: LeaderIdAndEpoch,
) -> ShareFetchResponse:
    found = {one.key: one for one in delivered}
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            ShareFetchableTopicResponse(
                topic_id=topic_id,
                partitions=[
                    _partition_data(
                        index,
                        errors.get((topic_id, index), ErrorCode.NONE),
                        found.get((topic_id, index)),
                        leader,
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in by_topic(keys).items()
        ],
    )


def _partition_data(
    index: int, error: ErrorCode, found: DeliveredRecords | None, leader: LeaderIdAndEpoch
) -> PartitionData:
    data = PartitionData(
        partition_index=index,
        acknowledge_error_code=error,
        acknowledge_error_message=acknowledge_message(error),
        records=b"",
    )
    if found is not None:
        data.error_code = found.error
        if found.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            data.current_leader = leader
        data.records = found.records
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in found.acquired
        ]
    return data


def _rotated(keys: list[PartitionKey], epoch: int) -> list[PartitionKey]:
    """Begin with another partition in each fetch, so that none of many is always the last one."""
    begin = epoch % len(keys) if keys else 0
    return keys[begin:] + keys[:begin]


def handle(node: Node, call: Call, request: ShareFetchRequest) -> ShareFetchResponse | None:
    """Check the request, find its session, then acknowledge and fetch."""
    error = check_member(request) or _check(request)
    if error:
        return ShareFetchResponse(error_code=error)
    if _named(request.topics) + _named(request.forgotten_topics_data) > PARTITIONS_A_STEP:

        def begin(asked: SessionRequest) -> None:
            response = _begin_long(node, call, request, asked)
            if response is not None:
                call.answer(response)

        call.in_steps(_read(call, request), begin)
        return None
    asked = session_request(
        call,
        request,
        added=keys_of(request.topics),
        forgotten=_forgotten(request.forgotten_topics_data),
        has_acknowledgements=has_acknowledgements(request.topics),
    )
    _make_room(node, asked)
    session = node.shares.sessions.begin_fetch(asked)
    if isinstance(session, ErrorCode):
        return _refuse(node, call, request, session)
    _note_first(node, call, asked)
    _Fetch(node, call, request, session).begin()
    return None


def _make_room(node: Node, asked: SessionRequest) -> None:
    """End a session of a connection with many, if that of this request has no place otherwise."""
    in_the_way = node.shares.sessions.in_the_way(asked)
    if in_the_way is not None:
        node.shares.give_up(in_the_way)


def _note_first(node: Node, call: Call, asked: SessionRequest) -> None:
    """End a session that this request has begun with its connection."""
    if asked.epoch == INITIAL_EPOCH:
        end_with_connection(node, call)


# --- requests that name very many partitions ---


def _named(topics: Sequence[FetchTopic | ForgottenTopic]) -> int:
    return sum(len(topic.partitions) for topic in topics)


def _forgotten(topics: Sequence[ForgottenTopic]) -> list[PartitionKey]:
    return [(TopicId(topic.topic_id), index) for topic in topics for index in topic.partitions]


def _read(call: Call, request: ShareFetchRequest) -> RequestSteps[SessionRequest]:
    """Return what a long request says about its session, in steps."""
    added: list[PartitionKey] = []
    forgotten: list[PartitionKey] = []
    is_acknowledging = False
    for topic in request.topics:
        for first in range(0, len(topic.partitions), PARTITIONS_A_STEP):
            some = topic.partitions[first : first + PARTITIONS_A_STEP]
            part = (FetchTopic(topic_id=topic.topic_id, partitions=some),)
            added += keys_of(part)
            is_acknowledging = is_acknowledging or has_acknowledgements(part)
            yield None
    for gone in request.forgotten_topics_data:
        for first in range(0, len(gone.partitions), PARTITIONS_A_STEP):
            indexes = gone.partitions[first : first + PARTITIONS_A_STEP]
            forgotten += _forgotten((ForgottenTopic(topic_id=gone.topic_id, partitions=indexes),))
            yield None
    return session_request(
        call, request, added=added, forgotten=forgotten, has_acknowledgements=is_acknowledging
    )


def _begin_long(
    node: Node, call: Call, request: ShareFetchRequest, asked: SessionRequest
) -> ShareFetchResponse | None:
    """Begin the session at once, so that it ends with the connection; change its partitions in steps."""
    _make_room(node, asked)
    session = node.shares.sessions.begin_long_fetch(asked)
    if isinstance(session, ErrorCode):
        return _refuse(node, call, request, session)
    _note_first(node, call, asked)
    steps = node.shares.sessions.change_in_steps(session, asked)
    call.in_steps(steps, lambda nothing: _Fetch(node, call, request, session).begin())
    return None


def _check(request: ShareFetchRequest) -> ErrorCode:
    if request.share_acquire_mode not in tuple(AcquireMode):
        return ErrorCode.INVALID_REQUEST
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refuse(
    node: Node, call: Call, request: ShareFetchRequest, error: ErrorCode
) -> ShareFetchResponse | None:
    """Return the error, later if there are too many sessions: the client would ask again at once."""
    response = ShareFetchResponse(error_code=error)
    if error != ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return response
    node.shares.session_refused(call)
    if request.max_wait_ms <= 0:
        return response
    cancel = node.call_later(request.max_wait_ms, call.guard(lambda: call.answer(response)))
    call.when_lost(cancel)
    return None


API = Api(78, "ShareFetch", 1, 2, ShareFetchRequest, ShareFetchResponse, handle, needs=needs)
