"""Tells coordinators the topics of this node: all of them after a load, and later every change."""

from __future__ import annotations

from typing import Any

from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.server.coordinator import Coordinator
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics


def all_topics(topics: Topics) -> TopicsChanged:
    """Return the command that gives a shard all topics."""
    return TopicsChanged([_as_it_is(topic) for topic in topics.all()])


def keep_telling_topics(topics: Topics, coordinator: Coordinator[Any]) -> None:
    """Pass every later change to the coordinator."""

    def tell(*changes: TopicChange) -> None:
        coordinator.submit_to_all(TopicsChanged(changes), lambda replies: None)

    topics.on_changed.append(lambda changed: tell(*map(_as_it_is, changed)))
    topics.on_deleted.append(lambda topic: tell(TopicChange(topic.name, None)))


def _as_it_is(topic: Topic) -> TopicChange:
    return TopicChange(topic.name, KnownTopic(topic.topic_id, topic.partition_count))
