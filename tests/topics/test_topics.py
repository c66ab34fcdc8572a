"""Topics: creation, changes, deletion, and cost."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest
from tests.log.compacting import drive
from tests.topics.disk import DATA, NOW, Disk, append, batch, create, values

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.log.filesystem import Fault, OsFileSystem
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics


def test_a_recreated_topic_is_a_new_topic(disk: Disk) -> None:
    """It has a new id and no records, and the old id stays unknown."""
    topics = disk.start()
    old = create(topics, disk, "letters")
    append(old, b"old")
    assert topics.delete(old, NOW) is None
    new = create(topics, disk, "letters")
    assert new.topic_id != old.topic_id
    assert values(new) == []
    assert append(new, b"new") == 0
    topics.close()
    topics = disk.start()
    assert topics.by_id(old.topic_id) is None
    found = topics.by_id(new.topic_id)
    assert found is not None
    assert values(found) == [b"new"]


def test_a_deleted_topic_leaves_no_files(disk: Disk) -> None:
    """Its directories are removed at once, and its partitions accept no writes."""
    topics = disk.start()
    topic = create(topics, disk, "letters", 2)
    append(topic, b"a", partition=1)
    held = topic.partition(1)
    deleted: list[Topic] = []
    topics.on_deleted.append(deleted.append)
    assert topics.delete(topic, NOW) is None
    assert deleted == [topic]
    assert [name for name in disk.files.listdir(DATA) if name.startswith("letters")] == []
    assert held.append(batch(b"b"), NOW).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [name for name in disk.files.listdir(DATA) if name.startswith("letters")] == []


@pytest.mark.parametrize("length", [1, 246, 247, 248, 249])
def test_a_topic_of_any_name_can_be_removed(tmp_path: Path, length: int) -> None:
    """On a real disk, with names of at most 255 bytes; directories of similar names do not collide."""
    disk = Disk()
    topics = Topics.open(OsFileSystem(), tmp_path, disk.settings, NOW)
    doomed, other = (create(topics, disk, "n" * (length - 1) + end, partitions=12) for end in "ab")
    for topic in (doomed, other):
        append(topic, b"a", partition=11)
        append(topic, b"a", partition=1)
    assert topics.delete(doomed, NOW) is None
    again = create(topics, disk, doomed.name)
    assert append(again, b"b") == 0
    assert topics.delete(other, NOW) is None
    while topics.remove_deleted():
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"catalogue", f"{doomed.name}-0"}
    topics.close()


def test_deleting_a_topic_syncs_independently_of_its_partitions(disk: Disk) -> None:
    """One sync for the catalogue's record, one for all renames; the files are removed some at a time, the
    name is free.
    """
    topics = disk.start()
    topic = create(topics, disk, "letters", 100)
    for partition in range(100):
        append(topic, b"a", partition=partition)
    synced: list[Path] = []
    sync_directory = disk.files.sync_directory

    def count(path: Path) -> None:
        synced.append(path)
        sync_directory(path)

    disk.files.sync_directory = count  # type: ignore[method-assign]
    assert topics.delete(topic, NOW) is None
    assert synced.count(DATA) == 1
    again = create(topics, disk, "letters", 100)
    assert append(again, b"b", partition=7) == 0
    assert any(name.endswith(".delete") for name in disk.files.listdir(DATA))
    while topics.remove_deleted():
        pass
    assert [name for name in disk.files.listdir(DATA) if name.startswith("letters")] == ["letters-7"]


def test_a_name_is_not_free_while_its_old_files_cannot_be_removed(disk: Disk) -> None:
    """New records never get into an old topic's directory; housekeeping frees the name when it can."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    append(topic, b"old")
    disk.files.inject(Fault(errno.EIO, "rename", times=None))
    assert topics.delete(topic, NOW) is None
    refused = topics.create(NewTopic("letters", disk.topic_id(), 1), NOW)
    assert isinstance(refused, Refusal)
    assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
    disk.files.heal()
    drive(Housekeeping(topics).round(NOW))
    assert values(create(topics, disk, "letters")) == []


def test_an_unknown_directory_is_not_changed(disk: Disk) -> None:
    """A directory that no catalogue knew is neither removed nor written into."""
    disk.files.make_directory(DATA / "foreign-0")
    topics = disk.start()
    refused = topics.create(NewTopic("foreign", disk.topic_id(), 1), NOW)
    assert isinstance(refused, Refusal)
    drive(Housekeeping(topics).round(NOW))
    assert "foreign-0" in disk.files.listdir(DATA)


REFUSALS = [
    ("a bad name", "a b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a taken name", "taken.name", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
    ("a colliding name", "taken_name", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("no partitions", "new", 0, {}, ErrorCode.INVALID_PARTITIONS),
    ("too many partitions", "new", 1_000_001, {}, ErrorCode.INVALID_PARTITIONS),
    ("an unknown setting", "new", 1, {"retention": "1"}, ErrorCode.INVALID_CONFIG),
    ("a bad value", "new", 1, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
    ("an unsupported codec", "new", 1, {"compression.type": "brotli"}, ErrorCode.INVALID_CONFIG),
    *(
        (f"{name} {value}", "new", 1, {name: value}, ErrorCode.INVALID_CONFIG)
        for name, values in {
            "flush.messages": ("0", "-1"),
            "flush.ms": ("-1",),
            "segment.jitter.ms": ("-1",),
            "preallocate": ("maybe", "1"),
            "min.insync.replicas": ("0", "-1", "2147483648"),
            "compression.gzip.level": ("0", "10", "-2"),
            "compression.lz4.level": ("0", "18"),
            "compression.zstd.level": ("23", "-131073"),
            "retention.ms": ("1_0", "\u0661", "", "1.5", "9223372036854775808"),
        }.items()
        for value in values
    ),
]


@pytest.mark.parametrize(
    ("name", "partitions", "overrides", "error"),
    [row[1:] for row in REFUSALS],
    ids=[row[0] for row in REFUSALS],
)
def test_an_invalid_topic_is_refused(
    disk: Disk, name: str, partitions: int, overrides: dict[str, str], error: ErrorCode
) -> None:
    """It has its error code, and a restart does not find it."""
    topics = disk.start()
    create(topics, disk, "taken.name")
    refused = topics.create(NewTopic(name, disk.topic_id(), partitions, overrides), NOW)
    assert isinstance(refused, Refusal)
    assert refused.error == error
    topics.close()
    assert [topic.name for topic in disk.start().all()] == ["taken.name"]


def test_a_hundred_thousand_partitions_cost_little(tmp_path: Any) -> None:
    """Creation and start take well under two seconds each, few bytes, and no file or object per partition."""
    topic_id = TopicId(bytes(range(16)))
    files = OsFileSystem()
    began = time.perf_counter()
    topics = Topics.open(files, tmp_path, Settings(), NOW)
    created = topics.create(NewTopic("wide", topic_id, 100_000), NOW)
    assert isinstance(created, Topic)
    append(created, b"a", partition=99_999)
    topics.close()
    topics = Topics.open(files, tmp_path, Settings(), NOW)
    found = topics.by_id(topic_id)
    assert time.perf_counter() - began < 2
    assert found is not None
    assert found.partition_count == 100_000
    assert list(found.open_partitions()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalogue", "wide-99999"]
    assert (tmp_path / "catalogue" / "00000000000000000000.log").stat().st_size < 500
    assert values(found, 99_999) == [b"a"]
    topics.close()


def test_a_kept_partition_is_the_only_object_of_it(disk: Disk) -> None:
    """All users share its log, whichever writes first."""
    topics = disk.start()
    topic = create(topics, disk, "letters", partitions=2)
    held = topic.partition(0)
    assert topic.find_partition(0) is held and topic.partition(0) is held
    assert append(topic, b"by another") == 0
    assert held.log_end_offset == 1
    topics.close()


def test_a_partition_that_was_only_found_is_not_kept(disk: Disk) -> None:
    """From its first write on it is."""
    topics = disk.start()
    topic = create(topics, disk, "letters", partitions=2)
    looked_at = topic.find_partition(1)
    assert looked_at is not None and looked_at.high_watermark == 0
    assert topic.find_partition(1) is not looked_at
    assert append(topic, b"first", partition=1) == 0
    assert topic.find_partition(1) is topic.find_partition(1)
    topics.close()


def test_a_partition_of_a_deleted_topic_takes_nothing_even_if_nobody_kept_it(disk: Disk) -> None:
    topics = disk.start()
    topic = create(topics, disk, "letters")
    partition = topic.find_partition(0)
    assert partition is not None
    assert topics.delete(topic, NOW) is None
    assert partition.append(batch(b"late"), NOW).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [path for path in disk.files.listdir(DATA) if path.startswith("letters")] == []
    topics.close()


def test_a_change_that_cannot_be_written_has_no_effect(disk: Disk) -> None:
    """The refusal is retriable, the catalogue is unchanged, and the next change works."""
    topics = disk.start()
    create(topics, disk, "before")
    for kind in ("pwrite", "datasync"):
        disk.files.inject(Fault(errno.ENOSPC, kind))
        refused = topics.create(NewTopic("during", disk.topic_id(), 1), NOW)
        assert isinstance(refused, Refusal)
        assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
        disk.files.heal()
        assert [topic.name for topic in topics.all()] == ["before"]
    create(topics, disk, "after")
    disk.files.crash()
    assert [topic.name for topic in disk.start().all()] == ["before", "after"]


def test_retention_deletes_old_and_surplus_segments(disk: Disk) -> None:
    """Housekeeping removes whole segments beyond the topic's age or size, in closed partitions too."""
    topics = disk.start()
    by_age = create(topics, disk, "by.age", retention_ms="1000", segment_bytes="1024")
    by_size = create(topics, disk, "by.size", retention_bytes="3000", segment_bytes="1024")
    kept = create(topics, disk, "kept", segment_bytes="1024", cleanup_policy="compact")
    no_policy = create(topics, disk, "no.policy", segment_bytes="1024", cleanup_policy="", retention_ms="1")
    for topic in (by_age, by_size, kept, no_policy):
        for _ in range(10):
            append(topic, b"x" * 500)
    topics.close()
    topics = disk.start()
    housekeeping = Housekeeping(topics)
    for _ in range(3):
        drive(housekeeping.round(Millis(NOW + 2000)))
    starts = {str(topic.name): topic.partition(0).log_start_offset for topic in topics.all()}
    ends = {str(topic.name): topic.partition(0).log_end_offset for topic in topics.all()}
    assert ends == {"by.age": 10, "by.size": 10, "kept": 10, "no.policy": 10}
    assert starts["by.age"] == 10
    assert 0 < starts["by.size"] < 10
    assert starts["kept"] == starts["no.policy"] == 0


def test_retention_never_deletes_from_a_coordinators_topic(disk: Disk) -> None:
    """Whatever its settings are."""
    topics = disk.start()
    topic = create(topics, disk, "__consumer_offsets", cleanup_policy="delete", retention_ms="1")
    append(topic, b"a")
    drive(Housekeeping(topics).round(Millis(NOW + 1_000_000)))
    assert topic.partition(0).log_start_offset == 0


def open_segments(data_dir: Path) -> int:
    """Return how many files of segments this process has open, without the catalogue's."""
    targets = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    logs = [one for one in targets if one.suffix == ".log" and one.is_relative_to(data_dir)]
    return sum(not one.is_relative_to(data_dir / "catalogue") for one in logs)


def test_the_number_of_open_files_is_limited(tmp_path: Path) -> None:
    """Beyond the limit the least recently used log closes its files, and opens them again when used."""
    topics = Topics.open(OsFileSystem(), tmp_path, Settings(), NOW)
    topic = topics.create(NewTopic("wide", TopicId(bytes(range(16))), 20), NOW)
    assert isinstance(topic, Topic)
    topic.shared.open_files_limit = 4
    for index in range(20):
        append(topic, b"%d" % index, partition=index)
    assert open_segments(tmp_path) <= 4
    assert [values(topic, index) for index in range(20)] == [[b"%d" % index] for index in range(20)]
    assert open_segments(tmp_path) <= 4
    topics.close()


def test_searches_by_time_keep_to_the_limit_of_open_files(tmp_path: Path) -> None:
    """A tool that asks for the offsets of all partitions at a time leaves descriptors to the connections."""
    topics = Topics.open(OsFileSystem(), tmp_path, Settings(), NOW)
    topic = topics.create(NewTopic("wide", TopicId(bytes(range(16))), 20), NOW)
    assert isinstance(topic, Topic)
    for index in range(20):
        append(topic, b"a", partition=index)
    topics.close()
    topics = Topics.open(OsFileSystem(), tmp_path, Settings(), NOW)
    topics.limit_open_logs(4)
    wide = topics.by_name("wide")
    assert wide is not None
    for timestamp in (NOW, -3, NOW):
        for index in range(20):
            assert drive(wide.partition(index).find_offset(timestamp)).offset == 0
        assert open_segments(tmp_path) <= 4
    topics.close()


def test_readers_of_old_records_keep_to_the_limit_of_open_files(tmp_path: Path) -> None:
    """A log has one open file beside that of its active segment, however many segments are read."""
    settings = Settings({"headgate.durability": "page-cache"})
    topics = Topics.open(OsFileSystem(), tmp_path, settings, NOW)
    overrides = {"segment.bytes": "1024"}
    topic = topics.create(NewTopic("long", TopicId(bytes(range(16))), 6, overrides), NOW)
    assert isinstance(topic, Topic)
    for _ in range(10):
        for index in range(6):
            append(topic, b"a" * 900, partition=index)
    topics.close()
    topics = Topics.open(OsFileSystem(), tmp_path, settings, NOW)
    topics.limit_open_logs(4)
    long = topics.by_name("long")
    assert long is not None
    for offset in range(10):
        assert long.partition(0).read(offset, 1, minimum_one=True).records
    assert open_segments(tmp_path) <= 2
    for offset in range(10):
        for index in range(6):
            assert long.partition(index).read(offset, 1, minimum_one=True).records
            assert open_segments(tmp_path) <= 4
    topics.close()


def test_changes_call_their_callbacks(disk: Disk) -> None:
    """New topics of one request together, more partitions, groups' settings; a change without effect does
    not.
    """
    topics = disk.start()
    told: list[list[tuple[str, int]]] = []
    topics.on_changed.append(lambda all_of: told.append([(one.name, one.partition_count) for one in all_of]))
    configured: list[str] = []
    topics.on_group_configured.append(configured.append)
    wanted = [NewTopic(name, TopicId(name.encode() * 16), 2) for name in ("a", "b", "a")]
    created = topics.create_all(wanted, NOW)
    assert told == [[("a", 2), ("b", 2)]]
    topic = created[0]
    assert isinstance(topic, Topic)
    assert topics.add_partitions(topic, 5, NOW) is None
    assert topics.add_partitions(topic, 5, NOW) is not None
    assert told[1:] == [[("a", 5)]]
    topics.change_settings([topics.group_change("g", {"consumer.session.timeout.ms": "50000"})], NOW)
    topics.change_settings([topics.group_change("g", {"consumer.session.timeout.ms": "50000"})], NOW)
    topics.change_settings([topics.group_change("g", {})], NOW)
    assert configured == ["g", "g"]


def test_producers_are_counted_as_long_as_their_topic_is_there(disk: Disk) -> None:
    """Those of all partitions; a topic that is deleted has none."""
    topics = disk.start()
    first, second = create(topics, disk, "first", 2), create(topics, disk, "second")
    for producer_id in range(3):
        append(first, b"x", producer=(producer_id, 0, 0))
    append(first, b"x", partition=1, producer=(1, 0, 0))
    append(second, b"x", producer=(1, 0, 0))
    assert first.shared.producers.total == 5
    topics.delete(first, NOW)
    assert first.shared.producers.total == 1
