"""Invalid heartbeats: one row per request, the last column is the answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import ConsumerHarness, beat, joining

from headgate.domain.errors import ErrorCode

JOIN = joining("t")
INVALID = ErrorCode.INVALID_REQUEST

REFUSED: list[tuple[str, int, dict[str, Any], ErrorCode]] = [
    ("", 0, JOIN, INVALID),
    ("", 1, {}, INVALID),
    ("", -1, {}, INVALID),
    ("m", 0, JOIN | {"group_id": ""}, INVALID),
    ("m", 0, JOIN | {"instance_id": ""}, INVALID),
    ("m", 0, JOIN | {"rack_id": ""}, INVALID),
    ("m", 0, JOIN | {"rebalance_timeout_ms": -1}, INVALID),
    ("m", 0, JOIN | {"reported": None}, INVALID),
    ("m", 0, JOIN | {"reported": [("t", 0)]}, INVALID),
    ("m", 0, JOIN | {"subscribed_topic_names": None}, INVALID),
    ("m", 0, JOIN | {"subscribed_topic_names": ("é" * (1 << 20),) * 13}, INVALID),
    ("m", -2, {}, INVALID),
    ("m", -3, {}, INVALID),
    ("m", 0, JOIN | {"server_assignor": "other"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ("m", 0, JOIN | {"server_assignor": ""}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ("m", 1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ("m", -1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ("m", -2, {"instance_id": "i"}, ErrorCode.GROUP_ID_NOT_FOUND),
]


@pytest.mark.parametrize(("member_id", "epoch", "more", "error"), REFUSED)
def test_an_invalid_heartbeat_is_refused(
    member_id: str, epoch: int, more: dict[str, Any], error: ErrorCode
) -> None:
    """With a message, and without effects."""
    h = ConsumerHarness()
    result = h.ask(beat(member_id, epoch, **more))
    assert (result.error, bool(result.message)) == (error, True)
    assert h.log == []


def test_the_request_is_checked_before_the_group() -> None:
    """The checks have an order: the assignor comes before the group."""
    h = ConsumerHarness()
    result = h.ask(beat("m", 5, server_assignor="other"))
    assert result.error is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_an_unsupported_assignor_is_named_with_the_supported_ones() -> None:
    """By the settings."""
    h = ConsumerHarness(group_consumer_assignors="range")
    result = h.ask(beat("m", 0, **JOIN, server_assignor="uniform"))
    assert result.message == "ServerAssignor uniform is not supported. Supported assignors: range."
