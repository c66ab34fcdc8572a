"""DeleteGroups (42), versions 0-2: delete empty groups with all their offsets.

1 has no change, 2 is flexible. A group named twice is deleted and answered once.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import answer_each
from headgate.api.needs import of_groups
from headgate.api.registration import Api
from headgate.core.commands import DeleteGroup
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

    def respond(errors: Sequence[ErrorCode]) -> RequestSteps[DeleteGroupsResponse]:
        response = DeleteGroupsResponse()
        for group_id, error in zip(group_ids, errors, strict=True):
            yield None
            response.results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return response

    answer_each(node, call, group_ids, DeleteGroup, respond)


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
