"""ResumePartitions (20002), versions 0-1: assign paused partitions of a group again (KIP-1249).

Resuming a partition that is not paused is no error. The response is sent when the resume is durable; members
get the partitions with their next heartbeats.
"""

from __future__ import annotations

from headgate.api.administration import log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_group_and_topics
from headgate.api.pause_messages import READ_ASIDE_BYTES, change_pauses, changed_partitions
from headgate.api.registration import Api
from headgate.core.pause.commands import PartitionsByTopic, ResumePartitions
from headgate.domain.ids import GroupId
from headgate.security.resources import Operation
from headgate.wire.extensions.resume_partitions import ResumePartitionsRequest, ResumePartitionsResponse


def handle(node: Node, call: Call, request: ResumePartitionsRequest) -> None:
    """Answer for each partition, in the order asked."""
    call.answer_in_steps(_resume(node, call, request))


def _resume(
    node: Node, call: Call, request: ResumePartitionsRequest
) -> RequestSteps[ResumePartitionsResponse]:
    group_id = GroupId(request.group_id)

    def command_of(partitions: PartitionsByTopic) -> ResumePartitions:
        return ResumePartitions(
            group_id=group_id, partitions=partitions, only_of_rewinds=request.only_of_rewinds
        )

    error, message, topics = yield from change_pauses(node, group_id, request.topics, command_of)
    if changed := changed_partitions(topics):
        log_change(call, "partitions resumed", {"group": group_id, "partitions": changed})
    return ResumePartitionsResponse(error_code=error, error_message=message, responses=topics)


API = Api(
    20002,
    "ResumePartitions",
    0,
    1,
    ResumePartitionsRequest,
    ResumePartitionsResponse,
    handle,
    read_aside_bytes=READ_ASIDE_BYTES,
    needs=of_group_and_topics(Operation.READ, Operation.READ),
)
