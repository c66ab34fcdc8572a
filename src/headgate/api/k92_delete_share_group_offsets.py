"""DeleteShareGroupOffsets (92), version 0: forget the share-partitions of topics in an empty group (KIP-932).

A topic that does not exist, or of which the group has no state, is UNKNOWN_TOPIC_OR_PARTITION without a topic
id.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.administration import MOST_NAMED, log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.api.share_initialization import NO_GROUP_ID, ask_group, delete_states
from headgate.core.share.membership.commands import DeleteShareOffsets, ShareGroupRefusal, StateRemoval
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.domain.wording import some_of
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages import delete_share_group_offsets as wire

_Response = wire.DeleteShareGroupOffsetsResponse
_NOTHING_TO_DELETE = "There is no offset information to delete."


def handle(node: Node, call: Call, request: wire.DeleteShareGroupOffsetsRequest) -> None:
    """Answer when the removals are durable."""
    call.answer_in_steps(_deleted(node, call, request))


def _deleted(node: Node, call: Call, request: wire.DeleteShareGroupOffsetsRequest) -> RequestSteps[_Response]:
    group_id = GroupId(request.group_id)
    if not group_id:
        return _Response(error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP_ID)
    names = [TopicName(topic.topic_name) for topic in request.topics]
    begun = yield from ask_group(node, group_id, DeleteShareOffsets(group_id, names))
    match begun:
        case ErrorCode():
            return _Response(error_code=begun)
        case ShareGroupRefusal(error, message):
            return _Response(error_code=error, error_message=message)
    assert isinstance(begun, StateRemoval)
    errors = yield from delete_states(node, begun)
    response = _Response()
    for name in dict.fromkeys(names):
        yield None
        response.responses.append(_topic(node, name, errors))
    done = [one.topic_name for one in response.responses if not one.error_code]
    if done:
        log_change(
            call, "start offsets deleted", {"group": group_id, "topics": some_of(done, len(done), MOST_NAMED)}
        )
    return response


def _topic(
    node: Node, name: TopicName, errors: dict[TopicId, tuple[ErrorCode, str | None]]
) -> wire.DeleteShareGroupOffsetsResponseTopic:
    topic = node.topics.by_name(name)
    if topic is None or topic.topic_id not in errors:
        message = "This server does not host this topic-partition." if topic is None else _NOTHING_TO_DELETE
        return wire.DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
        )
    error, message_or_none = errors[topic.topic_id]
    return wire.DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic.topic_id, error_code=error, error_message=message_or_none
    )


def needs(node: Node, call: Call, request: wire.DeleteShareGroupOffsetsRequest) -> Iterator[Need]:
    """Return the needs: DELETE on the group, READ on each topic."""
    yield group_need(Operation.DELETE, request.group_id)
    for topic in request.topics:
        yield topic_need(Operation.READ, topic.topic_name)


API = Api(
    92,
    "DeleteShareGroupOffsets",
    0,
    0,
    wire.DeleteShareGroupOffsetsRequest,
    wire.DeleteShareGroupOffsetsResponse,
    handle,
    needs=needs,
)
