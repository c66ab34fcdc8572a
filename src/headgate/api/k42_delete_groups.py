"""DeleteGroups (42), versions 0-2: delete empty groups with all their offsets.

1 has no change, 2 is flexible. A group named twice is deleted and answered once. The states of a share
group's partitions are deleted before the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.administration import log_deletion
from headgate.api.authors import author_of
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.api.share_initialization import ask_groups, delete_states
from headgate.core.commands import DeleteGroup
from headgate.core.share.membership.commands import DeleteShareOffsets, StateRemoval
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(node: Node, call: Call, request: DeleteGroupsRequest) -> None:
    """Answer with an error code for each group."""
    group_ids = [GroupId(group_id) for group_id in dict.fromkeys(request.groups_names)]
    call.answer_in_steps(_deleted(node, call, group_ids))


def _deleted(node: Node, call: Call, group_ids: Sequence[GroupId]) -> RequestSteps[DeleteGroupsResponse]:
    author = author_of(call)
    errors = yield from _errors_of_states(node, group_ids)
    left = [group_id for group_id in group_ids if not errors.get(group_id)]
    results = yield from ask_groups(node, [(group_id, DeleteGroup(group_id, author)) for group_id in left])
    errors.update(zip(left, results, strict=True))
    response = DeleteGroupsResponse()
    for group_id in group_ids:
        yield None
        if not errors[group_id]:
            log_deletion(call, "group", group_id)
        response.results.append(DeletableGroupResult(group_id=group_id, error_code=errors[group_id]))
    return response


def _errors_of_states(node: Node, group_ids: Sequence[GroupId]) -> RequestSteps[dict[GroupId, ErrorCode]]:
    """Delete the states of those that are empty share groups; return why a group must not be deleted now."""
    asked = [(group_id, DeleteShareOffsets(group_id, None)) for group_id in group_ids]
    results = yield from ask_groups(node, asked)
    errors: dict[GroupId, ErrorCode] = {}
    for group_id, result in zip(group_ids, results, strict=True):
        if isinstance(result, ErrorCode):
            errors[group_id] = result
        elif isinstance(result, StateRemoval) and result.partitions:
            removed = yield from delete_states(node, result)
            errors[group_id] = next((one for one, _ in removed.values() if one), ErrorCode.NONE)
    return errors


API = Api(
    42,
    "DeleteGroups",
    0,
    2,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    handle,
    needs=of_groups(Operation.DELETE, "groups_names"),
)
