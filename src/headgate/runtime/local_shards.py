"""Shards of one kind on local logs: their topic, and a runtime for each of its partitions."""

from __future__ import annotations

import uuid
from typing import Any, TypeVar

from headgate.core.contract import Shard
from headgate.domain.ids import Millis, TopicId
from headgate.runtime.clock import Clock
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.loop_watch import LoopWatch
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


def open_topic(kind: ShardKind[Any], topics: Topics, now: Millis) -> Topic:
    """Return the topic of a kind; create it at the first start of a data directory. Raises OSError."""
    topic = topics.by_name(kind.topic)
    if topic is not None:
        return topic
    topic_id = TopicId(uuid.uuid4().bytes)
    wanted = NewTopic(kind.topic, topic_id, kind.partition_count, dict(kind.topic_settings))
    created = topics.create(wanted, now)
    if isinstance(created, Refusal):
        raise OSError(f"{kind.topic} cannot be created: {created.message}")
    return created


def local_runtimes(
    kind: ShardKind[ShardT], topic: Topic, group_commit: GroupCommit, clock: Clock, watch: LoopWatch
) -> list[ShardRuntime[ShardT]]:
    """Make a runtime for each partition, in the order of the partitions, without loading."""
    runtimes = []
    for index in range(topic.partition_count):
        runtime = ShardRuntime(kind, LocalLog(topic.partition(index), group_commit, watch), clock)
        runtime.watch = watch
        runtimes.append(runtime)
    return runtimes
