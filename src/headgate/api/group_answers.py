"""Helpers of the group APIs: commands to several groups at once, and errors of shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.shard_replies import Submit, gather, replies_to
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId

LONGEST_ID_BYTES = 0x7FFF


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
    """Submit the commands in steps: a group may be large."""

    def submit_of(group_id: GroupId) -> Submit[Any]:
        return partial(node.router.owner_of(group_id).submit, group_id, command_of(group_id))

    results = yield from replies_to(map(submit_of, group_ids))
    return (yield from respond(results))


def is_too_long(member_id: str) -> bool:
    """Return whether a member id derived from client fields is too long for messages and records.

    Kafka cannot write such an id either: the request gets UNKNOWN_SERVER_ERROR.
    """
    return len(member_id) > LONGEST_ID_BYTES // 4 and len(member_id.encode()) > LONGEST_ID_BYTES


def error_of(result: Any) -> ErrorCode:
    """Return the error of a result, or of the shard that could not give one."""
    return result if isinstance(result, ErrorCode) else ErrorCode(result.error)
