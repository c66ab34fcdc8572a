"""PausePartitions (api key 20001), versions 0-1: withhold partitions from a group (KIP-1249).

Version 0 is the document's, which gives it no key yet. Version 1 is ours: flexible, with a reason, a caller,
and the state of each partition.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.extensions.paused_topics import ChangedTopic, TopicToChange
from headgate.wire.message import EMPTY, Request, Response


class PausePartitionsRequest(Request["PausePartitionsResponse"]):
    """The request of api key 20001.

    `reason` and `caller` are for people; without a caller it is the principal that asks.
    """

    API_KEY: ClassVar[int] = 20001
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    group_id: Annotated[str, "string"] = ""
    topics: Annotated[list[TopicToChange], "[]struct"] = EMPTY
    reason: Annotated[str | None, "string 1+ null"] = None
    caller: Annotated[str | None, "string 1+ null"] = None


class PausePartitionsResponse(Response):
    """The response of api key 20001."""

    API_KEY: ClassVar[int] = 20001
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    throttle_time_ms: Annotated[int, "int32"] = 0
    responses: Annotated[list[ChangedTopic], "[]struct"] = EMPTY
