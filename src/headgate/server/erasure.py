"""Removal of the committed offsets of deleted topics, in every group.

Offsets are stored by topic name. From the deletion of a topic its name is held (`headgate.topics.held_names`)
until every shard has durably removed the offsets committed for it. No other topic can be created with this
name before. After a crash the catalogue therefore says what to do: a name of a former topic, which no topic
has now, may still have offsets. While a shard cannot be loaded, any of them may.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from headgate.core.commands import DeleteTopicOffsets
from headgate.core.shard import GroupShard
from headgate.domain.ids import TopicName
from headgate.runtime.failures import Where, unexpected
from headgate.server.coordinator import Coordinator
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

RETRY_MS = 1000
"""Delay before shards that failed are asked again."""

CallLater = Callable[[int, Callable[[], None]], Any]


class OffsetErasure:
    """Removes the offsets of deleted topics from every shard."""

    def __init__(self, topics: Topics, coordinator: Coordinator[GroupShard], call_later: CallLater) -> None:
        self._topics = topics
        self._coordinator = coordinator
        self._call_later = call_later

    def start(self) -> None:
        """Finish removals that an earlier run of the server did not, and watch for deleted topics."""
        former = self._topics.former_names()
        if former and self._are_all_loaded():
            for name in former & self._names_with_offsets():
                self._erase(name)
        elif former:
            for name in former:
                self._topics.held_names.hold(name)
            self._when_loaded(former)
        self._topics.on_deleted.append(lambda topic: self._erase(topic.name))

    def _are_all_loaded(self) -> bool:
        return all(runtime.is_active for runtime in self._coordinator.runtimes)

    def _names_with_offsets(self) -> set[TopicName]:
        return set().union(*(shard.topics_with_offsets() for shard in self._coordinator.shards()))

    def _when_loaded(self, former: Collection[TopicName]) -> None:
        """Finish the removals for these names, which are held, as soon as all shards are loaded."""
        if not self._are_all_loaded():
            self._call_later(RETRY_MS, lambda: self._when_loaded(former))
            return
        left = self._names_with_offsets()
        for name in former:
            if name in left:
                self._ask(name)
            else:
                self._topics.held_names.release(name)

    def _erase(self, name: TopicName) -> None:
        self._topics.held_names.hold(name)
        self._ask(name)

    def _ask(self, name: TopicName) -> None:
        try:
            self._coordinator.submit_to_all(DeleteTopicOffsets(name), partial(self._on_replies, name))
        except Exception as failure:
            unexpected(Where.ERASURE, "offsets of a deleted topic cannot be removed", failure, topic=name)
            self._call_later(RETRY_MS, lambda: self._ask(name))

    def _on_replies(self, name: TopicName, errors: list[Any]) -> None:
        if any(errors):
            logger.warning("offsets of a deleted topic are still there", extra={"topic": name})
            self._call_later(RETRY_MS, lambda: self._ask(name))
        else:
            self._topics.held_names.release(name)
