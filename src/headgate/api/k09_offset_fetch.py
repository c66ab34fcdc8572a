"""OffsetFetch (9), versions 1-10: read a group's offset of each partition.

From version 2 null topics mean all partitions, and the response has a top-level error. Version 3 adds the
throttle time, 5 the leader epoch, 6 is flexible, 7 may require stable offsets (KIP-447): a partition with an
offset of an open transaction is answered with UNSTABLE_OFFSET_COMMIT. Version 8 takes several groups, 9 may
name a member, which classic groups ignore, 10 identifies topics by id. An unknown group or partition is no
error: its offset is -1. An unknown topic id is UNKNOWN_TOPIC_ID.

A request that names a group twice is refused, and so is one whose response would exceed 256 MiB. Kafka has no
such limits: a short request can exhaust its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.fetch_messages import (
    MOST_RESPONSE_BYTES,
    AskedGroup,
    bounded_response_of,
    groups_asked,
    response_bytes,
    response_of,
)
from headgate.api.fetch_repeat import fetch_repeat
from headgate.api.group_answers import submit_each
from headgate.api.needs import group_need, topic_needs
from headgate.api.registration import Api
from headgate.api.shard_replies import reply_to
from headgate.core.offsets.commands import (
    FetchedColumns,
    FetchedInSteps,
    FetchedOffsets,
    FetchedPartitions,
)
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

_MOST_AT_ONCE = 100
"""A request for more groups is handled in steps."""
_MOST_WRITTEN_AT_ONCE = 2000
"""A response with more partitions than this, listed singly, is encoded in a thread."""
_GROUPS_SINCE_VERSION = 8
_COLUMNS_QUICKER = 32
"""Number of partitions in columns that take as long to encode as a single one."""


def handle(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    """Answer with the offsets of one group, or of each group of the request."""
    if len(request.groups) > 1 and _names_twice(request):
        call.answer(_refused(request))
        return
    if len(request.groups) > _MOST_AT_ONCE:
        call.in_steps(_ask_each(node, request, call.api_version), lambda found: _answer(call, *found))
        return
    call.prepared = asked = groups_asked(node, request, call.api_version)
    if len(asked) == 1:
        command = asked[0].command
        owner = node.router.owner_of(command.group_id)
        owner.submit(command.group_id, command, lambda result: _answer_one(call, asked, result))
        return
    commands = [(group.command.group_id, group.command) for group in asked]
    submit_each(node, commands, lambda results: _answer(call, asked, results))


def _names_twice(request: OffsetFetchRequest) -> bool:
    return len({group.group_id for group in request.groups}) < len(request.groups)


def _refused(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return the refusal of a request that names a group twice: its response could have any size."""
    error = ErrorCode.INVALID_REQUEST
    names = dict.fromkeys(group.group_id for group in request.groups)
    return OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id=name, error_code=error) for name in names]
    )


def _answer_one(call: Call, asked: Sequence[AskedGroup], result: Any) -> None:
    """Answer a request for one group, which nearly all are."""
    if isinstance(result, FetchedInSteps) or _partition_count(result) > _MOST_WRITTEN_AT_ONCE:
        _answer(call, asked, [result])
    else:
        call.answer(response_of(asked, [result], call.api_version))


def _answer(call: Call, asked: Sequence[AskedGroup], results: Sequence[Any]) -> None:
    if any(isinstance(result, FetchedInSteps) for result in results):
        call.in_steps(_told(results), lambda told: _answer(call, asked, told))
        return
    version = call.api_version
    if len(results) > _MOST_AT_ONCE or sum(map(_partition_count, results)) > _MOST_WRITTEN_AT_ONCE:
        call.answer_aside(lambda: bounded_response_of(asked, results, version))
    else:
        call.answer(response_of(asked, results, version))


def _told(results: Sequence[Any]) -> RequestSteps[list[Any]]:
    """Return the results; complete those that are built in steps."""
    told = list(results)
    for place, result in enumerate(results):
        if isinstance(result, FetchedInSteps):
            told[place] = yield from result.steps
    return told


def _partition_count(result: Any) -> int:
    """Return the cost of a result in single partitions; those in columns cost less."""
    if not isinstance(result, FetchedOffsets):
        return 0
    return sum(_cost(partitions, topic in result.unstable) for topic, partitions in result.topics)


def _cost(partitions: FetchedPartitions | FetchedColumns, is_unstable: bool) -> int:
    if not isinstance(partitions, FetchedColumns):
        return len(partitions)
    count = len(partitions.partitions)
    return count if partitions.metadata or is_unstable else 1 + count // _COLUMNS_QUICKER


def _ask_each(
    node: Node, request: OffsetFetchRequest, version: int
) -> RequestSteps[tuple[list[AskedGroup], list[Any]]]:
    """Fetch the offsets of the groups, one group after another."""
    left = MOST_RESPONSE_BYTES
    all_asked: list[AskedGroup] = []
    all_results: list[Any] = []
    for first in range(0, len(request.groups), _MOST_AT_ONCE):
        some = OffsetFetchRequest(
            groups=request.groups[first : first + _MOST_AT_ONCE], require_stable=request.require_stable
        )
        asked = groups_asked(node, some, version)
        commands = [(group.command.group_id, group.command) for group in asked]
        results = yield from reply_to(partial(submit_each, node, commands))
        all_asked += asked
        found = yield from _told(results)
        left -= sum(map(response_bytes, found))
        if left < 0:  # the response is full
            found = [ErrorCode.INVALID_REQUEST] * len(found)
        all_results += found
    return all_asked, all_results


def needs(node: Node, call: Call, request: OffsetFetchRequest) -> Iterator[Need]:
    """Yield DESCRIBE for each group and each named topic. A fetch of all topics needs the group only."""
    if call.api_version < _GROUPS_SINCE_VERSION:
        yield group_need(Operation.DESCRIBE, request.group_id)
        yield from topic_needs(node, Operation.DESCRIBE, request.topics or ())
    for group in request.groups:
        yield group_need(Operation.DESCRIBE, group.group_id)
        yield from topic_needs(node, Operation.DESCRIBE, group.topics or ())


API = Api(9, "OffsetFetch", 1, 10, OffsetFetchRequest, OffsetFetchResponse, handle, fetch_repeat, needs=needs)
