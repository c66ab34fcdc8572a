"""DescribeOffsetHistory (api key 20004), versions 0-1, flexible: the history of a group's committed offsets.

An extension of Headgate, written by hand.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.codec import register
from headgate.wire.message import EMPTY, ZERO_UUID, Request, Response, Struct


class DescribeOffsetHistoryRequest(Request["DescribeOffsetHistoryResponse"]):
    """The request of api key 20004. Times are in ms since the epoch.

    `mode` 0 lists the entries from `since_ms` to `until_ms`. `mode` 1 returns the offsets that were current
    at `until_ms`. `mode` 2 returns the newest change in scope and the offsets before it.
    """

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    group_id: Annotated[str, "string"] = ""
    topics: Annotated[list[DescribeOffsetHistoryRequestTopic] | None, "[]struct null"] = None
    mode: Annotated[int, "int8"] = 0
    since_ms: Annotated[int, "int64"] = -1
    until_ms: Annotated[int, "int64"] = -1
    limit: Annotated[int, "int32"] = 100
    max_wait_ms: Annotated[int, "int32"] = 5000


class DescribeOffsetHistoryRequestTopic(Struct):
    """In `DescribeOffsetHistoryRequest.topics`. Null partitions: all partitions in the history."""

    name: Annotated[str, "string"] = ""
    partition_indexes: Annotated[list[int] | None, "[]int32 null"] = EMPTY


class DescribeOffsetHistoryResponse(Response):
    """The response of api key 20004.

    All offsets that were current at `known_since_ms` or later are known; -1: the history is complete.
    """

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    known_since_ms: Annotated[int, "int64"] = -1
    topics: Annotated[list[DescribeOffsetHistoryResponseTopic], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponseTopic(Struct):
    """In `DescribeOffsetHistoryResponse.topics`.

    `topic_id` and `created_ms` describe the topic that has the name now. If there is none, they are zero and
    -1.
    """

    name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = ZERO_UUID
    created_ms: Annotated[int, "int64"] = -1
    partitions: Annotated[list[DescribeOffsetHistoryResponsePartition], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponsePartition(Struct):
    """In `DescribeOffsetHistoryResponseTopic.partitions`. The newest entry is first.

    `earlier` describes the time before the oldest entry, or all time if there is no entry: 0 means there was
    no offset, 1 there are more entries, 2 it is unknown. The last `former_entries` entries belong to a
    deleted topic of the same name.
    """

    partition_index: Annotated[int, "int32"] = 0
    earlier: Annotated[int, "int8"] = 0
    former_entries: Annotated[int, "int32"] = 0
    entries: Annotated[list[DescribeOffsetHistoryResponseEntry], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponseEntry(Struct):
    """In `DescribeOffsetHistoryResponsePartition.entries`.

    `kind` 0 is a commit, 1 is a removal, which has no offset. `time_ms` is the commit timestamp or the time
    of the removal. `written_ms` is the same for all changes of one request. `client_id` and `client_host`
    tell who made an administrative change; null for other changes, or if that is not known. `undone_ms` is
    set if the change was an undo: the time of the change that it undid.
    """

    kind: Annotated[int, "int8"] = 0
    committed_offset: Annotated[int, "int64"] = -1
    committed_leader_epoch: Annotated[int, "int32"] = -1
    metadata: Annotated[str, "string"] = ""
    time_ms: Annotated[int, "int64"] = -1
    written_ms: Annotated[int, "int64"] = -1
    log_offset: Annotated[int, "int64"] = -1
    client_id: Annotated[str | None, "string 1+ null"] = None
    client_host: Annotated[str | None, "string 1+ null"] = None
    undone_ms: Annotated[int | None, "int64 0+ tag 0"] = None


class EncodedOffsetHistory(Response):
    """An encoded `DescribeOffsetHistoryResponse`. Long responses are encoded outside of the event loop."""

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    body: Annotated[bytes, "bytes"] = b""


def _write_body(out: bytearray, message: EncodedOffsetHistory) -> None:
    out += message.body


for _version in (0, 1):
    register(EncodedOffsetHistory, _version, writer=_write_body)
