"""ListPausedPartitions (api key 20003), versions 0-1: which partitions of a group are paused (KIP-1249).

Version 0 is the document's, which gives it no key yet: partitions and nothing else. Version 1 is ours:
flexible, with an error, topic ids, and what there is to know of each pause.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.message import EMPTY, ZERO_UUID, Request, Response, Struct


class ListPausedPartitionsRequest(Request["ListPausedPartitionsResponse"]):
    """The request of api key 20003."""

    API_KEY: ClassVar[int] = 20003
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    group_id: Annotated[str, "string"] = ""


class ListPausedPartitionsResponse(Response):
    """The response of api key 20003."""

    API_KEY: ClassVar[int] = 20003
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16 1+"] = 0
    error_message: Annotated[str | None, "string 1+ null"] = None
    topics: Annotated[list[ListPausedPartitionsResponseTopic], "[]struct"] = EMPTY


class ListPausedPartitionsResponseTopic(Struct):
    """In `ListPausedPartitionsResponse.topics`."""

    name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid 1+"] = ZERO_UUID
    partitions: Annotated[list[ListPausedPartitionsResponsePartition], "[]struct"] = EMPTY


class ListPausedPartitionsResponsePartition(Struct):
    """In `ListPausedPartitionsResponseTopic.partitions`.

    `offset` is the committed one, -1 for none. `state` 1: member `owner` has not released the partition; 2:
    it is released, and `owner` is null. `since_ms` is the system's time of the pause, -1 if it is not known.
    """

    partition_index: Annotated[int, "int32"] = 0
    offset: Annotated[int, "int64 1+"] = -1
    state: Annotated[int, "int8 1+"] = 0
    owner: Annotated[str | None, "string 1+ null"] = None
    since_ms: Annotated[int, "int64 1+"] = -1
    caller: Annotated[str, "string 1+"] = ""
    reason: Annotated[str, "string 1+"] = ""
