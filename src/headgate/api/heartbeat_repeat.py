"""Heartbeats that come again, of both protocols: nearly all there are.

A member that has what it is to have says the same each time and hears the same. Whether it may is judged
every time; nothing is read or laid out anew as long as the answer stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from headgate.api.contract import Node, RepeatedCall
from headgate.api.heartbeat_messages import classic_command_of, classic_response_of, command_of, response_of
from headgate.core.consumer.commands import JOINING, UNCHANGED_MS, HeartbeatAgain, HeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.wire.framing import response_body
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.repeats import Numbers, WrittenResponse

_CLASSIC_KEY, _CONSUMER_KEY = 12, 68


def consumer_heartbeat_repeat(
    node: Node, version: int, request: ConsumerGroupHeartbeatRequest
) -> ConsumerHeartbeatRepeat | None:
    """What serves this heartbeat when it comes again; None for one that says more than that it stays."""
    says_nothing = (
        request.member_epoch > JOINING
        and request.rack_id is None
        and request.rebalance_timeout_ms == UNCHANGED_MS
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.topic_partitions is None
    )
    return ConsumerHeartbeatRepeat(version, request) if says_nothing else None


class ConsumerHeartbeatRepeat:
    """One such heartbeat; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_again", "_request", "_response", "_version")

    def __init__(self, version: int, request: ConsumerGroupHeartbeatRequest) -> None:
        self._version = version
        self._request = request
        self._again: HeartbeatAgain | None = None
        self._response: WrittenResponse | None = None
        """The answer that the command of `_again` has."""

    def invert(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def serve(self, node: Node, calls: Sequence[RepeatedCall], numbers: Sequence[Numbers]) -> bool:
        """Say it once more, once for all calls."""
        again = self._again
        host = calls[0].client_host
        if again is None or again.before.client_host != host:
            command = command_of(self._request, calls[0].client_id, host)
            again = self._again = HeartbeatAgain(command, None)
        group_id = again.before.group_id
        node.router.owner_of(group_id).submit(group_id, again, partial(self._on_result, again, calls))
        return True

    def _on_result(self, again: HeartbeatAgain, calls: Sequence[RepeatedCall], result: Any) -> None:
        if result is not again.answered or again is not self._again:
            response = response_of(result)
            for call in calls:
                call.answer(response)
            if again is self._again:
                self._remember(again, result)
            return
        assert self._response is not None
        for call in calls:
            call.answer_frame(self._response.frame(call.correlation_id))

    def _remember(self, again: HeartbeatAgain, result: HeartbeatResult | ErrorCode) -> None:
        if isinstance(result, ErrorCode) or result.error or result.assigned is not None:
            return
        self._again = HeartbeatAgain(again.before, result)
        self._response = WrittenResponse(response_body(_CONSUMER_KEY, self._version, response_of(result)))


def classic_heartbeat_repeat(node: Node, version: int, request: HeartbeatRequest) -> ClassicHeartbeatRepeat:
    """What serves this heartbeat of the classic protocol when it comes again."""
    return ClassicHeartbeatRepeat(version, request)


class ClassicHeartbeatRepeat:
    """One heartbeat of the classic protocol; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_command", "_response")

    def __init__(self, version: int, request: HeartbeatRequest) -> None:
        self._command = classic_command_of(request)
        all_is_well = classic_response_of(ErrorCode.NONE)
        self._response = WrittenResponse(response_body(_CLASSIC_KEY, version, all_is_well))

    def invert(self, request: HeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def serve(self, node: Node, calls: Sequence[RepeatedCall], numbers: Sequence[Numbers]) -> bool:
        """Say it once more, once for all calls."""
        command = self._command
        on_result = partial(self._on_result, calls)
        node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
        return True

    def _on_result(self, calls: Sequence[RepeatedCall], error: ErrorCode) -> None:
        for call in calls:
            if error is ErrorCode.NONE:
                call.answer_frame(self._response.frame(call.correlation_id))
            else:
                call.answer(classic_response_of(error))
