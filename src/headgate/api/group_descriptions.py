"""What the descriptions of consumer groups (69) and of share groups (77) have in common.

Their messages have the same fields, except those of members, but are different classes. A group may have
thousands of members and partitions, so all of it is done in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.group_answers import answer_each
from headgate.api.k15_describe_groups import ALL_GROUP_OPERATIONS, OPERATIONS_NOT_ASKED_FOR
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName

TopicT = TypeVar("TopicT")

GroupOf: TypeAlias = "Callable[[GroupId, Any], RequestSteps[Any]]"
"""Returns the description of a group, from the result of its command other than an `ErrorCode`."""


def describe_each(
    node: Node, call: Call, request: Any, command_of: Callable[[GroupId], Any], wire: Any, group_of: GroupOf
) -> None:
    """Describe each group of a request once, in the order asked; `wire` is the module of the messages."""
    operations = ALL_GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    group_ids = [GroupId(group_id) for group_id in dict.fromkeys(request.group_ids)]

    def respond(results: Sequence[Any]) -> RequestSteps[Any]:
        response = request.response_type()()
        for group_id, result in zip(group_ids, results, strict=True):
            yield None
            if isinstance(result, ErrorCode):
                group = wire.DescribedGroup(group_id=group_id, error_code=result)
            else:
                group = yield from group_of(group_id, result)
            if not group.error_code:
                group.authorized_operations = operations
            response.groups.append(group)
        return response

    answer_each(node, call, group_ids, command_of, respond)


def named_topics(
    partitions: Mapping[TopicId, Sequence[int]],
    topic_names: Mapping[TopicId, TopicName],
    new_topic: Callable[..., TopicT],
) -> RequestSteps[list[TopicT]]:
    """Return an entry for each topic of an assignment that still exists."""
    found = []
    for topic_id, indexes in partitions.items():
        yield None
        if topic_id in topic_names:
            found.append(
                new_topic(topic_id=topic_id, topic_name=topic_names[topic_id], partitions=list(indexes))
            )
    return found
