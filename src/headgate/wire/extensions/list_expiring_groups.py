"""ListExpiringGroups (api key 20006), version 0, flexible: the groups whose offsets will expire soon.

An extension of Headgate, written by hand.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from headgate.wire.message import EMPTY, Request, Response, Struct


class ListExpiringGroupsRequest(Request["ListExpiringGroupsResponse"]):
    """The request of api key 20006.

    It asks for groups without members of which an offset expires within `within_ms`; -1: at any time.
    """

    API_KEY: ClassVar[int] = 20006
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    within_ms: Annotated[int, "int64"] = -1


class ListExpiringGroupsResponse(Response):
    """The response of api key 20006: groups of this node. `now_ms` is the node's time, in ms."""

    API_KEY: ClassVar[int] = 20006
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    now_ms: Annotated[int, "int64"] = -1
    groups: Annotated[list[ExpiringGroup], "[]struct"] = EMPTY


class ExpiringGroup(Struct):
    """In `ListExpiringGroupsResponse.groups`. Times are in ms since the epoch.

    `empty_since_ms` -1: the group never had members. `last_expiry_ms` -1: some offsets do not expire.
    """

    group_id: Annotated[str, "string"] = ""
    empty_since_ms: Annotated[int, "int64"] = -1
    retention_ms: Annotated[int, "int64"] = -1
    is_own_retention: Annotated[bool, "bool"] = False
    offset_count: Annotated[int, "int32"] = 0
    first_expiry_ms: Annotated[int, "int64"] = -1
    last_expiry_ms: Annotated[int, "int64"] = -1
