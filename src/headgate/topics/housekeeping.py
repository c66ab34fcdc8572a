"""What time brings to partitions: records whose retention is over, producers not heard of any more.

There may be many partitions, and opening a log takes long where it has many segments or was not closed well.
So a round goes on in steps, and what nobody has open is opened in another thread, some logs in each round, in
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headgate.domain.ids import Millis

if TYPE_CHECKING:
    from headgate.log.compaction import Steps
    from headgate.topics.partition import Partition
    from headgate.topics.topic import Topic
    from headgate.topics.topics import Topics

_OPENED_A_ROUND = 256
"""How many partitions nobody has open a round opens and closes."""


class Housekeeping:
    """Looks after the partitions of a node, in rounds."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._neglected: Iterator[tuple[Topic, int]] = iter(())

    def round(self, now: Millis, is_slice_over: Callable[[], bool]) -> Steps[None]:
        """Look after all that are open, and after some of the others."""
        expired_before = Millis(now - self._topics.settings["producer.id.expiration.ms"])
        for topic in self._topics.all():
            for partition in topic.open_partitions():
                if is_slice_over():
                    yield None
                if partition.is_open:
                    partition.expire_producers(expired_before)
                    partition.apply_retention(now)
        for _ in range(_OPENED_A_ROUND):
            found = next(self._neglected, None)
            if found is None:
                self._neglected = iter(self._may_expire())
                return
            if is_slice_over():
                yield None
            partition_there = self._closed_partition(*found)
            if partition_there is not None:
                yield from self._look_after_closed(partition_there, now)

    def _may_expire(self) -> list[tuple[Topic, int]]:
        return [
            (topic, index)
            for topic in self._topics.all()
            if topic.policy.may_expire
            for index in topic.written_partitions()
        ]

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
            partition.put_back()
