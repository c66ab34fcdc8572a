"""DeleteTopics (key 20), versions 1-6: delete topics with all their records.

Up to version 5 by name, in 6 by name or id, never both. `delete.topic.enable` turns the API off. Internal
topics are refused: they have the coordinators' state. A topic is deleted at once, durably. The response
waits, as long as the request allows, until its offsets are removed: after it, topics of the same names can be
created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from headgate.api.administration import log_deletion
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import topic_need, topic_needs
from headgate.api.registration import Api
from headgate.api.shard_replies import gather
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID, TopicName
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_BY_ID_SINCE = 6
_DISABLED_ERROR_SINCE = 3


def handle(node: Node, call: Call, request: DeleteTopicsRequest) -> None:
    """Delete each topic independently."""

    def answer(deleted: tuple[DeleteTopicsResponse, list[TopicName]]) -> None:
        response, held = deleted
        if held:
            _answer_when_free(node, call, response, held, request.timeout_ms)
        else:
            call.answer(response)

    call.in_steps(_delete_all(node, call, request), answer)


def _delete_all(
    node: Node, call: Call, request: DeleteTopicsRequest
) -> RequestSteps[tuple[DeleteTopicsResponse, list[TopicName]]]:
    """Delete the topics; return the response, and the names that cannot be reused yet."""
    if call.api_version < _BY_ID_SINCE:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    else:
        wanted = request.topics
    times_named = Counter((state.name, state.topic_id) for state in wanted)
    # Answer a name once, however often it is given.
    wanted = list({(state.name, state.topic_id): state for state in wanted}.values())
    targets = [_find(node, call, state, times_named) for state in wanted]
    times_meant = Counter(target.topic_id for target in targets if isinstance(target, Topic))
    response = DeleteTopicsResponse()
    for state, target in zip(wanted, targets, strict=True):
        yield None
        if isinstance(target, Topic) and times_meant[target.topic_id] > 1:
            target = Refusal(ErrorCode.INVALID_REQUEST, "The topic is given both by name and by id.")
        response.responses.append(_delete(node, call, state, target))
    held = [one.name for one in targets if isinstance(one, Topic) and one.name in node.topics.held_names]
    return response, held


def _answer_when_free(
    node: Node, call: Call, response: DeleteTopicsResponse, names: list[TopicName], timeout_ms: int
) -> None:
    """Answer when all of these names can be reused, or after the timeout."""
    is_answered = False

    def answer() -> None:
        nonlocal is_answered
        if not is_answered:
            is_answered = True
            cancel()
            call.answer(response)

    cancel = node.call_later(max(0, timeout_ms), call.guard(answer))
    take_at = gather(len(names), call.guard(lambda results: answer()))
    for index, name in enumerate(names):
        node.topics.held_names.when_free(name, partial(take_at(index), None))


def _find(
    node: Node, call: Call, state: DeleteTopicState, times_named: Counter[tuple[str | None, bytes]]
) -> Topic | Refusal:
    if not node.settings["delete.topic.enable"]:
        disabled = call.api_version >= _DISABLED_ERROR_SINCE
        error = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
        return Refusal(error, "Topic deletion is disabled.")
    if times_named[state.name, state.topic_id] > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic.")
    if state.name is None:
        if state.topic_id == ZERO_TOPIC_ID:
            return Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        return node.topics.by_id(state.topic_id) or Refusal(
            ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        )
    if state.topic_id != ZERO_TOPIC_ID:
        return Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    return node.topics.by_name(state.name) or Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )


def _delete(node: Node, call: Call, state: DeleteTopicState, target: Topic | Refusal) -> DeletableTopicResult:
    outcome = node.topics.delete(target, node.system_time()) if isinstance(target, Topic) else target
    name = target.name if isinstance(target, Topic) else state.name
    result = DeletableTopicResult(
        name=name if call.api_version >= _BY_ID_SINCE else name or "",
        topic_id=target.topic_id if isinstance(target, Topic) else state.topic_id,
    )
    if outcome is not None:
        result.error_code = outcome.error
        result.error_message = outcome.message
    elif isinstance(target, Topic):
        log_deletion(call, "topic", target.name)
    return result


def needs(node: Node, call: Call, request: DeleteTopicsRequest) -> Iterator[Need]:
    """Return the needs: DELETE on each topic, or else on the cluster."""
    yield from topic_needs(node, Operation.DELETE, request.topics, Operation.DELETE)
    for name in request.topic_names:
        yield topic_need(Operation.DELETE, name, Operation.DELETE)


API = Api(
    key=20,
    name="DeleteTopics",
    min_version=1,
    max_version=6,
    request_type=DeleteTopicsRequest,
    response_type=DeleteTopicsResponse,
    handle=handle,
    needs=needs,
)
