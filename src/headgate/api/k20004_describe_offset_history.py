"""DescribeOffsetHistory (20004), versions 0-1, Headgate's own: the former offsets of a group, and when.

The group's coordinator answers from its own logs. An unknown group or partition is no error. Times before the
history, and anything that was not read within `max_wait_ms`, are reported as not known. A group's offsets are
stored by topic name: each name comes with the topic that has it now, and the number of entries of a former
topic of that name. Version 1 tells who made administrative changes.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from itertools import groupby
from typing import Any, Final

from headgate.api.contract import Call, Node
from headgate.api.needs import of_group_and_topics
from headgate.api.registration import Api
from headgate.core.offsets.history import (
    LAST_TIME,
    GroupHistory,
    HistoryEntry,
    HistoryQuery,
    HistoryScope,
    PartitionHistory,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.security.resources import Operation
from headgate.wire.codec import encode
from headgate.wire.extensions.describe_offset_history import (
    DescribeOffsetHistoryRequest,
    DescribeOffsetHistoryResponse,
    DescribeOffsetHistoryResponseEntry,
    DescribeOffsetHistoryResponsePartition,
    DescribeOffsetHistoryResponseTopic,
    EncodedOffsetHistory,
)

LARGEST_LIMIT: Final = 10_000
LONGEST_WAIT_MS: Final = 60_000


class Mode(IntEnum):
    """The kind of a query."""

    LIST = 0
    AS_OF = 1
    LAST_CHANGE = 2


class Kind(IntEnum):
    """The kind of an entry."""

    COMMIT = 0
    REMOVAL = 1


def handle(
    node: Node, call: Call, request: DescribeOffsetHistoryRequest
) -> DescribeOffsetHistoryResponse | None:
    """Answer when the logs were read."""
    query = _query(request)
    if isinstance(query, str):
        return DescribeOffsetHistoryResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=query)
    if node.router.owner_of(query.group_id).node_id != node.node_id:
        return DescribeOffsetHistoryResponse(error_code=ErrorCode.NOT_COORDINATOR)

    def on_reply(result: EncodedOffsetHistory | ErrorCode) -> None:
        if isinstance(result, EncodedOffsetHistory):
            call.answer(result)
        else:
            call.answer(DescribeOffsetHistoryResponse(error_code=result))

    max_wait_ms = min(max(0, request.max_wait_ms), LONGEST_WAIT_MS)
    node.history.describe(query, max_wait_ms, partial(_encoded, call.api_version), on_reply)
    return None


def _query(request: DescribeOffsetHistoryRequest) -> HistoryQuery | str:
    """Return the query, or a text that says why it is invalid."""
    group_id = GroupId(request.group_id)
    scope: HistoryScope = None
    if request.topics is not None:
        scope = [(TopicName(topic.name), topic.partition_indexes) for topic in request.topics]
    match request.mode:
        case Mode.LIST:
            if request.limit < 1:
                return "A list needs a limit of at least 1."
            until = Millis(request.until_ms) if request.until_ms >= 0 else LAST_TIME
            since, limit = Millis(request.since_ms), min(request.limit, LARGEST_LIMIT)
            return HistoryQuery(group_id, scope, since, until, limit)
        case Mode.AS_OF:
            if request.until_ms < 0:
                return "The time is missing for which the offsets are asked."
            return HistoryQuery.as_of(group_id, scope, Millis(request.until_ms))
        case Mode.LAST_CHANGE:
            return HistoryQuery.last_change(group_id, scope)
        case other:
            return f"There is no mode {other}."


def _encoded(version: int, history: GroupHistory) -> EncodedOffsetHistory:
    response = _response(history)
    encoded = EncodedOffsetHistory(body=encode(response, version))
    for topic in response.topics:
        while topic.partitions:
            topic.partitions.pop()  # freeing all at once would block the interpreter
    return encoded


def _response(history: GroupHistory) -> DescribeOffsetHistoryResponse:
    by_topic = groupby(history.partitions, lambda partition: partition.topic)
    return DescribeOffsetHistoryResponse(
        known_since_ms=history.known_since,
        topics=[
            DescribeOffsetHistoryResponseTopic(
                name=topic,
                topic_id=history.lives[topic].topic_id,
                created_ms=history.lives[topic].created_at,
                partitions=[_partition(one) for one in partitions],
            )
            for topic, partitions in by_topic
        ],
    )


def _partition(partition: PartitionHistory) -> DescribeOffsetHistoryResponsePartition:
    return DescribeOffsetHistoryResponsePartition(
        partition_index=partition.partition,
        earlier=partition.earlier,
        former_entries=partition.former,
        entries=[_entry(entry) for entry in partition.entries],
    )


def _entry(entry: HistoryEntry) -> DescribeOffsetHistoryResponseEntry:
    place: dict[str, Any] = {
        "time_ms": entry.time,
        "written_ms": entry.written,
        "log_offset": entry.log_offset,
    }
    if entry.author is not None:
        place |= {
            "client_id": entry.author.client_id,
            "client_host": entry.author.client_host,
            "undone_ms": entry.author.undone_at,
        }
    commit = entry.commit
    if commit is None:
        return DescribeOffsetHistoryResponseEntry(kind=Kind.REMOVAL, **place)
    return DescribeOffsetHistoryResponseEntry(
        kind=Kind.COMMIT,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        **place,
    )


API = Api(
    20004,
    "DescribeOffsetHistory",
    0,
    1,
    DescribeOffsetHistoryRequest,
    DescribeOffsetHistoryResponse,
    handle,
    needs=of_group_and_topics(Operation.DESCRIBE, Operation.DESCRIBE),
)
