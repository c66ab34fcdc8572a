"""Heartbeats that come again, of both protocols: nearly all there are.

A member that has what it is to have says the same each time and hears the same. Whether it may is judged
every time; nothing is read or laid out anew as long as the answer stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

from headgate.api.contract import Node, RepeatedCall, RepeatedCalls
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

    __slots__ = ("_again", "_request", "_version", "_written", "shard")
    weight_bytes = 0

    def __init__(self, version: int, request: ConsumerGroupHeartbeatRequest, shard: int) -> None:
        self.shard = shard
        self._version = version
        self._request = request
        self._again = HeartbeatAgain(command_of(request, None, ""), None)
        """What is said, by whom, and the answer to it that `_written` is."""
        self._written = WrittenResponse(b"")

    def invert(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def is_current(self, node: Node) -> bool:
        """Always: what a heartbeat says depends on nothing else."""
        return True

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Say each of them once more, all as one command; then those one by one that get another answer."""
        heartbeats = [repeat._said_by(call) for repeat, call in zip(repeats, calls, strict=True)]
        group_id = heartbeats[0].before.group_id
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
        results: Sequence[HeartbeatResult | None] | ErrorCode,
    ) -> None:
        if isinstance(results, ErrorCode):
            for call in calls:
                call.answer(response_of(results))
        elif all(results):
            answers = zip(repeats, calls, results, strict=True)
            calls.answer_frames(
                [repeat._frame(call.correlation_id, result) for repeat, call, result in answers]
            )
        else:
            for repeat, call, again, result in zip(repeats, calls, heartbeats, results, strict=True):
                if result is None:
                    repeat._say(node, call, again.before)
                else:
                    call.answer_frame(repeat._frame(call.correlation_id, result))

    def _say(self, node: Node, call: RepeatedCall, command: ConsumerHeartbeat) -> None:
        """Say it as if it were the first time, and remember the answer."""

        def on_result(result: HeartbeatResult | ErrorCode) -> None:
            if isinstance(result, ErrorCode) or result.error or result.assigned is not None:
                call.answer(response_of(result))
                return
            self._again = HeartbeatAgain(command, result)
            self._written = self._write(result)
            call.answer_frame(self._written.frame(call.correlation_id))

        node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)

    def _frame(self, correlation_id: int, result: HeartbeatResult | None) -> bytes:
        # Another heartbeat may have had another answer while this one waited for the log.
        written = self._written if result is self._again.answered else self._write(result)
        return written.frame(correlation_id)

    def _write(self, result: HeartbeatResult | None) -> WrittenResponse:
        assert result is not None
        return WrittenResponse(response_body(_CONSUMER_KEY, self._version, response_of(result)))


def classic_heartbeat_repeat(node: Node, version: int, request: HeartbeatRequest) -> ClassicHeartbeatRepeat:
    """What serves this heartbeat of the classic protocol when it comes again."""
    return ClassicHeartbeatRepeat(version, request, node.coordinator.partition_of(GroupId(request.group_id)))


class ClassicHeartbeatRepeat:
    """One heartbeat of the classic protocol; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_all_is_well", "_command", "_version", "shard")
    weight_bytes = 0

    def __init__(self, version: int, request: HeartbeatRequest, shard: int) -> None:
        self.shard = shard
        self._command = classic_command_of(request)
        self._version = version
        self._all_is_well = _classic_answer(version, ErrorCode.NONE)

    def invert(self, request: HeartbeatRequest) -> None:
        """A heartbeat has no numbers that change."""

    def is_current(self, node: Node) -> bool:
        """Always: what a heartbeat says depends on nothing else."""
        return True

    @classmethod
    def serve_each(
        cls, node: Node, repeats: Sequence[Self], calls: RepeatedCalls, numbers: Sequence[Numbers]
    ) -> None:
        """Say each of them once more, all as one command."""
        group_id = repeats[0]._command.group_id
        node.router.owner_of(group_id).submit(
            group_id,
            Heartbeats([repeat._command for repeat in repeats]),
            partial(cls._on_errors, repeats, calls),
        )

    @staticmethod
    def _on_errors(
        repeats: Sequence[ClassicHeartbeatRepeat],
        calls: RepeatedCalls,
        errors: Sequence[ErrorCode] | ErrorCode,
    ) -> None:
        if isinstance(errors, ErrorCode):
            errors = [errors] * len(repeats)
        answers = zip(repeats, calls, errors, strict=True)
        calls.answer_frames(
            [repeat._answer(error).frame(call.correlation_id) for repeat, call, error in answers]
        )

    def _answer(self, error: ErrorCode) -> WrittenResponse:
        return self._all_is_well if error is ErrorCode.NONE else _classic_answer(self._version, error)


def _classic_answer(version: int, error: ErrorCode) -> WrittenResponse:
    return WrittenResponse(response_body(_CLASSIC_KEY, version, classic_response_of(error)))
