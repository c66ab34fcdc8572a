"""Common parts of the topic APIs: authorized operations, placements, and automatic creation of topics.

The authorized operations are all operations, as in Kafka without access rules; they do not depend on the
access policy (`headgate.security`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from headgate.api.contract import Node, RequestSteps
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName
from headgate.domain.topic_names import why_invalid
from headgate.security.resources import Operation
from headgate.topics.names import is_internal
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic

MOST_PARTITIONS_AT_ONCE = 10_000
"""Partitions that one request may create or add, as in Kafka: more is a mistake that every client would feel,
because their metadata has every partition.
"""
_CREATED_AT_ONCE = 100
_DELETED_MEANWHILE = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted.")
NOT_ASKED = -(1 << 31)
"""Value of authorized operations that the request did not ask for."""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


def new_topic_id() -> TopicId:
    """Return a random topic id."""
    return TopicId(uuid.uuid4().bytes)


def find_or_create(
    node: Node, names: list[str], *, may_create: bool
) -> RequestSteps[dict[str, Topic | ErrorCode]]:
    """Find the topics of these names; create missing ones if that is allowed.

    A topic created under the name of a deleted one is answered UNKNOWN_TOPIC_OR_PARTITION this once, as Kafka
    does for every topic it creates so: a client that checks a deletion must not see the new topic.
    """
    found: dict[str, Topic | ErrorCode] = {}
    wanted: list[NewTopic] = []
    may_create = may_create and bool(node.settings["auto.create.topics.enable"])
    for name in names:
        yield None
        topic = node.topics.by_name(name)
        if topic is not None:
            found[name] = topic
        elif why_invalid(name) is not None:
            found[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif may_create and not is_internal(name) and TopicName(name) not in node.topics.held_names:
            if name not in found:
                wanted.append(NewTopic(name, new_topic_id(), int(node.settings["num.partitions"])))
            found[name] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            found[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = yield from create_in_steps(node, wanted)
    for new, result in zip(wanted, results, strict=True):
        if isinstance(result, Refusal) and result.error == ErrorCode.TOPIC_ALREADY_EXISTS:
            # Another request created or deleted it since the search: the next request may create it.
            result = node.topics.by_name(new.name) or _DELETED_MEANWHILE
        if isinstance(result, Refusal):
            found[new.name] = result.error
        elif node.topics.has_former_topic(result):
            found[new.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            found[new.name] = result
    return found


def create_in_steps(node: Node, wanted: Sequence[NewTopic]) -> RequestSteps[list[Topic | Refusal]]:
    """Create topics, some at a time with one sync; return the results in the order wanted."""
    results: list[Topic | Refusal] = []
    for first in range(0, len(wanted), _CREATED_AT_ONCE):
        if first:
            yield None
        results += node.topics.create_all(wanted[first : first + _CREATED_AT_ONCE], node.system_time())
    return results


def refuse_partitions(count: int) -> Refusal | None:
    """Return why one request may not create or add so many partitions; None if it may."""
    if count > MOST_PARTITIONS_AT_ONCE:
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request. At most "
            f"{MOST_PARTITIONS_AT_ONCE} can be created at once.",
        )
    return None


def refuse_assignment(node: Node, assignments: Sequence[Sequence[int]]) -> Refusal | None:
    """Return why this placement of replicas is refused; None if each partition is on this node only."""
    for brokers in assignments:
        if not brokers:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes an empty replica list.",
            )
        for broker in brokers:
            if broker != node.node_id:
                return Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes broker {broker}, which is not registered.",
                )
        if len(brokers) > 1:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {node.node_id} more than once.",
            )
    return None
