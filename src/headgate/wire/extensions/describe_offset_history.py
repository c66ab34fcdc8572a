"""DescribeOffsetHistory (api key 20004), version 0, flexible: what a group's offsets were, and when.

An extension of Headgate's, written by hand; clients that do not know it never notice.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.codec import register
from headgate.wire.message import EMPTY, ZERO_UUID, Request, Response, Struct


class DescribeOffsetHistoryRequest(Request["DescribeOffsetHistoryResponse"]):
    """The request of api key 20004. Times are in ms since the epoch.

    `mode` 0 lists entries from `since_ms` up to `until_ms`, 1 asks for the offsets in force at `until_ms`, 2
    for the newest change in scope and what stood before it.
    """

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    group_id: Annotated[str, "string"] = ""
    topics: Annotated[list[DescribeOffsetHistoryRequestTopic] | None, "[]struct null"] = None
    mode: Annotated[int, "int8"] = 0
    since_ms: Annotated[int, "int64"] = -1
    until_ms: Annotated[int, "int64"] = -1
    limit: Annotated[int, "int32"] = 100
    max_wait_ms: Annotated[int, "int32"] = 5000


class DescribeOffsetHistoryRequestTopic(Struct):
    """In `DescribeOffsetHistoryRequest.topics`; null partitions: every one of which anything is known."""

    name: Annotated[str, "string"] = ""
    partition_indexes: Annotated[list[int] | None, "[]int32 null"] = EMPTY


class DescribeOffsetHistoryResponse(Response):
    """The response of api key 20004.

    Of what was in force at `known_since_ms` or later nothing is missing here; -1: since ever.
    """

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    known_since_ms: Annotated[int, "int64"] = -1
    topics: Annotated[list[DescribeOffsetHistoryResponseTopic], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponseTopic(Struct):
    """In `DescribeOffsetHistoryResponse.topics`.

    `topic_id` and `created_ms` are of the topic that has the name now; without one they are zero and -1.
    """

    name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = ZERO_UUID
    created_ms: Annotated[int, "int64"] = -1
    partitions: Annotated[list[DescribeOffsetHistoryResponsePartition], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponsePartition(Struct):
    """In `DescribeOffsetHistoryResponseTopic.partitions`; entries are newest first.

    `earlier` tells of the time before the oldest entry, or of all of it without one: 0 there was no offset,
    1 there are more entries, 2 it is not known. The last `former_entries` of the entries are of another topic
    of that name, which is gone.
    """

    partition_index: Annotated[int, "int32"] = 0
    earlier: Annotated[int, "int8"] = 0
    former_entries: Annotated[int, "int32"] = 0
    entries: Annotated[list[DescribeOffsetHistoryResponseEntry], "[]struct"] = EMPTY


class DescribeOffsetHistoryResponseEntry(Struct):
    """In `DescribeOffsetHistoryResponsePartition.entries`.

    `kind` 0 is a commit, 1 a removal, which has no offset. `time_ms` is when it came into force, the commit
    timestamp or the time of removal; `written_ms` is the same for all that one request changed.
    """

    kind: Annotated[int, "int8"] = 0
    committed_offset: Annotated[int, "int64"] = -1
    committed_leader_epoch: Annotated[int, "int32"] = -1
    metadata: Annotated[str, "string"] = ""
    time_ms: Annotated[int, "int64"] = -1
    written_ms: Annotated[int, "int64"] = -1
    log_offset: Annotated[int, "int64"] = -1


class EncodedOffsetHistory(Response):
    """A `DescribeOffsetHistoryResponse` as bytes: a long one is encoded where it blocks nobody."""

    API_KEY: ClassVar[int] = 20004
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    body: Annotated[bytes, "bytes"] = b""


def _write_body(out: bytearray, message: EncodedOffsetHistory) -> None:
    out += message.body


register(EncodedOffsetHistory, 0, writer=_write_body)
