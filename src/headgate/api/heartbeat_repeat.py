"""Repeated heartbeats of both protocols: nearly all heartbeats.

A member that has its target assignment sends the same heartbeat each time and gets the same answer. Each one
is still validated, but nothing is decoded or encoded as long as the answer is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

from headgate.api.contract import Call, Node, RepeatedCalls
from headgate.api.group_repeat import NumberlessRepeat, answer_repeats, ask_together
from headgate.api.heartbeat_messages import classic_response_of, command_of, response_of
from headgate.core.classic.commands import Heartbeat, Heartbeats
from headgate.core.consumer.commands import (
    JOINING,
    UNCHANGED_MS,
    ConsumerHeartbeat,
    HeartbeatAgain,
    HeartbeatResult,
    HeartbeatsAgain,
)
from headgate.domain.errors import ErrorCode
from headgate.wire.framing import response_body
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.repeats import Numbers, WrittenResponse

_CLASSIC_KEY, _CONSUMER_KEY = 12, 68
LAST_CLASSIC_VERSION = 4


def consumer_heartbeat_repeat(
    node: Node, call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerHeartbeatRepeat | None:
    """Return what serves repetitions of this heartbeat; None for one that reports changes."""
    has_no_changes = (
        request.member_epoch > JOINING
        and request.rack_id is None
        and request.rebalance_timeout_ms == UNCHANGED_MS
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.topic_partitions is None
    )
    if not has_no_changes:
        return None
    return ConsumerHeartbeatRepeat(node, call, request)


class ConsumerHeartbeatRepeat(NumberlessRepeat):
    """A consumer group heartbeat without changes."""

    __slots__ = ("_again", "_request", "_version", "_written")

    def __init__(self, node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
        again: HeartbeatAgain = call.prepared
        super().__init__(node, again.before.group_id)
        self._version = call.api_version
        self._request = request
        self._again = again
        """The command, its client, and the result that `_written` encodes."""
        self._written = WrittenResponse(b"") if again.answered is None else self._write(again.answered)

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Submit all as one command; then submit those whose answer changes one by one."""
        heartbeats = [repeat._heartbeat_of(call) for repeat, call in zip(repeats, calls, strict=True)]
        group_id = repeats[0].group_id
        node.router.owner_of(group_id).submit(
            group_id,
            HeartbeatsAgain(heartbeats),
            partial(cls._on_results, node, repeats, calls, heartbeats),
        )

    def _heartbeat_of(self, call: Call) -> HeartbeatAgain:
        """Return the repeated command for a call, whose client host may have changed."""
        again = self._again
        if again.before.client_host != call.client_host:
            command = command_of(self._request, call.client_id, call.client_host)
            again = self._again = HeartbeatAgain(command, None)
        return again

    @staticmethod
    def _on_results(
        node: Node,
        repeats: Sequence[ConsumerHeartbeatRepeat],
        calls: RepeatedCalls,
        heartbeats: Sequence[HeartbeatAgain],
        results: list[HeartbeatResult | None] | ErrorCode,
    ) -> None:
        if isinstance(results, ErrorCode) or all(results):
            answer_repeats(repeats, calls, results)
            return
        for repeat, call, again, result in zip(repeats, calls, heartbeats, results, strict=True):
            if result is None:
                repeat._submit_alone(node, call, again.before)
            else:
                call.answer_frame(repeat.response_to(result).frame(call.correlation_id))

    def _submit_alone(self, node: Node, call: Call, command: ConsumerHeartbeat) -> None:
        """Submit the command as a first one, and keep the answer if it is lasting."""

        def on_result(result: HeartbeatResult | ErrorCode) -> None:
            if isinstance(result, ErrorCode) or not is_lasting(command, result):
                call.answer(response_of(result))
                return
            self._again = HeartbeatAgain(command, result)
            self._written = self._write(result)
            call.answer_frame(self._written.frame(call.correlation_id))

        node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)

    def response_to(self, result: HeartbeatResult | ErrorCode) -> WrittenResponse:
        """Return the response, which is mostly encoded already."""
        # Another heartbeat may have got another answer while this one waited for the log.
        return self._written if result is self._again.answered else self._write(result)

    def _write(self, result: HeartbeatResult | ErrorCode) -> WrittenResponse:
        return WrittenResponse(response_body(_CONSUMER_KEY, self._version, response_of(result)))


def is_lasting(command: ConsumerHeartbeat, result: HeartbeatResult) -> bool:
    """Return whether the answer remains the same as long as the member is stable.

    An answer with another epoch does not: the member may have its old epoch again later, in a group that
    began anew.
    """
    return not result.error and result.assigned is None and result.member_epoch == command.member_epoch


def classic_heartbeat_repeat(node: Node, call: Call, request: HeartbeatRequest) -> ClassicHeartbeatRepeat:
    """Return what serves repetitions of this classic heartbeat."""
    return ClassicHeartbeatRepeat(node, call)


class ClassicHeartbeatRepeat(NumberlessRepeat):
    """A heartbeat of the classic protocol."""

    __slots__ = ("_command", "_ok_response", "_version")

    def __init__(self, node: Node, call: Call) -> None:
        self._command: Heartbeat = call.prepared
        super().__init__(node, self._command.group_id)
        self._version = call.api_version
        self._ok_response = _OK_RESPONSES[call.api_version]

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Submit all of them as one command."""
        ask_together(node, repeats, calls, Heartbeats([repeat._command for repeat in repeats]))

    def response_to(self, result: ErrorCode) -> WrittenResponse:
        """Return the response, which is encoded already unless there is an error."""
        return self._ok_response if result is ErrorCode.NONE else _classic_answer(self._version, result)


def _classic_answer(version: int, error: ErrorCode) -> WrittenResponse:
    return WrittenResponse(response_body(_CLASSIC_KEY, version, classic_response_of(error)))


_OK_RESPONSES = [_classic_answer(version, ErrorCode.NONE) for version in range(LAST_CLASSIC_VERSION + 1)]
