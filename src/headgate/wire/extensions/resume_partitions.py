"""ResumePartitions (api key 20002), versions 0-1: let a group be assigned paused partitions again (KIP-1249).

Version 0 is the document's, which gives it no key yet. Version 1 is ours: flexible, with the state of each
partition, and with the choice to leave what somebody else paused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.extensions.paused_topics import ChangedTopic, TopicToChange
from headgate.wire.message import EMPTY, Request, Response


class ResumePartitionsRequest(Request["ResumePartitionsResponse"]):
    """The request of api key 20002."""

    API_KEY: ClassVar[int] = 20002
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    group_id: Annotated[str, "string"] = ""
    topics: Annotated[list[TopicToChange], "[]struct"] = EMPTY
    only_of_rewinds: Annotated[bool, "bool 1+"] = False
    """Whether only those are resumed that a rewind has paused."""


class ResumePartitionsResponse(Response):
    """The response of api key 20002."""

    API_KEY: ClassVar[int] = 20002
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    throttle_time_ms: Annotated[int, "int32"] = 0
    responses: Annotated[list[ChangedTopic], "[]struct"] = EMPTY
