"""What the groups of a coordinator are told of their surroundings: the topics, and their own settings.

A shard that was loaded is told everything (`commands`), and from then on what changes. It forgets it all when
it is loaded again. The settings of groups a shard knows before it is loaded (`new_shard`), because with the
load the sessions of their members begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.core.consumer.commands import ConsumerGroupConfigured
from headgate.core.shard import GroupShard
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.ids import GroupId, Millis
from headgate.domain.settings import GROUP_SETTINGS
from headgate.server.coordinator import Coordinator
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics


class GroupSurroundings:
    """Topics and group settings of one node, as commands to its shards."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def commands(self) -> Iterator[Any]:
        """All that a shard has to know."""
        yield TopicsChanged([_as_it_is(topic) for topic in self._topics.all()])
        yield from self._group_settings()

    def new_shard(self, now: Millis) -> GroupShard:
        """A shard that nothing is in, with the settings of its groups."""
        shard = GroupShard(self._topics.settings)
        for command in self._group_settings():
            shard.handle(command, now)
        return shard

    def keep_telling(self, coordinator: Coordinator[GroupShard]) -> None:
        """Tell the coordinator of every change from now on."""

        def tell(*changes: TopicChange) -> None:
            coordinator.submit_to_all(TopicsChanged(changes), lambda replies: None)

        def tell_settings(group_id: str) -> None:
            command = self._configured(GroupId(group_id))
            coordinator.submit(command.group_id, command, lambda reply: None)

        self._topics.on_changed.append(lambda topics: tell(*map(_as_it_is, topics)))
        self._topics.on_deleted.append(lambda topic: tell(TopicChange(topic.name, None)))
        self._topics.on_group_configured.append(tell_settings)

    def _group_settings(self) -> Iterator[ConsumerGroupConfigured]:
        for group_id in self._topics.configured_groups():
            yield self._configured(GroupId(group_id))

    def _configured(self, group_id: GroupId) -> ConsumerGroupConfigured:
        overrides = self._topics.group_overrides(group_id)
        values = {
            name: GROUP_SETTINGS[name].parse(text)
            for name, text in overrides.items()
            if name in GROUP_SETTINGS
        }
        return ConsumerGroupConfigured(group_id=group_id, settings=values)


def _as_it_is(topic: Topic) -> TopicChange:
    return TopicChange(topic.name, KnownTopic(topic.topic_id, topic.partition_count))
