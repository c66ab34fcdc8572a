"""Heartbeats that come again, of both protocols: nearly all there are.

A member that has what it is to have says the same each time and hears the same. Whether it may is judged
every time; nothing is read or laid out anew as long as the answer stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

from headgate.api.contract import Node, RepeatedCall, RepeatedCalls
from headgate.api.group_repeat import NumberlessRepeat, answer_each, ask_together
from headgate.api.heartbeat_messages import classic_command_of, classic_response_of, command_of, response_of
from headgate.core.classic.commands import Heartbeats
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
    return ConsumerHeartbeatRepeat(node, version, request)


class ConsumerHeartbeatRepeat(NumberlessRepeat):
    """One such heartbeat."""

    __slots__ = ("_again", "_request", "_version", "_written")

    def __init__(self, node: Node, version: int, request: ConsumerGroupHeartbeatRequest) -> None:
        command = command_of(request, None, "")
        super().__init__(node, command.group_id)
        self._version = version
        self._request = request
        self._again = HeartbeatAgain(command, None)
        """What is said, by whom, and the answer to it that `_written` is."""
        self._written = WrittenResponse(b"")

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Say each of them once more, all as one command; then those one by one that get another answer."""
        heartbeats = [repeat._said_by(call) for repeat, call in zip(repeats, calls, strict=True)]
        group_id = repeats[0].group_id
        node.router.owner_of(group_id).submit(
            group_id,
            HeartbeatsAgain(heartbeats),
            partial(cls._on_results, node, repeats, calls, heartbeats),
        )

    def _said_by(self, call: RepeatedCall) -> HeartbeatAgain:
        """The heartbeat. A host is nothing that it says, and may be another one."""
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
            answer_each(repeats, calls, results)
            return
        for repeat, call, again, result in zip(repeats, calls, heartbeats, results, strict=True):
            if result is None:
                repeat._say(node, call, again.before)
            else:
                call.answer_frame(repeat.response_to(result).frame(call.correlation_id))

    def _say(self, node: Node, call: RepeatedCall, command: ConsumerHeartbeat) -> None:
        """Say it as if it were the first time, and remember the answer if it may be given again."""

        def on_result(result: HeartbeatResult | ErrorCode) -> None:
            if isinstance(result, ErrorCode) or not _is_lasting(command, result):
                call.answer(response_of(result))
                return
            self._again = HeartbeatAgain(command, result)
            self._written = self._write(result)
            call.answer_frame(self._written.frame(call.correlation_id))

        node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)

    def response_to(self, result: HeartbeatResult | ErrorCode) -> WrittenResponse:
        """The one that is written already, mostly."""
        # Another heartbeat may have had another answer while this one waited for the log.
        return self._written if result is self._again.answered else self._write(result)

    def _write(self, result: HeartbeatResult | ErrorCode) -> WrittenResponse:
        return WrittenResponse(response_body(_CONSUMER_KEY, self._version, response_of(result)))


def _is_lasting(command: ConsumerHeartbeat, result: HeartbeatResult) -> bool:
    """Whether an answer is the one to a member for which there is nothing to do.

    One that moves the member to another epoch is not: the member may have its old epoch again some day, in a
    group that began anew.
    """
    return not result.error and result.assigned is None and result.member_epoch == command.member_epoch


def classic_heartbeat_repeat(node: Node, version: int, request: HeartbeatRequest) -> ClassicHeartbeatRepeat:
    """What serves this heartbeat of the classic protocol when it comes again."""
    return ClassicHeartbeatRepeat(node, version, request)


class ClassicHeartbeatRepeat(NumberlessRepeat):
    """One heartbeat of the classic protocol."""

    __slots__ = ("_all_is_well", "_command", "_version")

    def __init__(self, node: Node, version: int, request: HeartbeatRequest) -> None:
        self._command = classic_command_of(request)
        super().__init__(node, self._command.group_id)
        self._version = version
        self._all_is_well = _classic_answer(version, ErrorCode.NONE)

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Say each of them once more, all as one command."""
        ask_together(node, repeats, calls, Heartbeats([repeat._command for repeat in repeats]))

    def response_to(self, result: ErrorCode) -> WrittenResponse:
        """The one that is written already, if all is well."""
        return self._all_is_well if result is ErrorCode.NONE else _classic_answer(self._version, result)


def _classic_answer(version: int, error: ErrorCode) -> WrittenResponse:
    return WrittenResponse(response_body(_CLASSIC_KEY, version, classic_response_of(error)))
