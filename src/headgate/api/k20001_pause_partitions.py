"""PausePartitions (20001), versions 0-1: exclude partitions from a group's assignments (KIP-1249).

The response is sent when the pause is durable. The owners then revoke the partitions; ListPausedPartitions
returns whether they have. Pausing a paused partition changes nothing. Consumer groups and share groups can be
paused: an unknown group and one of another kind is GROUP_ID_NOT_FOUND; the message has the reason and what to
do. Members of a share group keep a paused partition, acquire no more records of it, and have released it when
they have none left.
"""

from __future__ import annotations

from typing import Final

from headgate.api.administration import log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_group_and_topics
from headgate.api.pause_messages import READ_ASIDE_BYTES, change_pauses, changed_partitions
from headgate.api.registration import Api
from headgate.core.pause.commands import PartitionsByTopic, PausePartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.security.principal import ANONYMOUS
from headgate.security.resources import Operation
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest, PausePartitionsResponse

LONGEST_TEXT: Final = 1000
"""In characters: a record stores caller and reason."""


def handle(node: Node, call: Call, request: PausePartitionsRequest) -> PausePartitionsResponse | None:
    """Answer for each partition, in the order asked."""
    reason, caller = request.reason or "", request.caller or ""
    if max(len(reason), len(caller)) > LONGEST_TEXT:
        message = f"The reason and the caller may have {LONGEST_TEXT} characters."
        return PausePartitionsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    call.answer_in_steps(_pause(node, call, request, (_who(call, caller), reason)))
    return None


def _pause(
    node: Node, call: Call, request: PausePartitionsRequest, why: tuple[str, str]
) -> RequestSteps[PausePartitionsResponse]:
    group_id = GroupId(request.group_id)
    caller, reason = why

    def command_of(partitions: PartitionsByTopic) -> PausePartitions:
        return PausePartitions(group_id=group_id, partitions=partitions, caller=caller, reason=reason)

    error, message, topics = yield from change_pauses(node, group_id, request.topics, command_of)
    if changed := changed_partitions(topics):
        fields = {"group": group_id, "partitions": changed, "by": caller, "reason": reason}
        log_change(call, "partitions paused", fields)
    return PausePartitionsResponse(error_code=error, error_message=message, responses=topics)


def _who(call: Call, caller: str) -> str:
    """Return the caller for the record: the principal, with the request's caller if it is anonymous."""
    if call.principal == ANONYMOUS and caller:
        return caller
    return f"{call.principal} ({caller})" if caller else f"{call.principal} at {call.client_host.lstrip('/')}"


API = Api(
    20001,
    "PausePartitions",
    0,
    1,
    PausePartitionsRequest,
    PausePartitionsResponse,
    handle,
    read_aside_bytes=READ_ASIDE_BYTES,
    needs=of_group_and_topics(Operation.READ, Operation.READ),
)
