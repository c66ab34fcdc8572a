"""Deletion of logs of thousands of segments: in small parts, and complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.topics.disk import DATA, NOW, Disk, append, batch, create, sync

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.deletion import removing_deleted
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.topic import Topic
from headgate.topics.topics import Topics

SEGMENTS = 200
MOST_FILES = 40
"""Limit of the files that one step removes."""
LATE = Millis(NOW + 10_000)


def long_topic(topics: Topics, disk: Disk) -> Topic:
    """Create a topic whose log has a segment for every record."""
    topic = create(topics, disk, "letters", 1)
    assert topics.set_overrides(topic, {"segment.ms": "1"}, NOW) is None
    for number in range(SEGMENTS):
        at = Millis(NOW + 2 * number)
        assert topic.partition(0).append(batch(b"a", timestamp=at), at).error == ErrorCode.NONE
        sync(topic)
    assert len(log_files(disk)) == SEGMENTS
    return topic


def log_files(disk: Disk, suffix: str = "") -> list[str]:
    """Return the names of the segments that are on the disk."""
    names = disk.files.listdir(DATA / f"letters-0{suffix}")
    return sorted(name for name in names if name.endswith(".log"))


def count_removals(disk: Disk) -> list[int]:
    """Count the removed files since the last look, in the only element of the list."""
    removed, remove = [0], disk.files.remove

    def count(path: object) -> None:
        removed[0] += 1
        remove(path)  # type: ignore[arg-type]

    disk.files.remove = count  # type: ignore[method-assign]
    return removed


def test_retention_of_many_segments_pauses(disk: Disk) -> None:
    """No step removes many files, and the round ends when all are removed."""
    topics = disk.start()
    topic = long_topic(topics, disk)
    assert topics.set_overrides(topic, {"retention.ms": "1"}, NOW) is None
    removed = count_removals(disk)
    steps = 0
    for step in Housekeeping(topics).round(LATE, lambda: True):
        assert step is None
        assert removed[0] <= MOST_FILES
        removed[0], steps = 0, steps + 1
    assert steps > 10
    assert log_files(disk) == [f"{SEGMENTS:020d}.log"]
    assert topic.partition(0).log_start_offset == SEGMENTS


def test_requested_deletion_of_many_segments_pauses(disk: Disk) -> None:
    """The new start is durable at once. If the rest of the files is not removed, the next round does that."""
    topics = disk.start()
    topic = long_topic(topics, disk)
    removed = count_removals(disk)
    partition = topic.partition(0)
    assert partition.delete_records(SEGMENTS - 1) == (ErrorCode.NONE, SEGMENTS - 1)
    assert 0 < removed[0] <= MOST_FILES
    removed[0] = 0
    assert partition.remove_segments()
    assert 0 < removed[0] <= MOST_FILES
    assert len(log_files(disk)) > SEGMENTS // 2
    for _ in Housekeeping(topics).round(NOW):
        pass
    assert not partition.remove_segments()
    assert log_files(disk) == [f"{SEGMENTS - 1:020d}.log"]


def test_a_start_finishes_a_removal(disk: Disk) -> None:
    """After a crash between two parts of it, the log begins at its start and the files are removed."""
    topics = disk.start()
    topic = long_topic(topics, disk)
    assert topic.partition(0).delete_records(SEGMENTS - 1)[0] == ErrorCode.NONE
    disk.files.crash()
    topics = disk.start()
    found = topics.by_name("letters")
    assert found is not None
    assert found.partition(0).log_start_offset == SEGMENTS - 1
    assert log_files(disk) == [f"{SEGMENTS - 1:020d}.log"]


def test_the_files_of_a_deleted_topic_are_removed_in_parts(disk: Disk) -> None:
    """Also those of one partition with many segments, and of a topic of the same name, deleted meanwhile."""
    topics = disk.start()
    topic = long_topic(topics, disk)
    removed = count_removals(disk)
    assert topics.delete(topic, NOW) is None
    assert 0 < removed[0] <= MOST_FILES
    removed[0] = 0
    assert topics.remove_deleted()
    assert 0 < removed[0] <= MOST_FILES
    again = create(topics, disk, "letters", 1)
    append(again, b"b")
    removed[0] = 0
    assert topics.delete(again, NOW) is None
    assert removed[0] <= MOST_FILES
    removed[0] = 0
    while topics.remove_deleted():
        assert 0 < removed[0] <= MOST_FILES
        removed[0] = 0
    assert not [name for name in disk.files.listdir(DATA) if name.startswith("letters")]


def test_the_data_directory_is_not_listed_for_each_of_many_deleted_topics(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many thousands of partitions each list takes long."""
    listed: list[int] = []

    def counting(*given: Any) -> Iterator[None]:
        listed.append(1)
        return removing_deleted(*given)

    topics = disk.start()
    long = long_topic(topics, disk)
    short = [create(topics, disk, f"letters-{number}", 1) for number in range(20)]
    for topic in short:
        append(topic, b"a")
    monkeypatch.setattr("headgate.topics.leftovers.removing_deleted", counting)
    for topic in (long, *short):
        assert topics.delete(topic, NOW) is None
    while topics.remove_deleted():
        pass
    assert not [name for name in disk.files.listdir(DATA) if name.startswith("letters")]
    assert len(listed) <= 3
