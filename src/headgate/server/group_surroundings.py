"""What a coordinator's groups know of the rest of the node: the topics and the settings of groups.

A shard gets everything when it is loaded (`commands`) and every change after that. A shard that is loaded
again starts without it. The settings of groups are set before the load (`new_shard`), because the sessions of
members start with the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headgate.core.commands import RetentionConfigured
from headgate.core.consumer.commands import ConsumerGroupConfigured
from headgate.core.events import Event
from headgate.core.retentions import OWN_RETENTION
from headgate.core.shard import GroupShard
from headgate.core.share.membership.commands import ShareGroupConfigured
from headgate.domain.ids import GroupId, Millis
from headgate.domain.settings import GROUP_SETTINGS
from headgate.server.coordinator import Coordinator
from headgate.server.topic_changes import all_topics, keep_telling_topics
from headgate.topics.topics import Topics

GroupConfigured = ConsumerGroupConfigured | ShareGroupConfigured | RetentionConfigured


class GroupSurroundings:
    """Passes the topics and the group settings of one node to its shards as commands."""

    def __init__(self, topics: Topics, on_event: Callable[[Event], None] = lambda event: None) -> None:
        """`on_event` is called with each event of a shard."""
        self._topics = topics
        self.on_event = on_event

    def commands(self) -> Iterator[Any]:
        """Return the commands that give a loaded shard all topics and group settings."""
        yield all_topics(self._topics)
        yield from self._group_settings()

    def new_shard(self, now: Millis) -> GroupShard:
        """Return an empty shard that knows the settings of its groups."""
        shard = GroupShard(self._topics.settings)
        for command in self._group_settings():
            shard.handle(command, now)
        shard.events.listener = self.on_event
        return shard

    def keep_telling(self, coordinator: Coordinator[GroupShard]) -> None:
        """Pass every later change to the coordinator."""

        def tell_settings(group_id: str) -> None:
            for command in self._configured(GroupId(group_id)):
                coordinator.submit(command.group_id, command, lambda reply: None)

        keep_telling_topics(self._topics, coordinator)
        self._topics.on_group_configured.append(tell_settings)

    def _group_settings(self) -> Iterator[GroupConfigured]:
        for group_id in self._topics.configured_groups():
            yield from self._configured(GroupId(group_id))

    def _configured(self, group_id: GroupId) -> Iterator[GroupConfigured]:
        overrides = self._topics.group_overrides(group_id)
        values = {
            name: GROUP_SETTINGS[name].parse(text)
            for name, text in overrides.items()
            if name in GROUP_SETTINGS
        }
        retention = overrides.get(OWN_RETENTION)
        retention_ms = None if retention is None else GROUP_SETTINGS[OWN_RETENTION].parse(retention)
        yield RetentionConfigured(group_id, retention_ms)
        for_consumers = {name: value for name, value in values.items() if name.startswith("consumer.")}
        yield ConsumerGroupConfigured(group_id=group_id, settings=for_consumers)
        for_share = {name: value for name, value in values.items() if name.startswith("share.")}
        yield ShareGroupConfigured(group_id=group_id, settings=for_share)
