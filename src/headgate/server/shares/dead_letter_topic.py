"""The topic to which a share group's dead letters go, by Kafka's rules (KIP-1191).

The topic must have `errors.deadletterqueue.group.enable`, its name the prefix
`errors.deadletterqueue.topic.name.prefix`, and a missing one is created if
`errors.deadletterqueue.auto.create.topics.enable` says so. All of them are looked at before each write. A
record goes to the partition with the number of its own one, modulo the number of partitions.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.api.topic_answers import new_topic_id
from headgate.domain.dead_letters import AUTO_CREATE, ENABLE, PREFIX
from headgate.domain.ids import Millis, TopicName
from headgate.topics.partition import Partition
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

_OVERRIDES: Final = {ENABLE: "true", "message.timestamp.type": "CreateTime"}


class _Node(Protocol):
    topics: Topics

    def system_time(self) -> Millis: ...


def target_of(node: _Node, name: str, partition: int) -> Partition | str:
    """Return where dead letters of a partition are appended, or why they cannot be."""
    topics = node.topics
    topic = topics.by_name(TopicName(name))
    if topic is not None and not topics.settings.of_topic(topic.overrides, ENABLE):
        return f"the topic {name} does not have {ENABLE}=true"
    prefix = topics.settings[PREFIX]
    if not name.startswith(prefix):
        return f"the name {name} does not begin with {prefix}, the value of {PREFIX}"
    if topic is None:
        created = _created(node, name)
        if isinstance(created, str):
            return created
        topic = created
    return topic.partition(partition % topic.partition_count)


def _created(node: _Node, name: str) -> Topic | str:
    if not node.topics.settings[AUTO_CREATE]:
        return f"the topic {name} does not exist, and {AUTO_CREATE} is false"
    count = node.topics.settings["num.partitions"]
    new = NewTopic(name, new_topic_id(), count, _OVERRIDES)
    created = node.topics.create(new, node.system_time())
    if isinstance(created, Refusal):
        return f"the topic {name} cannot be created: {created.message}"
    return created
