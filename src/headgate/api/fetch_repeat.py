"""Fetches of committed offsets that come again, answered without being read or laid out again.

The response was laid out once, with some number for each offset and leader epoch; the true ones are put
into it. What does not fit in there, an offset with metadata, a shard that cannot answer, is laid out anew.
Where topics go by their ids, every one has to be there still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headgate.api.contract import Node, RepeatedCall
from headgate.api.fetch_messages import (
    LEADER_EPOCH_SINCE_VERSION,
    AskedGroup,
    groups_asked,
    response_of,
)
from headgate.core.offsets.commands import (
    FetchAgain,
    FetchedColumns,
    FetchedNumbers,
    FetchedOffsets,
    FetchOffsets,
)
from headgate.core.offsets.table import StoredOffset
from headgate.domain.ids import Millis
from headgate.wire.framing import response_body
from headgate.wire.messages.offset_fetch import OffsetFetchRequest
from headgate.wire.repeats import MOST_NARROW, Numbers, ResponseShape, places_of

_API_KEY = 9
_OFFSET_BYTES, _EPOCH_BYTES = 8, 4


def fetch_repeat(node: Node, version: int, request: OffsetFetchRequest) -> FetchRepeat | None:
    """What serves this fetch when it comes again; None for one of several groups, or of all partitions."""
    groups = groups_asked(node, request, version)
    if len(groups) != 1 or groups[0].unknown:
        return None
    command = groups[0].command
    topics = command.topics or ()
    count = sum(len(partitions) for _, partitions in topics)
    if 0 < count <= MOST_NARROW:
        return FetchRepeat(groups[0], version, FetchAgain(command))
    if len(topics) == 1:
        topic, partitions = topics[0]
        wide = replace(command, topics=[(topic, np.array(partitions, np.int64))])
        return FetchRepeat(groups[0], version, wide)
    return None


class FetchRepeat:
    """One such fetch; a `headgate.api.contract.Repeat`."""

    __slots__ = ("_asked", "_command", "_group_id", "_has_epochs", "_response", "_version")

    def __init__(self, asked: AskedGroup, version: int, command: FetchAgain | FetchOffsets) -> None:
        """`asked` is what the request says, `command` the same for the coordinator."""
        self._asked = asked
        self._group_id = asked.command.group_id
        self._command = command
        self._version = version
        self._has_epochs = version >= LEADER_EPOCH_SINCE_VERSION
        self._response = _response_shape(asked, version)

    def invert(self, request: OffsetFetchRequest) -> None:
        """A fetch has no numbers that change."""

    def serve(self, node: Node, calls: Sequence[RepeatedCall], numbers: Sequence[Numbers]) -> bool:
        """Fetch once more, once for all who ask, unless the id of a topic is nobody's any more."""
        by_id = node.topics.by_id
        for topic_id in self._asked.topic_ids:
            if by_id(topic_id) is None:
                return False
        node.router.owner_of(self._group_id).submit(
            self._group_id, self._command, partial(self._on_result, calls)
        )
        return True

    def _on_result(self, calls: Sequence[RepeatedCall], result: Any) -> None:
        for call in calls:
            self._answer(call, result)

    def _answer(self, call: RepeatedCall, result: Any) -> None:
        if type(result) is FetchedNumbers:
            numbers = result.numbers if self._has_epochs else result.numbers[::2]
            call.answer_frame(self._response.narrow_frame(call.correlation_id, numbers))
            return
        if isinstance(result, FetchedOffsets) and isinstance(result.topics[0][1], FetchedColumns):
            _, offsets, epochs = result.topics[0][1]
            columns = (offsets, epochs) if self._has_epochs else (offsets,)
            call.answer_frame(self._response.wide_frame(call.correlation_id, *columns))
            return
        call.answer(response_of([self._asked], [result], self._version))


def _response_shape(asked: AskedGroup, version: int) -> ResponseShape:
    sizes = [_OFFSET_BYTES]
    if version >= LEADER_EPOCH_SINCE_VERSION:
        sizes.append(_EPOCH_BYTES)
    written, inverted = _body(asked, version, 0), _body(asked, version, ~0)
    return ResponseShape(written, places_of(written, inverted, sizes))


def _body(asked: AskedGroup, version: int, number: int) -> bytes:
    stored = StoredOffset(number, number, "", Millis(0), Millis(0))
    topics: Sequence[Any] = [
        (topic, [(partition, stored) for partition in partitions])
        for topic, partitions in asked.command.topics or ()
    ]
    return response_body(_API_KEY, version, response_of([asked], [FetchedOffsets(topics)], version))
