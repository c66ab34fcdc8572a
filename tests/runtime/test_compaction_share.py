"""Compaction's share of a busy loop grows with the backlog, so that logs are bounded under any load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from contextvars import Context
from itertools import pairwise
from typing import TypeVarTuple

import pytest
from tests.log.compacting import drive, record
from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.log.backlog import backlog_of
from headgate.log.batch import encode_batch
from headgate.runtime.clock import Clock
from headgate.runtime.compaction import CompactionRunner
from headgate.runtime.compaction_share import (
    GROWS_FROM,
    GROWS_UNTIL,
    LEAST_SHARE,
    MOST_SHARE,
    share_under,
)
from headgate.runtime.slices import SliceRunner
from headgate.topics.compactor import NO_RULES, Compactor
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

KEYS = 40
BATCH_RECORDS = 20
SEGMENT_BYTES = 8192
LOOK_SECONDS = 0.0004
"""Simulated duration of the work on one batch, read or copied, between two looks at the clock."""
A_TENTH_SUSTAINS = LEAST_SHARE / (2 * LOOK_SECONDS)
"""Batches a second that a tenth of the loop compacts; each batch is read and copied."""
BATCHES = 4000
Arguments = TypeVarTuple("Arguments")


@pytest.fixture(autouse=True)
def few_segments_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a log have pressure early, so that little has to be written."""
    monkeypatch.setattr("headgate.log.backlog.SPARE_SEGMENTS", 4)


def test_the_share_grows_with_the_pressure_within_its_bounds() -> None:
    """A tenth at low pressure, a half at most, never decreasing with the pressure."""
    shares = [share_under(pressure / 100) for pressure in range(1000)]
    assert shares == sorted(shares)
    assert {share_under(0), share_under(GROWS_FROM)} == {LEAST_SHARE}
    assert share_under(GROWS_UNTIL) == share_under(1e9) == MOST_SHARE
    steps = [after - before for before, after in pairwise(shares)]
    assert max(steps) < 0.01, "it grows smoothly"


class BusyLoop(asyncio.SelectorEventLoop):
    """A loop with simulated time, on which a log is written at a rate during pauses.

    Other work takes all the time that compaction leaves.
    """

    def __init__(self, batches_a_second: float) -> None:
        super().__init__()
        self.now_seconds = 0.0
        self._rate = batches_a_second
        self._due = 0.0
        self.appended = 0
        self.log_bytes: list[int] = []
        """Size of the log after each batch."""
        self.partition: Partition | None = None

    def pass_by(self, seconds: float) -> None:
        """Let other work have the loop for so long; batches that arrive meanwhile are written afterwards."""
        self.now_seconds += seconds
        self._due += seconds * self._rate

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.pass_by(delay)
        count = min(int(self._due), BATCHES - self.appended)
        self._due -= count
        self.append(count)
        if self.appended == BATCHES:
            self.stop()
        return super().call_later(0, callback, *args, context=context)

    def append(self, count: int) -> None:
        """Append `count` batches with the keys of the earlier ones."""
        partition = self.partition
        assert partition is not None
        for _ in range(count):
            self.appended += 1
            pairs = [(self.appended * BATCH_RECORDS + at) % KEYS for at in range(BATCH_RECORDS)]
            records = [record(f"key-{key}", "some value", 1) for key in pairs]
            partition.append_internal([bytearray(encode_batch(records))])
            self.log_bytes.append(partition.log.size_bytes)
        request = partition.log.begin_sync()
        request.run()
        partition.log.complete_sync(request)


class CostlySlices(SliceRunner):
    """Slices of work that takes some tenths of a millisecond between two looks at the clock."""

    def __init__(self, loop: BusyLoop, busy_share: Callable[[], float]) -> None:
        super().__init__("test", busy_share)
        self._busy_loop = loop
        self.seconds = self.processor_seconds = lambda: loop.now_seconds

    def is_slice_over(self) -> bool:
        self._busy_loop.pass_by(LOOK_SECONDS)
        return super().is_slice_over()


def one_topic(partitions: int = 1) -> tuple[Topics, Topic]:
    """Make a compacted topic with small segments."""
    files = new_disk()
    topics = Topics.open(files, DATA_DIR, Settings({"log.cleaner.backoff.ms": "10"}), Millis(1))
    overrides = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
    topic = topics.create(NewTopic("t", TopicId(b"t" * 16), partitions, overrides), Millis(1))
    assert topic is topics.by_name("t")
    assert topic is not None
    return topics, topic


def sizes_under_load(batches_a_second: float) -> list[int]:
    """Return the sizes over time of a log that is written and compacted on a busy loop."""
    topics, topic = one_topic()
    loop = BusyLoop(batches_a_second)
    loop.partition = topic.partition(0)

    async def begin() -> CompactionRunner:
        runner = CompactionRunner(topics, Clock(), lambda partition: NO_RULES)
        runner._slices = CostlySlices(loop, runner._busy_share)
        runner.start()
        return runner

    with closing(loop):
        runner = loop.run_until_complete(begin())
        loop.run_forever()
        runner.close()
        loop.run_until_complete(asyncio.sleep(0))
    return loop.log_bytes


@pytest.mark.parametrize(("times_a_tenth", "most_segments"), [(0.5, 3), (2, 12), (4, 18)])
def test_a_log_settles_under_sustained_load(times_a_tenth: float, most_segments: int) -> None:
    """The log is bounded at every load that half of the loop can compact, and smaller at a lower load."""
    sizes = sizes_under_load(times_a_tenth * A_TENTH_SUSTAINS)
    assert len(sizes) == BATCHES
    first, *others = (max(sizes[at : at + BATCHES // 4]) for at in range(0, BATCHES, BATCHES // 4))
    assert max(others) - min(others) <= SEGMENT_BYTES, "it settles"
    assert max(others) <= first + 2 * SEGMENT_BYTES, "the first quarter is like the others"
    assert first <= most_segments * SEGMENT_BYTES, "several times that is written"


def test_the_worst_log_that_waits_counts_as_well() -> None:
    """A due log adds pressure while another one is compacted; a log that is not due adds none."""
    loop = BusyLoop(0)
    topics, topic = one_topic(partitions=3)
    with closing(loop):
        for index, batches in enumerate([70, 100, 2]):
            loop.partition = topic.partition(index)
            loop.append(batches)
    compactor = Compactor(topics)
    assert compactor.pressure(Millis(1)) == 0
    first = drive(compactor.next_job(Millis(1), lambda: False))
    assert first is not None
    # Both are wholly dirty, so either may be first. The larger one has the higher pressure.
    large = backlog_of(topic.partition(1).log, topic.partition(1).high_watermark)
    assert compactor.pressure(Millis(1)) == large.pressure(SEGMENT_BYTES) > GROWS_FROM
    for _ in range(2):
        job = drive(compactor.next_job(Millis(1), lambda: False))
        assert job is not None
        drive(job.steps)
    assert compactor.pressure(Millis(1)) < GROWS_FROM
    assert drive(compactor.next_job(Millis(1), lambda: False)) is None
    assert compactor.pressure(Millis(1)) == 0
