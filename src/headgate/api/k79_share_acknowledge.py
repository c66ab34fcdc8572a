"""ShareAcknowledge (79), versions 1-2: acknowledge records that a member of a share group acquired (KIP-932).

* The request continues the session of ShareFetch, and has the next of its epochs.
* The final epoch ends the session; what the member still has is released.
* The response waits until the acknowledgements are durable. It has an error for each partition.
* Version 2 renews locks, if the request says so (KIP-1222).
"""

from __future__ import annotations

from functools import partial

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_requests import (
    acknowledge_message,
    acknowledged,
    answer_with,
    by_topic,
    check_member,
    needs,
    session_request,
)
from headgate.core.share.fetching import AcknowledgeErrors
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(node: Node, call: Call, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse | None:
    """Find the session, and acknowledge."""
    error = check_member(request)
    if error:
        return ShareAcknowledgeResponse(error_code=error)
    session = node.shares.sessions.begin_acknowledge(session_request(call, request))
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)

    def answer(errors: AcknowledgeErrors) -> None:
        lock_ms = node.shares.lock_duration_ms(session.group_id)
        answer_with(call, partial(_response, errors, lock_ms), len(errors))

    call.in_steps(acknowledged(node, request, session, call.guard(answer)), lambda nothing: None)
    return None


def _response(errors: AcknowledgeErrors, lock_ms: int) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition_index=index,
                        error_code=errors[topic_id, index],
                        error_message=acknowledge_message(errors[topic_id, index]),
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in by_topic(list(errors)).items()
        ],
    )


API = Api(
    79, "ShareAcknowledge", 1, 2, ShareAcknowledgeRequest, ShareAcknowledgeResponse, handle, needs=needs
)
