"""Logs of the real compaction: before it, at every step of it, and after it no damage is found."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.inspect.support import NOW, OFFSETS, commit_of, coordinator_batch, errors, open_topics
from tests.log.compacting import advance, order

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicName
from headgate.inspect.contents import read_batches
from headgate.inspect.partition import read_partition
from headgate.log.compaction import compact
from headgate.log.filesystem import OsFileSystem
from headgate.log.log import Log, LogSettings
from headgate.records import OffsetTombstone

SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=200)


def test_a_compaction_leaves_no_damage_wherever_it_is_killed(data_dir: Path) -> None:
    """The directory is checked after every step, as a kill would leave it, and after a second compaction."""
    (data_dir / "clean-shutdown").unlink()
    topics = open_topics(data_dir)
    offsets = topics.by_name(GROUP_OFFSETS_TOPIC)
    assert offsets is not None
    topics.set_overrides(offsets, {"segment.bytes": "1024", "index.interval.bytes": "200"}, NOW)
    for number in range(120):
        tombstone = OffsetTombstone(GroupId("billing"), TopicName("flights"), number % 5)
        commits = (commit_of(number % 7, number), commit_of(100 + number // 20, number))
        batch = coordinator_batch(*commits, tombstone) if number % 9 == 0 else coordinator_batch(*commits)
        offsets.partition(0).append_internal([batch])
    offsets.partition(0).log.close()

    directory = data_dir / OFFSETS
    log = Log.open(OsFileSystem(), directory, SETTINGS, clean=False)
    before = log.size_bytes
    assert log.segment_count > 10
    for now in (NOW, NOW + 10_000):
        steps, looks = compact(log, order(log, now=now)), 0
        while True:
            try:
                advance(steps)
            except StopIteration:
                break
            looks += 1
            if looks % 5 == 0:
                assert errors(data_dir) == []
        assert errors(data_dir) == []
    log.close()
    assert log.size_bytes < before / 2
    assert errors(data_dir) == []
    found = list(read_batches(read_partition(directory)))
    assert sum(each[1].header.record_count for each in found if isinstance(each, tuple)) < 80


def test_a_sync_mark_in_a_segment_that_compaction_shortened_is_no_damage(data_dir: Path) -> None:
    """The size in the mark is that of the segment before the compaction."""
    (data_dir / "clean-shutdown").unlink()
    topics = open_topics(data_dir)
    offsets = topics.by_name(GROUP_OFFSETS_TOPIC)
    assert offsets is not None
    topics.set_overrides(offsets, {"segment.bytes": "1024", "index.interval.bytes": "200"}, NOW)
    partition = offsets.partition(0)
    partition.log.settings = SETTINGS
    for number in range(60):
        partition.append_internal([coordinator_batch(commit_of(number % 2, number))])
        request = partition.log.begin_sync()
        request.run()
        partition.log.complete_sync(request)
        if number == 2:
            partition.log.mark()
    size = (data_dir / OFFSETS / f"{0:020d}.log").stat().st_size
    steps = compact(partition.log, order(partition.log, now=NOW))
    with suppress(StopIteration):
        while True:
            advance(steps)
    partition.log.close_files()
    assert (data_dir / OFFSETS / f"{0:020d}.log").stat().st_size < size
    assert errors(data_dir) == []
