"""Log lines of topics that are created, extended and deleted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headgate.domain.ids import TopicId
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)


def log_changes_of(topics: Topics) -> None:
    """Log every later change of the topics."""
    known: dict[TopicId, int] = {topic.topic_id: topic.partition_count for topic in topics.all()}

    def changed(changes: Sequence[Topic]) -> None:
        for topic in changes:
            event = "topic extended" if topic.topic_id in known else "topic created"
            known[topic.topic_id] = topic.partition_count
            logger.info(event, extra={"topic": topic.name, "partitions": topic.partition_count})

    def deleted(topic: Topic) -> None:
        known.pop(topic.topic_id, None)
        logger.info("topic deleted", extra={"topic": topic.name, "partitions": topic.partition_count})

    topics.on_changed.append(changed)
    topics.on_deleted.append(deleted)
