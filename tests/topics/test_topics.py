"""Topics: the catalogue's promises, and what is left after a stop, a crash, or a failing disk."""

from __future__ import annotations

import errno
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.topics.disk import DATA, NOW, Disk, batch

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.filesystem import Fault, OsFileSystem, PowerCut
from headgate.topics.catalogue import Catalogue, CatalogueCorrupt
from headgate.topics.partition_files import LEADER_EPOCHS_FILE, PRODUCERS_FILE
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics


def create(topics: Topics, disk: Disk, name: str, partitions: int = 1, **overrides: str) -> Topic:
    texts = {key.replace("_", "."): value for key, value in overrides.items()}
    created = topics.create(NewTopic(name, disk.topic_id(), partitions, texts), NOW)
    assert isinstance(created, Topic), created
    return created


def append(
    topic: Topic, *values: bytes, partition: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> int:
    """Append durably; the base offset."""
    found = topic.partition(partition)
    result = found.append(batch(*values, producer=producer), NOW)
    assert result.error == ErrorCode.NONE, result
    sync(topic, partition)
    return result.base_offset


def sync(topic: Topic, partition: int = 0) -> None:
    log = topic.partition(partition).log
    request = log.begin_sync()
    request.run()
    log.complete_sync(request)
    topic.partition(partition).advance()


def values(topic: Topic, partition: int = 0) -> list[bytes | None]:
    records = topic.partition(partition).read(0, 1 << 30, minimum_one=True).records
    return [record.value for _, record in iterate_records(records)]


def told(topics: Topics) -> list[Any]:
    """All that clients can learn of the topics."""
    return [
        (topic.name, topic.topic_id, topic.partition_count, topic.overrides, topic.is_internal)
        for topic in topics.all()
    ]


def test_a_restart_changes_nothing(disk: Disk) -> None:
    """Topics, ids, settings, records and positions are what they were; after a crash too, if they were
    durable.
    """
    topics = disk.start()
    create(topics, disk, "letters", 3, retention_ms="1000")
    changed = create(topics, disk, "numbers")
    create(topics, disk, "gone")
    create(topics, disk, "__consumer_offsets", 50, cleanup_policy="compact")
    assert topics.add_partitions(changed, 5, NOW) is None
    assert topics.set_overrides(changed, {"max.message.bytes": "500"}, NOW) is None
    assert topics.set_group_overrides("readers", {"anything": "1"}, NOW) is None
    gone = topics.by_name("gone")
    assert gone is not None
    assert topics.delete(gone, NOW) is None
    append(changed, b"a", b"b", partition=4)
    before = told(topics)
    topics.close()
    for is_crash in (False, True, False):
        topics = disk.start()
        assert told(topics) == before
        assert topics.group_overrides("readers") == {"anything": "1"}
        assert topics.by_id(gone.topic_id) is None
        numbers = topics.by_name("numbers")
        assert numbers is not None
        assert values(numbers, 4) == [b"a", b"b"]
        assert numbers.partition(4).high_watermark == 2
        if is_crash:
            disk.files.crash()
        else:
            topics.close()


def test_a_recreated_topic_is_another_one(disk: Disk) -> None:
    """Its id is new, its records are none, and the old id stays unknown."""
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
    """Its directories are gone at once, and whoever holds a partition of it can write no more."""
    topics = disk.start()
    topic = create(topics, disk, "letters", 2)
    append(topic, b"a", partition=1)
    held = topic.partition(1)
    deleted: list[Topic] = []
    topics.on_deleted.append(deleted.append)
    assert topics.delete(topic, NOW) is None
    assert deleted == [topic]
    assert [name for name in disk.files.listdir(DATA) if name.startswith("letters")] == []
    assert held.append(batch(b"b"), NOW).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert [name for name in disk.files.listdir(DATA) if name.startswith("letters")] == []


def test_deleting_a_topic_of_many_partitions_syncs_once(disk: Disk) -> None:
    """The catalogue's record, and all the names together; the files go some at a time, the name is free."""
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


def test_a_name_whose_old_files_cannot_be_removed_stays_taken(disk: Disk) -> None:
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
    topics.housekeeping(NOW)
    assert values(create(topics, disk, "letters")) == []


def test_what_was_left_of_a_deleted_topic_goes_at_the_next_start(disk: Disk) -> None:
    """A crash between the record and the removal does not bring the topic back."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    append(topic, b"old")
    disk.files.inject(Fault(errno.EIO, "rename", times=None))
    topics.delete(topic, NOW)
    disk.files.crash()
    topics = disk.start()
    assert topics.all() == []
    assert "letters-0" not in disk.files.listdir(DATA)


def test_a_strange_directory_is_left_alone(disk: Disk) -> None:
    """What no catalogue ever knew is not ours to remove or to write into."""
    disk.files.make_directory(DATA / "foreign-0")
    topics = disk.start()
    refused = topics.create(NewTopic("foreign", disk.topic_id(), 1), NOW)
    assert isinstance(refused, Refusal)
    topics.housekeeping(NOW)
    assert "foreign-0" in disk.files.listdir(DATA)


REFUSALS = [
    ("a bad name", "a b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a taken name", "taken.name", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
    ("a colliding name", "taken_name", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("no partitions", "new", 0, {}, ErrorCode.INVALID_PARTITIONS),
    ("too many partitions", "new", 1_000_001, {}, ErrorCode.INVALID_PARTITIONS),
    ("an unknown setting", "new", 1, {"retention": "1"}, ErrorCode.INVALID_CONFIG),
    ("a bad value", "new", 1, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
    ("an unsupported codec", "new", 1, {"compression.type": "gzip"}, ErrorCode.INVALID_CONFIG),
]


@pytest.mark.parametrize(
    ("name", "partitions", "overrides", "error"),
    [row[1:] for row in REFUSALS],
    ids=[row[0] for row in REFUSALS],
)
def test_a_topic_that_cannot_be(
    disk: Disk, name: str, partitions: int, overrides: dict[str, str], error: ErrorCode
) -> None:
    """It is refused with its code, and a restart does not find it."""
    topics = disk.start()
    create(topics, disk, "taken.name")
    refused = topics.create(NewTopic(name, disk.topic_id(), partitions, overrides), NOW)
    assert isinstance(refused, Refusal)
    assert refused.error == error
    topics.close()
    assert [topic.name for topic in disk.start().all()] == ["taken.name"]


def test_a_hundred_thousand_partitions_cost_nothing(tmp_path: Any) -> None:
    """Created and found again in well under two seconds each, in few bytes, with no file or object a
    partition.
    """
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


def test_a_change_that_cannot_be_written_did_not_happen(disk: Disk) -> None:
    """The refusal is retriable, the catalogue is as before, and the next change works."""
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


def test_a_crash_at_any_moment_leaves_what_was_answered(disk: Disk) -> None:
    """Wherever the power is cut, every topic whose creation was answered is there, whole."""
    for moment in range(40):
        files_disk = Disk()
        answered: list[tuple[str, TopicId]] = []
        topics = files_disk.start()
        files_disk.files.cut_power_after(moment, torn_bytes=moment * 3)
        try:
            for number in range(4):
                topic = create(topics, files_disk, f"topic-{number}", 2)
                answered.append((topic.name, topic.topic_id))
                append(topic, b"value", partition=1)
        except PowerCut:
            pass
        files_disk.files.crash(random.Random(moment))
        found = files_disk.start()
        names = [(topic.name, topic.topic_id) for topic in found.all()]
        assert names[: len(answered)] == answered
        assert len(names) <= len(answered) + 1
        for name, _ in answered[:-1]:
            topic_found = found.by_name(name)
            assert topic_found is not None
            assert values(topic_found, 1) == [b"value"]


def test_producer_ids_are_never_given_twice(disk: Disk) -> None:
    """Not over a clean stop, not over a crash, not over a failing disk."""
    given: list[int | Refusal] = []
    for is_crash in (False, True, True, False):
        topics = disk.start()
        given += [topics.new_producer_id(NOW) for _ in range(1500)]
        if is_crash:
            disk.files.crash()
        else:
            topics.close()
    assert all(isinstance(one, int) for one in given)
    assert len(set(given)) == len(given)
    topics = disk.start()
    disk.files.inject(Fault(errno.EIO, "pwrite"))
    assert isinstance(topics.new_producer_id(NOW), Refusal)
    assert topics.new_producer_id(NOW) not in given


def test_the_leader_epoch_goes_up_after_a_crash_only(disk: Disk) -> None:
    """A clean restart disturbs no client; a crash may have lost what they read."""
    topics = disk.start()
    create(topics, disk, "letters")
    epochs = []
    for is_crash in (False, True, False, True):
        epochs.append(topics.leader_epoch)
        if is_crash:
            disk.files.crash()
        else:
            topics.close()
        topics = disk.start()
    assert [*epochs, topics.leader_epoch] == [0, 0, 1, 1, 2]


def test_the_sequences_of_producers_survive(disk: Disk) -> None:
    """After a stop and after a crash, duplicates and gaps are known as if nothing had happened."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    for sequence in range(3):
        append(topic, b"a", producer=(7, 0, sequence))
    for next_sequence, is_crash in enumerate((True, False, True, False), start=3):
        if is_crash:
            disk.files.crash()
        else:
            topics.close()
        topics = disk.start()
        found = topics.by_name("letters")
        assert found is not None
        partition = found.partition(0)
        again = partition.append(batch(b"a", producer=(7, 0, next_sequence - 2)), NOW)
        assert (again.error, again.base_offset) == (ErrorCode.NONE, next_sequence - 2)
        gap = partition.append(batch(b"a", producer=(7, 0, 99)), NOW)
        assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert append(found, b"a", producer=(7, 0, next_sequence)) == next_sequence


def test_sequences_of_lost_records_are_forgotten(disk: Disk) -> None:
    """On the page cache a crash may lose the tail; its batches may then come again, also with a snapshot
    about.
    """
    topics = disk.start()
    topic = create(topics, disk, "letters", headgate_durability="page-cache")
    append(topic, b"kept", producer=(7, 0, 0))
    lost = batch(b"lost", producer=(7, 0, 1))
    assert topic.partition(0).append(lost, NOW).base_offset == 1
    disk.files.crash()
    topics = disk.start()
    found = topics.by_name("letters")
    assert found is not None
    assert values(found) == [b"kept"]
    again = found.partition(0).append(lost, NOW)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 1)
    assert values(found) == [b"kept", b"lost"]


def test_a_snapshot_of_lost_records_is_never_believed(disk: Disk) -> None:
    """It outlives the crash that took its records; others at their offsets do not make it true again."""
    topics = disk.start()
    topic = create(topics, disk, "letters", headgate_durability="page-cache")
    append(topic, b"kept", producer=(7, 0, 0))
    partition = topic.partition(0)
    partition._snapshot_at_bytes = 0
    lost = batch(b"lost", producer=(7, 0, 1))
    assert partition.append(lost, NOW).error == ErrorCode.NONE
    directory = topic.directory_of(0)
    disk.files.open(directory / PRODUCERS_FILE).datasync()
    disk.files.sync_directory(directory)
    disk.files.crash()
    assert PRODUCERS_FILE in disk.files.listdir(directory)
    topics = disk.start()
    found = topics.by_name("letters")
    assert found is not None
    assert append(found, b"somebody else's") == 1
    again = found.partition(0).append(lost, NOW)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 2)


def test_batches_bear_the_epoch_they_were_written_in(disk: Disk) -> None:
    """So the epochs can be found in the log again when their file is damaged."""
    topics = disk.start()
    append(create(topics, disk, "letters"), b"before")
    disk.files.crash()
    topics = disk.start()
    topic = topics.by_name("letters")
    assert topic is not None
    append(topic, b"after")
    assert [header.leader_epoch for header, _ in topic.partition(0).log.batches()] == [0, 1]
    damaged = disk.files.open(topic.directory_of(0) / LEADER_EPOCHS_FILE)
    damaged.pwrite(b"nonsense", 0)
    topics.close()
    topics = disk.start()
    found = topics.by_name("letters")
    assert found is not None
    assert [found.partition(0).end_offset_of_epoch(epoch) for epoch in (0, 1)] == [(0, 1), (1, 2)]


def test_old_and_surplus_records_are_deleted(disk: Disk) -> None:
    """Housekeeping removes whole segments past the topic's age or size, in partitions nobody has open too."""
    topics = disk.start()
    by_age = create(topics, disk, "by.age", retention_ms="1000", segment_bytes="1024")
    by_size = create(topics, disk, "by.size", retention_bytes="3000", segment_bytes="1024")
    kept = create(topics, disk, "kept", segment_bytes="1024", cleanup_policy="compact")
    for topic in (by_age, by_size, kept):
        for _ in range(10):
            append(topic, b"x" * 500)
    topics.close()
    topics = disk.start()
    for _ in range(3):
        topics.housekeeping(Millis(NOW + 2000))
    starts = {str(topic.name): topic.partition(0).log_start_offset for topic in topics.all()}
    ends = {str(topic.name): topic.partition(0).log_end_offset for topic in topics.all()}
    assert ends == {"by.age": 10, "by.size": 10, "kept": 10}
    assert starts["by.age"] == 10
    assert 0 < starts["by.size"] < 10
    assert starts["kept"] == 0


def test_no_setting_endangers_a_coordinators_topic(disk: Disk) -> None:
    """Whatever is set on it, retention deletes nothing of it."""
    topics = disk.start()
    topic = create(topics, disk, "__consumer_offsets", cleanup_policy="delete", retention_ms="1")
    append(topic, b"a")
    topics.housekeeping(Millis(NOW + 1_000_000))
    assert topic.partition(0).log_start_offset == 0


def test_few_files_are_open_however_many_partitions(tmp_path: Path) -> None:
    """Beyond the limit the log unused for longest gives its files back, and reads on when asked."""

    def open_segments() -> int:
        targets = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return sum(target.suffix == ".log" and target.is_relative_to(tmp_path) for target in targets)

    topics = Topics.open(OsFileSystem(), tmp_path, Settings(), NOW)
    topic = topics.create(NewTopic("wide", TopicId(bytes(range(16))), 20), NOW)
    assert isinstance(topic, Topic)
    topic.shared.open_files_limit = 4
    for index in range(20):
        append(topic, b"%d" % index, partition=index)
    assert open_segments() <= 4 + 1  # and the catalogue's
    assert [values(topic, index) for index in range(20)] == [[b"%d" % index] for index in range(20)]
    assert open_segments() <= 4 + 1
    topics.close()


def test_a_newer_catalogue_is_not_guessed_at(disk: Disk) -> None:
    """A data directory of a later Headgate is refused, not half understood."""
    topics = disk.start()
    catalogue = topics._catalogue
    assert isinstance(catalogue, Catalogue)
    catalogue.commit([{"v": 2, "type": "something"}], NOW)
    topics.close()
    with pytest.raises(CatalogueCorrupt, match="newer"):
        disk.start()


@pytest.mark.parametrize(
    "event",
    [
        {"v": "1", "type": "topic-created"},
        {"v": 1},
        {"v": 1, "type": 7},
        {"v": 1, "type": "topic-created"},
        {"v": 1, "type": "topic-created", "name": "x", "id": 7, "partitions": "many"},
    ],
)
def test_a_catalogue_record_that_says_nothing_is_named(disk: Disk, event: dict[str, object]) -> None:
    """Whatever is wrong with a record, the start is refused in words that say where it stands."""
    topics = disk.start()
    log = topics._catalogue._log
    batch = encode_batch([Record(None, json.dumps(event).encode(), NOW)], base_offset=log.log_end_offset)
    log.append(batch, (read_header(batch),))
    topics.close()
    with pytest.raises(CatalogueCorrupt, match=r"record at offset \d+"):
        disk.start()


def test_changes_are_told_to_who_wants_to_know(disk: Disk) -> None:
    """New topics of one request together, more partitions, groups' settings; what changes nothing is not."""
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
    topics.set_group_overrides("g", {"consumer.session.timeout.ms": "50000"}, NOW)
    topics.set_group_overrides("g", {"consumer.session.timeout.ms": "50000"}, NOW)
    topics.set_group_overrides("g", {}, NOW)
    assert configured == ["g", "g"]


def test_a_partition_that_lacks_a_segment_is_refused_and_no_other(disk: Disk) -> None:
    """Clients get a storage error, nothing is written over the hole, and the log line names the offsets."""
    topics = disk.start()
    topic = create(topics, disk, "letters", partitions=2, segment_bytes="1024")
    for at in range(40):
        append(topic, b"%d" % at)
        append(topic, b"whole", partition=1)
    topics.close()
    segments = sorted(name for name in disk.files.listdir(DATA / "letters-0") if name.endswith(".log"))
    disk.files.remove(DATA / "letters-0" / segments[1])
    topic_again = disk.start().by_name("letters")
    assert topic_again is not None
    damaged = topic_again.partition(0)
    assert damaged.read(0, 1 << 20, minimum_one=True).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert damaged.append(batch(b"more"), NOW).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(topic_again, 1)[:1] == [b"whole"]
    assert len(disk.files.listdir(DATA / "letters-0")) > len(segments)
