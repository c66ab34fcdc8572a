"""AlterShareGroupOffsets (91), version 0: let share-partitions of an empty group begin elsewhere (KIP-932).

Everything known of their deliveries is forgotten. A group that does not exist is created. The group epoch
rises and becomes the state epoch, so that what leaders still hold of the former states is fenced.

Unlike in Kafka, the group may have members if all of these share-partitions are paused (KIP-1249). As long as
members have records of them, the request is refused with REBALANCE_IN_PROGRESS, which admin clients retry; so
is a share-partition with records that wait for their dead letters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headgate.api.administration import MOST_NAMED, log_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.api.share_initialization import NO_GROUP_ID, ask_group, initialize_states
from headgate.core.share.membership.commands import AlterShareOffsets, Initialization, ShareGroupRefusal
from headgate.domain import dead_letters
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.domain.wording import some_of
from headgate.records.share_group_model import TopicPartitions
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages import alter_share_group_offsets as wire

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."

_NOT_WRITTEN = "Changes of paused partitions are not written yet: the broker's log says why."

_Response = wire.AlterShareGroupOffsetsResponse
_Errors = dict[tuple[TopicId, int], tuple[ErrorCode, str | None]]


def handle(node: Node, call: Call, request: wire.AlterShareGroupOffsetsRequest) -> None:
    """Answer when the new states are durable."""
    call.answer_in_steps(_altered(node, call, request))


def _altered(node: Node, call: Call, request: wire.AlterShareGroupOffsetsRequest) -> RequestSteps[_Response]:
    group_id = GroupId(request.group_id)
    if not group_id:
        return _Response(error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP_ID)
    starts: dict[tuple[TopicId, int], int] = {}
    found: dict[TopicId, tuple[TopicName, set[int]]] = {}
    for asked in request.topics:
        yield None
        topic = node.topics.by_name(TopicName(asked.topic_name))
        if topic is None:
            continue
        known = [one for one in asked.partitions if 0 <= one.partition_index < topic.partition_count]
        starts.update({(topic.topic_id, one.partition_index): one.start_offset for one in known})
        if known:
            _, indexes = found.setdefault(topic.topic_id, (topic.name, set()))
            indexes.update(one.partition_index for one in known)
    partitions = {
        topic_id: TopicPartitions(name, tuple(sorted(indexes))) for topic_id, (name, indexes) in found.items()
    }
    not_yet = _why_not_yet(node, group_id, starts)
    if not_yet is not None:
        return _Response(error_code=ErrorCode.REBALANCE_IN_PROGRESS, error_message=not_yet)
    begun = yield from ask_group(node, group_id, AlterShareOffsets(group_id, partitions))
    match begun:
        case ShareGroupRefusal(error, message):
            return _Response(error_code=error, error_message=message)
        case ErrorCode():
            return _Response(error_code=begun)
    assert isinstance(begun, Initialization)
    errors = yield from initialize_states(node, begun, starts)
    done = [key for key in starts if key in errors and errors[key][0] == ErrorCode.NONE]
    if done:
        named = (f"{found[topic_id][0]}-{index}={starts[topic_id, index]}" for topic_id, index in done)
        log_change(
            call, "start offsets set", {"group": group_id, "offsets": some_of(named, len(done), MOST_NAMED)}
        )
    return (yield from _response(node, request, errors))


def _why_not_yet(node: Node, group_id: GroupId, keys: Collection[tuple[TopicId, int]]) -> str | None:
    """Return why the starts cannot be set yet; None if they can. They would take away what is not written."""
    if any(node.shares.has_letters(group_id, key) for key in keys):
        return dead_letters.WAIT
    held = [key for key in keys if node.shares.is_being_released(group_id, key)]
    holders = (node.shares.holder(group_id, key) for key in held)
    holder = next((one for one in holders if one is not None), None)
    if holder is not None:
        return f"Members still have records of paused partitions: {holder}, for example."
    return _NOT_WRITTEN if held else None


def _response(
    node: Node, request: wire.AlterShareGroupOffsetsRequest, errors: _Errors
) -> RequestSteps[_Response]:
    response = _Response()
    for asked in request.topics:
        topic = node.topics.by_name(TopicName(asked.topic_name))
        answered = wire.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        if topic is not None:
            answered.topic_id = topic.topic_id
        for one in asked.partitions:
            yield None
            place = TopicId(answered.topic_id), one.partition_index
            error, message = errors.get(place, _UNKNOWN)
            answered.partitions.append(
                wire.AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index, error_code=error, error_message=message
                )
            )
        response.responses.append(answered)
    return response


def needs(node: Node, call: Call, request: wire.AlterShareGroupOffsetsRequest) -> Iterator[Need]:
    """Return the needs: READ on the group and on each topic."""
    yield group_need(Operation.READ, request.group_id)
    for topic in request.topics:
        yield topic_need(Operation.READ, topic.topic_name)


API = Api(
    91,
    "AlterShareGroupOffsets",
    0,
    0,
    wire.AlterShareGroupOffsetsRequest,
    wire.AlterShareGroupOffsetsResponse,
    handle,
    needs=needs,
)
