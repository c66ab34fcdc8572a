"""Repeated fetches of committed offsets, answered without decoding or encoding them again.

The response was encoded once, with placeholders for each offset and leader epoch; the current numbers are
written over them. A result without room there, such as an offset with metadata or an error, is encoded as
usual. The coordinator is asked every time. While it returns the same result, the response is the same. If the
request has topic ids, every topic must still exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

import numpy as np

from headgate.api.contract import Call, Node, RepeatedCalls
from headgate.api.fetch_messages import (
    LEADER_EPOCH_SINCE_VERSION,
    AskedGroup,
    bounded_response_of,
    response_of,
)
from headgate.api.group_repeat import NumberlessRepeat, answer_repeats
from headgate.core.offsets.commands import (
    FetchedNumbers,
    FetchedOffsets,
    FetchesAgain,
    FetchOffsets,
    RepeatedFetch,
)
from headgate.core.offsets.stored import StoredOffset
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.wire.framing import is_flexible, response_body
from headgate.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from headgate.wire.places import places_of
from headgate.wire.repeats import MOST_NARROW, Numbers, ResponseShape, WrittenResponse

_API_KEY = 9
_NUMBERS: Final = ("committed_offset", "committed_leader_epoch")
_NOWHERE: Final = StoredOffset(0, 0, "", Millis(0), Millis(0))
"""The placeholder of an offset."""
MOST_TOPICS = 500
"""A fetch of more topics is answered in steps and not repeated."""
MOST_TOLD_AT_ONCE: Final = 2000
"""A response with more partitions than this is encoded in a thread if some have metadata."""
LONG_RESPONSE_BYTES: Final = 1 << 16
_KEPT_BYTES: Final = 1000
_TOPIC_KEPT_BYTES: Final = 350
_KEPT_ONE_BY_ONE_BYTES: Final = 300
_KEPT_IN_COLUMNS_BYTES: Final = 185
"""Memory of a fetch, and of each topic and partition, in bytes."""


def fetch_repeat(node: Node, call: Call, request: OffsetFetchRequest) -> FetchRepeat | None:
    """Return the `Repeat` for this fetch; None for several groups, all partitions, or many topics."""
    groups: list[AskedGroup] | None = call.prepared
    if groups is None or len(groups) != 1 or groups[0].unknown or not groups[0].command.topics:
        return None
    if len(groups[0].command.topics) > MOST_TOPICS:
        return None
    return FetchRepeat(node, groups[0], call.api_version)


class FetchRepeat(NumberlessRepeat):
    """One repeated fetch."""

    __slots__ = ("_asked", "_command", "_has_epochs", "_is_wide", "_shape", "_told", "_version", "_written")

    def __init__(self, node: Node, asked: AskedGroup, version: int) -> None:
        super().__init__(node, asked.command.group_id, asked.topics)
        self._asked = asked
        self._command = RepeatedFetch(_with_arrays(asked.command))
        self._version = version
        self.kept_bytes = _kept_bytes(asked.command)
        self._is_wide = (
            sum(len(partitions) for _, partitions in asked.command.topics or ()) > MOST_TOLD_AT_ONCE
        )
        self._has_epochs = version >= LEADER_EPOCH_SINCE_VERSION
        self._shape = _response_shape(asked, version)
        self._told: Any = None
        """The last result, and the response to it."""
        self._written = WrittenResponse(b"")

    @classmethod
    def serve_each(
        cls, node: Node, repeats: list[Self], calls: RepeatedCalls, numbers: list[Numbers]
    ) -> None:
        """Fetch again, all as one command."""
        command = FetchesAgain([repeat._command for repeat in repeats])
        group_id = repeats[0].group_id
        node.router.owner_of(group_id).submit(group_id, command, partial(cls._on_results, repeats, calls))

    @staticmethod
    def _on_results(
        repeats: Sequence[FetchRepeat], calls: RepeatedCalls, results: list[Any] | ErrorCode
    ) -> None:
        if isinstance(results, ErrorCode) or FetchedOffsets not in map(type, results):
            answer_repeats(repeats, calls, results)
            return
        for repeat, call, result in zip(repeats, calls, results, strict=True):
            if repeat._is_wide and type(result) is FetchedOffsets:
                call.answer_aside(partial(bounded_response_of, [repeat._asked], [result], repeat._version))
            else:
                call.answer_frame(repeat.response_to(result).frame(call.correlation_id))

    def response_to(self, result: Any) -> WrittenResponse:
        """Return the last response if the result is the same object; else one with the new numbers.

        A response larger than `kept_bytes`, which does not count metadata, is encoded again each time.
        """
        if result is self._told:  # the same object as long as nothing has changed
            return self._written
        written = self._write(result)
        self.has_long_response = written.size > LONG_RESPONSE_BYTES
        if written.size <= self.kept_bytes:
            self._written, self._told = written, result
        return written

    def _write(self, result: Any) -> WrittenResponse:
        if type(result) is not FetchedNumbers:
            response = response_of([self._asked], [result], self._version)
            return WrittenResponse(response_body(_API_KEY, self._version, response))
        offsets, leader_epochs = result
        if not self._shape.is_narrow:
            columns = (offsets, leader_epochs) if self._has_epochs else (offsets,)
            return self._shape.wide(*columns)
        if not self._has_epochs:
            return self._shape.narrow(offsets)
        numbers: list[int] = []
        for index, offset in enumerate(offsets):
            numbers.append(offset)
            numbers.append(leader_epochs[index])
        return self._shape.narrow(numbers)


def _kept_bytes(command: FetchOffsets) -> int:
    topics = command.topics or ()
    count = sum(len(partitions) for _, partitions in topics)
    each_bytes = _KEPT_ONE_BY_ONE_BYTES if count <= MOST_NARROW else _KEPT_IN_COLUMNS_BYTES
    return _KEPT_BYTES + len(topics) * _TOPIC_KEPT_BYTES + count * each_bytes


def _with_arrays(command: FetchOffsets) -> FetchOffsets:
    """Return the same command, with arrays where it has many partitions."""
    if all(len(partitions) <= MOST_NARROW for _, partitions in command.topics or ()):
        return command
    topics = [
        (topic, np.array(partitions, np.int64) if len(partitions) > MOST_NARROW else partitions)
        for topic, partitions in command.topics or ()
    ]
    return replace(command, topics=topics)


def _response_shape(asked: AskedGroup, version: int) -> ResponseShape:
    topics: Sequence[Any] = [
        (topic, [(partition, _NOWHERE) for partition in partitions])
        for topic, partitions in asked.command.topics or ()
    ]
    body = response_body(_API_KEY, version, response_of([asked], [FetchedOffsets(topics)], version))
    message_at = 1 if is_flexible(_API_KEY, version) else 0  # behind the empty tagged fields of the header
    return ResponseShape(body, places_of(OffsetFetchResponse, version, _NUMBERS, body, message_at))
