"""Apply retention and expire idle producers in all partitions, in rounds.

There may be many partitions, and opening a log takes long if it has many segments or was not closed cleanly.
A round therefore runs in steps. A closed log is opened in another thread: once to find when its oldest
records expire, and again when they have expired. A round recovers at most `_RECOVERED_A_ROUND` logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from headgate.domain.ids import Millis
from headgate.topics.waiters import PartitionKey

if TYPE_CHECKING:
    from headgate.log.compaction import Steps
    from headgate.topics.partition import Partition
    from headgate.topics.policy import TopicPolicy
    from headgate.topics.topic import Topic
    from headgate.topics.topics import Topics

_RECOVERED_A_ROUND = 256
"""Number of logs, left unclean by a crash, that a round recovers: each may take seconds."""

_TRIED_A_ROUND = 32
"""Number of failing logs that are tried before the results count."""


class Housekeeping:
    """Runs the rounds for the partitions of a node."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next_looks: dict[PartitionKey, tuple[TopicPolicy, Millis]] = {}
        """For closed logs: the policy and the time, in ms, at which the oldest records expire."""
        self._is_first = True
        """The first round runs at start. It skips closed logs: the disk is busy then, and the system clock
        may not be set yet.
        """
        self._tried: set[PartitionKey] = set()
        """Logs whose recovery was tried in this cycle of rounds."""

    def round(self, now: Millis, is_slice_over: Callable[[], bool] = lambda: False) -> Steps[None]:
        """Process all open partitions, some closed ones, and leftover directories, in steps.

        `is_slice_over` tells when to yield to other work.
        """
        yield from self._look_after_all(now, is_slice_over)
        self._topics.remove_leftovers()

    def try_failing(self, is_slice_over: Callable[[], bool] = lambda: False) -> Steps[list[bool]]:
        """Try whether logs that could not be used can be again: some of them, in turn, and more as long as
        all of these can. Return, in steps, the result of each.
        """
        failing = self._topics.failing
        results: list[bool] = []
        all_work = True
        while failing and all_work:
            for key in list(islice(failing, _TRIED_A_ROUND)):
                if is_slice_over():
                    yield None
                try_disk = failing.get(key)
                if try_disk is None:
                    continue
                is_over = False
                try:
                    is_over = yield from try_disk()
                finally:  # also after an unexpected exception: it is tried again, after the others
                    failing.pop(key, None)
                    if not is_over:
                        failing[key] = try_disk
                all_work = all_work and is_over
                results.append(is_over)
        return results

    def _look_after_all(self, now: Millis, is_slice_over: Callable[[], bool]) -> Steps[None]:
        expired_before = Millis(now - self._topics.settings["producer.id.expiration.ms"])
        for topic in self._topics.all():
            if is_slice_over():
                yield None
            for partition in topic.open_partitions():
                if is_slice_over():
                    yield None
                if partition.is_open:
                    partition.expire_producers(expired_before, now)
                    partition.apply_retention(now)
                    yield from _remove_segments(partition, is_slice_over)
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
            yield from _remove_segments(closed, is_slice_over)
        if to_recover:
            self._tried.clear()

    def _may_expire(self) -> Iterator[tuple[Topic, int | None]]:
        """Yield each topic with None, so that the caller can pause, then its written partitions that may
        expire.
        """
        for topic in self._topics.all():
            yield topic, None
            if topic.policy.may_expire:
                for index in topic.written_partitions():
                    yield topic, index

    def _closed_partition(self, topic: Topic, index: int) -> Partition | None:
        """Return the partition; None if the topic is gone, or the partition is open or being opened."""
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
            return  # in use: opened by another caller meanwhile
        if not partition.apply_retention(now) and was_closed_well:
            self._next_looks[partition.key] = partition.topic.policy, partition.expires_at()
            partition.put_back()


def _remove_segments(partition: Partition, is_slice_over: Callable[[], bool]) -> Steps[None]:
    """Remove the files of deleted records that are left: there may be thousands."""
    has_more = True
    while has_more:
        if is_slice_over():
            yield None
        has_more = partition.remove_segments()
