"""What time brings to partitions: records whose retention is over, producers not heard of any more.

There may be many partitions, and opening a log takes long where it has many segments or was not closed well.
So a round goes on in steps, and what nobody has open is opened in another thread: once to see when its oldest
records have had their time, and again when they have. Of logs that have to be recovered a round opens some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headgate.domain.ids import Millis, TopicId

if TYPE_CHECKING:
    from headgate.log.compaction import Steps
    from headgate.topics.partition import Partition
    from headgate.topics.policy import TopicPolicy
    from headgate.topics.topic import Topic
    from headgate.topics.topics import Topics

_RECOVERED_A_ROUND = 256
"""How many logs that a crash left a round reads: that may take seconds for each."""

Key = tuple[TopicId, int]


class Housekeeping:
    """Looks after the partitions of a node, in rounds."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next_looks: dict[Key, tuple[TopicPolicy, Millis]] = {}
        """Of logs that nobody has open, when the oldest records have had their time, by what policy."""
        self._is_first = True
        """The first round is at the start. It leaves alone what nobody has open: others need the disk, and
        the system's clock may be set only now.
        """
        self._tried: set[Key] = set()
        """Logs that were to be recovered in this round or one before."""

    def round(self, now: Millis, is_slice_over: Callable[[], bool] = lambda: False) -> Steps[None]:
        """Look after all that are open, and after some of the others, in steps; `is_slice_over` says when
        others must have their turn.
        """
        yield from self._look_after_all(now, is_slice_over)
        self._topics.remove_leftovers()

    def _look_after_all(self, now: Millis, is_slice_over: Callable[[], bool]) -> Steps[None]:
        expired_before = Millis(now - self._topics.settings["producer.id.expiration.ms"])
        for topic in self._topics.all():
            if is_slice_over():
                yield None
            for partition in topic.open_partitions():
                if is_slice_over():
                    yield None
                if partition.is_open:
                    partition.expire_producers(expired_before)
                    partition.apply_retention(now)
        if self._is_first:
            self._is_first = False
            return
        looks, self._next_looks = self._next_looks, {}
        to_recover = _RECOVERED_A_ROUND
        for topic, index in self._may_expire():
            if is_slice_over():
                yield None
            if index is None:
                continue
            key = topic.topic_id, index
            look = looks.get(key)
            if look is not None and look[0] is topic.policy and now < look[1]:
                self._next_looks[key] = look
                continue
            closed = self._closed_partition(topic, index)
            if closed is None:
                continue
            if key in topic.shared.unrecovered:
                if not to_recover or key in self._tried:
                    continue
                to_recover -= 1
                self._tried.add(key)
            yield from self._look_after_closed(closed, now)
        if to_recover:
            self._tried.clear()

    def _may_expire(self) -> Iterator[tuple[Topic, int | None]]:
        """Topics and partitions; None for each topic: of many topics few may have something on the disk."""
        for topic in self._topics.all():
            yield topic, None
            if topic.policy.may_expire:
                for index in topic.written_partitions():
                    yield topic, index

    def _closed_partition(self, topic: Topic, index: int) -> Partition | None:
        """The partition, if there still is such a topic and nobody has opened it or is about to."""
        partition = topic.find_partition(index)
        if self._topics.by_id(topic.topic_id) is not topic or partition is None:
            return None
        return None if partition.is_open or partition.is_opening else partition

    def _look_after_closed(self, partition: Partition, now: Millis) -> Steps[None]:
        was_closed_well = partition.key not in partition.topic.shared.unrecovered
        opening = partition.opening()
        if opening is None:
            return
        yield opening
        if partition.is_open or partition.topic.is_deleted:
            return  # somebody else opened it meanwhile, and goes on using it
        if not partition.apply_retention(now) and was_closed_well:
            self._next_looks[partition.key] = partition.topic.policy, partition.expires_at()
            partition.put_back()
