"""What ShareFetch (78) and ShareAcknowledge (79) have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import group_need, topic_needs
from headgate.core.share.fetching import AcknowledgeErrors, Acknowledgements
from headgate.core.share.partition.model import AcknowledgementBatch
from headgate.core.share.sessions import FINAL_EPOCH, PartitionKey, SessionRequest, ShareSession
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.message import Message

_LONGEST_MEMBER_ID: Final = 36
_NOT_ACQUIRED: Final = "The member has not acquired all of these records, or not any more."
_BATCHES_A_STEP: Final = 1_000
"""Partitions and batches of a request that are read in one step."""
_MANY: Final = 100
"""A response with more partitions takes some milliseconds to make and to encode."""


def acknowledge_message(error: ErrorCode) -> str | None:
    """Return the explanation of an acknowledgement's error, if it needs one."""
    return _NOT_ACQUIRED if error == ErrorCode.INVALID_RECORD_STATE else None


def check_member(request: Any) -> ErrorCode:
    """Return INVALID_REQUEST if the request names no group, or no valid member id."""
    if not request.group_id or not request.member_id or len(request.member_id) > _LONGEST_MEMBER_ID:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def keys_of(topics: Sequence[Any]) -> list[PartitionKey]:
    """Return the partitions that a request names."""
    return [
        (TopicId(topic.topic_id), partition.partition_index)
        for topic in topics
        for partition in topic.partitions
    ]


def has_acknowledgements(topics: Sequence[Any]) -> bool:
    """Return whether a request acknowledges anything."""
    return any(partition.acknowledgement_batches for topic in topics for partition in topic.partitions)


def acknowledgements_of(topics: Sequence[Any]) -> RequestSteps[Acknowledgements]:
    """Return the acknowledgements of a request, by partition; none for a partition without batches."""
    given: dict[PartitionKey, list[AcknowledgementBatch]] = {}
    count = 0
    for topic in topics:
        for partition in topic.partitions:
            count += 1
            if not count % _BATCHES_A_STEP:
                yield None
            if partition.acknowledgement_batches:
                batches = given.setdefault((TopicId(topic.topic_id), partition.partition_index), [])
                for one in partition.acknowledgement_batches:
                    batches.append(
                        AcknowledgementBatch(one.first_offset, one.last_offset, one.acknowledge_types)
                    )
                    count += 1
                    if not count % _BATCHES_A_STEP:
                        yield None
    return given


def acknowledged(
    node: Node,
    request: Any,
    session: ShareSession,
    on_done: Callable[[AcknowledgeErrors], None],
) -> RequestSteps[None]:
    """Acknowledge what the request says, and end the session if it is the last one, in steps."""
    given = yield from acknowledgements_of(request.topics)
    yield from node.shares.acknowledge(session, given, is_renewing=request.is_renew_ack, on_done=on_done)
    if request.share_session_epoch == FINAL_EPOCH:
        node.shares.close_session(session)


def answer_with(call: Call, make: Callable[[], Message], partition_count: int) -> None:
    """Answer with what `make` returns; a response with many partitions is made and encoded in a thread."""
    if partition_count > _MANY:
        call.answer_aside(make)
    else:
        call.answer(make())


def session_request(call: Call, request: Any, **fields: Any) -> SessionRequest:
    """Return the fields of a request that are about its session."""
    return SessionRequest(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        epoch=request.share_session_epoch,
        connection=call.connection,
        **fields,
    )


def end_with_connection(node: Node, call: Call) -> None:
    """Have the sessions of this connection end with it."""
    connection = call.connection
    call.when_disconnected("share sessions", lambda: node.shares.connection_lost(connection))


def needs(node: Node, call: Call, request: Any) -> Iterator[Need]:
    """Return the needs: READ on the group and on each topic that the request names."""
    yield group_need(Operation.READ, request.group_id or "")
    yield from topic_needs(node, Operation.READ, request.topics)


def by_topic(keys: Sequence[PartitionKey]) -> dict[TopicId, list[int]]:
    """Return the indexes of partitions by topic, in the order of the keys."""
    indexes: dict[TopicId, list[int]] = {}
    for topic_id, index in keys:
        indexes.setdefault(topic_id, []).append(index)
    return indexes
