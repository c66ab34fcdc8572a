"""Heartbeats that come again, of both protocols: nearly all there are.

A member that has what it is to have says the same each time and hears the same. Whether it may is judged
every time; nothing is read or laid out anew as long as the answer stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from headgate.api.contract import Node, RepeatedCall, RepeatedCalls
from headgate.api.heartbeat_messages import classic_command_of, classic_response_of, command_of, response_of
from headgate.core.consumer.commands import JOINING, UNCHANGED_MS, HeartbeatAgain, HeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
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
    if not says_nothing:
        return None
    return ConsumerHeartbeatRepeat(version, request, node.coordinator.partition_of(GroupId(request.group_id)))


class ConsumerHeartbeatRepeat:
    """One such heartbeat; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_again", "_request", "_response", "_version", "shard")
    weight_bytes = 0

    def __init__(self, version: int, request: ConsumerGroupHeartbeatRequest, shard: int) -> None:
        self.shard = shard
        self._version = version
        self._request = request
        self._again: HeartbeatAgain | None = None
        self._response: WrittenResponse | None = None
        """The answer that the command of `_again` has."""

    def invert(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def is_current(self, node: Node) -> bool:
        """Always: what a heartbeat says depends on nothing else."""
        return True

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Say each of them once more."""
        for repeat, call in zip(repeats, calls, strict=True):
            repeat._serve(node, call)

    def _serve(self, node: Node, call: RepeatedCall) -> None:
        again = self._again
        host = call.client_host
        if again is None or again.before.client_host != host:
            command = command_of(self._request, call.client_id, host)
            again = self._again = HeartbeatAgain(command, None)
        group_id = again.before.group_id
        node.router.owner_of(group_id).submit(group_id, again, partial(self._on_result, again, call))

    def _on_result(self, again: HeartbeatAgain, call: RepeatedCall, result: Any) -> None:
        if result is not again.answered or again is not self._again:
            call.answer(response_of(result))
            if again is self._again:
                self._remember(again, result)
            return
        assert self._response is not None
        call.answer_frame(self._response.frame(call.correlation_id))

    def _remember(self, again: HeartbeatAgain, result: HeartbeatResult | ErrorCode) -> None:
        if isinstance(result, ErrorCode) or result.error or result.assigned is not None:
            return
        self._again = HeartbeatAgain(again.before, result)
        self._response = WrittenResponse(response_body(_CONSUMER_KEY, self._version, response_of(result)))


def classic_heartbeat_repeat(node: Node, version: int, request: HeartbeatRequest) -> ClassicHeartbeatRepeat:
    """What serves this heartbeat of the classic protocol when it comes again."""
    return ClassicHeartbeatRepeat(version, request, node.coordinator.partition_of(GroupId(request.group_id)))


class ClassicHeartbeatRepeat:
    """One heartbeat of the classic protocol; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_command", "_response", "shard")
    weight_bytes = 0

    def __init__(self, version: int, request: HeartbeatRequest, shard: int) -> None:
        self.shard = shard
        self._command = classic_command_of(request)
        all_is_well = classic_response_of(ErrorCode.NONE)
        self._response = WrittenResponse(response_body(_CLASSIC_KEY, version, all_is_well))

    def invert(self, request: HeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def is_current(self, node: Node) -> bool:
        """Always: what a heartbeat says depends on nothing else."""
        return True

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Say each of them once more."""
        for repeat, call in zip(repeats, calls, strict=True):
            command = repeat._command
            on_result = partial(repeat._on_result, call)
            node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)

    def _on_result(self, call: RepeatedCall, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            call.answer_frame(self._response.frame(call.correlation_id))
        else:
            call.answer(classic_response_of(error))
