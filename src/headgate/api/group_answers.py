"""Helpers of the group APIs: commands to several groups at once, and errors of shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId

_SUBMITTED_AT_ONCE = 200
LONGEST_ID_BYTES = 0x7FFF


def gather(count: int, on_all: Callable[[list[Any]], None]) -> Callable[[int], Callable[[Any], None]]:
    """Return a function from a position, 0 to `count` - 1, to the callback for its result; `on_all` gets all
    results after the last.
    """
    results: list[Any] = [None] * count
    missing = count

    def take_at(index: int) -> Callable[[Any], None]:
        def take(result: Any) -> None:
            nonlocal missing
            results[index] = result
            missing -= 1
            if not missing:
                on_all(results)

        return take

    return take_at


def submit_each(
    node: Node, commands: Sequence[tuple[GroupId, Any]], on_results: Callable[[list[Any]], None]
) -> None:
    """Submit each command to its group's shard; `on_results` gets all results, in the commands' order."""
    if not commands:
        on_results([])
        return
    take_at = gather(len(commands), on_results)
    for index, (group_id, command) in enumerate(commands):
        node.router.owner_of(group_id).submit(group_id, command, take_at(index))


def answer_each(
    node: Node,
    call: Call,
    group_ids: Sequence[GroupId],
    command_of: Callable[[GroupId], Any],
    respond: Callable[[Sequence[Any]], RequestSteps[Any]],
) -> None:
    """Submit each group's command to its shard, and answer with what `respond` makes of the results, in the
    groups' order, in steps.
    """
    if len(group_ids) == 1:
        commands = [(group_id, command_of(group_id)) for group_id in group_ids]
        submit_each(node, commands, lambda results: call.answer_in_steps(respond(results)))
        return
    call.answer_in_steps(_answered(node, group_ids, command_of, respond))


def _answered(
    node: Node,
    group_ids: Sequence[GroupId],
    command_of: Callable[[GroupId], Any],
    respond: Callable[[Sequence[Any]], RequestSteps[Any]],
) -> RequestSteps[Any]:
    """Submit a limited number of commands at a time, one group per step, as a group may be large."""
    all_results: list[Any] = []
    for first in range(0, len(group_ids), _SUBMITTED_AT_ONCE):
        some = group_ids[first : first + _SUBMITTED_AT_ONCE]
        there: Future[list[Any]] = Future()
        take_at = gather(len(some), there.set_result)
        for index, group_id in enumerate(some):
            node.router.owner_of(group_id).submit(group_id, command_of(group_id), take_at(index))
            yield None
        yield there
        all_results += there.result()
    return (yield from respond(all_results))


def is_too_long(member_id: str) -> bool:
    """Return whether a member id derived from client fields is too long for messages and records.

    Kafka cannot write such an id either: the request gets UNKNOWN_SERVER_ERROR.
    """
    return len(member_id) > LONGEST_ID_BYTES // 4 and len(member_id.encode()) > LONGEST_ID_BYTES


def error_of(result: Any) -> ErrorCode:
    """Return the error of a result, or of the shard that could not give one."""
    return result if isinstance(result, ErrorCode) else ErrorCode(result.error)
