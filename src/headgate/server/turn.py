"""Repeated requests of all connections in one iteration of the loop, served together at its end.

A consumer that waits for each answer sends one request at a time, and so do a hundred consumers: one loop
iteration brings one request of each. Served together, the requests share what does not depend on a single
one: the path to the shard and back, the record batch, the clock, the metrics.

Requests of one connection are served in order, those of different connections by kind and shard. A request
that has to be decoded is not collected here; it waits until the requests before it are served (`Connection`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final, cast

from headgate.api.contract import Node
from headgate.api.group_repeat import GroupRepeat
from headgate.api.repeats import Found
from headgate.runtime.asking import NOW
from headgate.runtime.failures import Where, unexpected
from headgate.server.calls import Line, PendingCall
from headgate.server.metrics import Metrics
from headgate.wire.repeats import Numbers, WrittenResponse

MOST_BYTES_TOGETHER: Final = 200_000
"""Sum of `Repeat.weight_bytes` of requests that are served together: less than the limit of a batch."""


class Turn:
    """Collects repeated requests and serves them."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self._node = node
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        # The added requests, as parallel lists.
        self._calls: list[PendingCall] = []
        self._repeats: list[GroupRepeat] = []
        self._numbers: list[Numbers] = []
        self._frames: list[bytes] = []

    @property
    def count(self) -> int:
        """Number of requests that were added and not served."""
        return len(self._calls)

    def add(self, line: Line, found: Found, frame: bytes) -> None:
        """Add a request to its connection's line, and serve it at the end of this loop iteration."""
        if not self._calls:
            self._loop.call_soon(self.serve)
        route, repeat, correlation_id, numbers = found
        self._calls.append(line.add(route, correlation_id))
        self._repeats.append(cast(GroupRepeat, repeat))
        self._numbers.append(numbers)
        self._frames.append(frame)

    def serve(self) -> None:
        """Serve the added requests now."""
        calls, repeats, numbers, frames = self._calls, self._repeats, self._numbers, self._frames
        if not calls:
            return
        self._calls, self._repeats, self._numbers, self._frames = [], [], [], []
        watch = calls[0].line.watch
        outer = watch.begin(calls[0])
        try:
            self._serve_all(calls, repeats, numbers, frames)
        except Exception as failure:
            unexpected(Where.REQUEST, "requests that came again failed", failure)
            for call in calls:
                call.give_up()
        finally:
            watch.end(outer)

    def _serve_all(
        self,
        calls: list[PendingCall],
        repeats: list[GroupRepeat],
        numbers: list[Numbers],
        frames: list[bytes],
    ) -> None:
        node = self._node
        if node.coordinator.is_wary:  # a command that makes a shard fail is identified only if handled alone
            _read_each(calls, frames)
            return
        for repeat in repeats:
            if not repeat.is_current(node):
                _read_each(calls, frames)
                return
        if _are_alike(repeats):
            self._serve(repeats, calls, numbers, frames)
            return
        for indexes in _together(repeats, calls):
            self._serve(
                [repeats[index] for index in indexes],
                [calls[index] for index in indexes],
                [numbers[index] for index in indexes],
                [frames[index] for index in indexes],
            )

    def _serve(
        self,
        repeats: list[GroupRepeat],
        calls: list[PendingCall],
        numbers: list[Numbers],
        frames: list[bytes],
    ) -> None:
        kind: Any = type(repeats[0])
        NOW.asker = together = CallsOfTurn(calls, frames, self._metrics)
        try:
            kind.serve_each(self._node, repeats, together, numbers)
        except Exception as failure:
            unexpected(Where.REQUEST, f"{calls[0].route.api.name} failed", failure)
            together.give_up()
        NOW.asker = None


class CallsOfTurn:
    """Requests of one API that are served together; a `headgate.api.contract.RepeatedCalls`."""

    __slots__ = ("_calls", "_frames", "_metrics")

    def __init__(self, calls: list[PendingCall], frames: list[bytes], metrics: Metrics) -> None:
        self._calls = calls
        self._frames = frames
        self._metrics = metrics

    def __iter__(self) -> Iterator[PendingCall]:
        return iter(self._calls)

    def part(self, first: int, end: int) -> CallsOfTurn:
        """Return the calls `first` to `end - 1`, and make them the current asker."""
        NOW.asker = part = CallsOfTurn(self._calls[first:end], self._frames[first:end], self._metrics)
        return part

    @property
    def is_many(self) -> bool:
        """Whether there is more than one call."""
        return len(self._calls) > 1

    def request_at(self, index: int) -> Any:
        """Decode the request of the call at this index."""
        route = self._calls[index].route
        return route.read(self._frames[index], route.body_at)

    def ask_each(self) -> None:
        """Decode and handle each request alone, like one that is not repeated."""
        _read_each(self._calls, self._frames)

    def give_up(self) -> None:
        """Close the connections of unanswered calls, whose answers can no longer be made."""
        for call in self._calls:
            call.give_up()

    def answer_written(self, responses: list[WrittenResponse]) -> None:
        """Send each call its response."""
        calls = self._calls
        to_send: list[Line] = []
        for index, call in enumerate(calls):
            frame = responses[index].frame(call.correlation_id)
            line = call.line
            if line.answer_only(frame):  # nearly always true
                continue
            line.answered(call, frame)
            if line.take_ready():
                to_send.append(line)
        first = calls[0]
        self._metrics.observe_requests(first.route.api.key, perf_counter() - first.started, len(calls))
        for line in to_send:
            line.client.send()


def _read_each(calls: list[PendingCall], frames: list[bytes]) -> None:
    for index, call in enumerate(calls):
        call.line.client.read_again(call, frames[index])


def _are_alike(repeats: list[GroupRepeat]) -> bool:
    """Return whether all requests have one kind and one shard and may be served together: mostly true."""
    first = repeats[0]
    kind, shard, weight = type(first), first.shard, 0
    for repeat in repeats:
        weight += repeat.weight_bytes
        if type(repeat) is not kind or repeat.shard != shard:
            return False
    return weight <= MOST_BYTES_TOGETHER


class _Together:
    """Requests of one kind and shard that are served together."""

    __slots__ = ("indexes", "kind", "stage", "weight_bytes")

    def __init__(self, kind: type[GroupRepeat], stage: int) -> None:
        self.kind = kind
        self.stage = stage
        self.indexes: list[int] = []
        self.weight_bytes = 0


def _together(repeats: list[GroupRepeat], calls: list[PendingCall]) -> list[list[int]]:
    """Return the indexes of requests to serve together, of one kind and shard, in the order to serve them.

    Requests of one connection keep their order. Those of different connections have none, as nobody has an
    answer yet. So the first requests of all connections come first, up to where each changes to another kind.
    """
    latest: dict[Line, _Together] = {}
    """The last request of each connection is one of these."""
    stages: list[list[_Together]] = []
    growing: list[dict[type[GroupRepeat], dict[int, _Together]]] = []
    """By stage, kind and shard: a tuple of them as key would cost more than the rest."""
    for index, repeat in enumerate(repeats):
        kind = type(repeat)
        line = calls[index].line
        before = latest.get(line)
        stage = 0 if before is None else before.stage + (before.kind is not kind)
        if stage == len(stages):
            stages.append([])
            growing.append({})
        by_shard = growing[stage].get(kind)
        if by_shard is None:
            by_shard = growing[stage][kind] = {}
        together = by_shard.get(repeat.shard)
        if together is None or together.weight_bytes + repeat.weight_bytes > MOST_BYTES_TOGETHER:
            together = by_shard[repeat.shard] = _Together(kind, stage)
            stages[stage].append(together)
        together.indexes.append(index)
        together.weight_bytes += repeat.weight_bytes
        latest[line] = together
    return [together.indexes for stage_groups in stages for together in stage_groups]
