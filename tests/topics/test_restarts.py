"""Topics after a stop, a crash, or a start on a changed disk."""

from __future__ import annotations

import errno
import json
import random
import resource
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.log.compacting import drive
from tests.topics.disk import DATA, NOW, Disk, append, batch, create, told, values
from tests.topics.transactions import Writer

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.filesystem import Fault, MemoryFileSystem, OsFileSystem, PowerCut
from headgate.log.sync import SyncRequest
from headgate.server.identity import cluster_id
from headgate.topics.catalogue import Catalogue, CatalogueCorrupt
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.partition_files import LEADER_EPOCHS_FILE, PRODUCERS_FILE
from headgate.topics.refusal import Refusal
from headgate.topics.topics import Topics


def test_a_restart_changes_nothing(disk: Disk) -> None:
    """Topics, ids, settings, records and positions are the same; after a crash too, if they were durable."""
    topics = disk.start()
    create(topics, disk, "letters", 3, retention_ms="1000")
    changed = create(topics, disk, "numbers")
    create(topics, disk, "gone")
    create(topics, disk, "__consumer_offsets", 50, cleanup_policy="compact")
    assert topics.add_partitions(changed, 5, NOW) is None
    assert topics.set_overrides(changed, {"max.message.bytes": "500"}, NOW) is None
    assert topics.change_settings([topics.group_change("readers", {"anything": "1"})], NOW) is None
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


@pytest.mark.parametrize("was_refused", [False, True])
def test_a_log_without_a_write_is_not_missing_at_the_next_start(
    disk: Disk, caplog: pytest.LogCaptureFixture, was_refused: bool
) -> None:
    """Opened by its first user, who wrote nothing or could not: it got no directory."""
    topics = disk.start()
    topic = create(topics, disk, "letters", 2)
    append(topic, b"a", partition=1)
    if was_refused:
        disk.files.inject(Fault(errno.ENOSPC, "make_directory", times=None))
        assert topic.partition(0).append(batch(b"b"), NOW).error == ErrorCode.KAFKA_STORAGE_ERROR
        disk.files.heal()
    else:
        assert topic.partition(0).log.log_end_offset == 0
    topics.close()
    caplog.clear()
    found = disk.start().by_name("letters")
    assert caplog.messages == []
    assert found is not None
    assert found.written_partitions() == [1]


def test_logs_whose_syncs_run_together_are_closed_each_by_itself(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In any order; one that fails keeps no other from being closed, and the stop is not a clean one."""
    monkeypatch.setattr(MemoryFileSystem, "syncs_at_once", 4)

    def backwards(requests: Sequence[SyncRequest]) -> None:
        for request in reversed(requests):
            request.run_quietly()

    monkeypatch.setattr("headgate.topics.topics.run_together", backwards)
    topics = disk.start()
    topic = create(topics, disk, "letters", 10)
    for partition in range(10):
        append(topic, b"%d" % partition, partition=partition)
    disk.files.inject(Fault(errno.EIO, "sync_directory", path_ends="letters-6"))
    topics.close()
    assert [vars(record)["partition"].index for record in caplog.records] == [6]
    assert CLEAN_SHUTDOWN_FILE not in disk.files.listdir(DATA)
    disk.files.heal()
    topics = disk.start()
    (topic,) = (one for one in topics.all() if one.name == "letters")
    assert [values(topic, partition) for partition in range(10)] == [[b"%d" % one] for one in range(10)]
    topics.close()
    assert CLEAN_SHUTDOWN_FILE in disk.files.listdir(DATA)


def test_more_logs_than_are_synced_together_are_closed_on_a_real_disk(tmp_path: Path) -> None:
    """By several threads. The next start finds a clean stop."""
    disk, files = Disk(), OsFileSystem()
    topics = Topics.open(files, tmp_path, disk.settings, NOW)
    count = files.syncs_at_once + 3
    topic = create(topics, disk, "letters", count)
    for partition in range(count):
        append(topic, b"%d" % partition, partition=partition)
    topics.close()
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    topics = Topics.open(files, tmp_path, disk.settings, NOW)
    (topic,) = (one for one in topics.all() if one.name == "letters")
    assert [values(topic, partition) for partition in range(count)] == [[b"%d" % one] for one in range(count)]
    topics.close()


def test_a_stop_needs_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have all the threads that its limits allow: then one after another is synced."""
    disk = Disk()
    topics = Topics.open(OsFileSystem(), tmp_path, disk.settings, NOW)
    topic = create(topics, disk, "letters", 5)
    for partition in range(5):
        append(topic, b"a", partition=partition)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    topics.close()
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize(("limit", "at_once"), [(64, 1), (256, 4), (1024, 16), (65536, 32)])
def test_syncs_run_together_as_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch, limit: int, at_once: int
) -> None:
    """Connections and logs have most of them while a server stops."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert OsFileSystem().syncs_at_once == at_once


def test_the_directory_of_a_log_without_a_record_is_deleted_with_its_topic(disk: Disk) -> None:
    """Its first write made the directory and failed, and the log was closed since."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    disk.files.inject(Fault(errno.ENOSPC, "open", path_ends=".log", times=None))
    assert topic.partition(0).append(batch(b"a"), NOW).error == ErrorCode.KAFKA_STORAGE_ERROR
    topic.partition(0).put_back()
    disk.files.heal()
    assert "letters-0" in disk.files.listdir(DATA)
    assert topics.delete(topic, NOW) is None
    topics.remove_leftovers()
    assert not [name for name in disk.files.listdir(DATA) if name.startswith("letters")]


def test_remaining_directories_of_a_deleted_topic_are_removed_at_start(disk: Disk) -> None:
    """A crash between the record and the removal does not restore the topic."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    append(topic, b"old")
    disk.files.inject(Fault(errno.EIO, "rename", times=None))
    topics.delete(topic, NOW)
    disk.files.crash()
    topics = disk.start()
    assert topics.all() == []
    assert "letters-0" not in disk.files.listdir(DATA)


def test_a_crash_at_any_moment_keeps_answered_changes(disk: Disk) -> None:
    """Every topic whose creation was answered exists, complete."""
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


def refused_deletion(disk: Disk, *, times: int | None = 1) -> Topics:
    """Return the topics of a node that could not delete `letters`: so many syncs fail (None: all)."""
    topics = disk.start()
    topic = create(topics, disk, "letters")
    append(topic, b"a")
    disk.files.inject(Fault(errno.EIO, "datasync", times=times, path_ends=".log"))
    refused = topics.delete(topic, NOW)
    assert refused is not None
    assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
    return topics


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_a_refused_deletion_is_not_made_by_the_next_start(disk: Disk, way: str) -> None:
    """The topic remains, with the records that were acknowledged after the refusal."""
    topics = refused_deletion(disk)
    append(topics.all()[0], b"b")
    if way == "stopped":
        topics.close()
    else:
        disk.files.kill()
    assert [values(topic) for topic in disk.start().all()] == [[b"a", b"b"]]


def test_a_refused_deletion_is_removed_when_the_disk_works_again(disk: Disk) -> None:
    """Without another change: its record is dropped by the tries of failing logs."""
    topics = refused_deletion(disk, times=None)
    housekeeping = Housekeeping(topics)
    assert drive(housekeeping.try_failing()) == [False]
    disk.files.heal()
    assert drive(housekeeping.try_failing()) == [True]
    assert not topics.failing
    append(topics.all()[0], b"b")
    disk.files.kill()
    assert [values(topic) for topic in disk.start().all()] == [[b"a", b"b"]]


def test_a_refused_deletion_is_removed_at_the_stop(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """Or an error says that the next start makes it."""
    topics = refused_deletion(disk, times=None)
    disk.files.heal()
    topics.close()
    assert [values(topic) for topic in disk.start().all()] == [[b"a"]]
    assert "a refused change" not in caplog.text
    topics = refused_deletion(Disk(), times=None)
    topics.close()
    assert "a refused change is left in the catalogue" in caplog.text


def test_producer_ids_are_never_given_twice(disk: Disk) -> None:
    """Neither after a clean stop, nor after a crash, nor on a failing disk."""
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


def test_the_leader_epoch_rises_only_after_a_crash(disk: Disk) -> None:
    """A crash may have lost records that clients have read."""
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
    """After a stop and after a crash, duplicates and gaps are detected."""
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


def test_damage_in_an_older_segment_stops_no_producer(disk: Disk) -> None:
    """Readable segments restore the producers; the damage is reported to readers."""
    topics = disk.start()
    topic = create(topics, disk, "letters", segment_bytes="1024")
    for sequence in range(40):
        append(topic, b"a", producer=(7, 0, sequence))
    disk.files.crash()
    directory = DATA / "letters-0"
    if disk.files.exists(directory / PRODUCERS_FILE):
        disk.files.remove(directory / PRODUCERS_FILE)
    segments = sorted(name for name in disk.files.listdir(directory) if name.endswith(".log"))
    file = disk.files.open(directory / segments[1])
    file.pwrite(b"noise", file.size())
    file.close()
    found = disk.start().by_name("letters")
    assert found is not None
    assert append(found, b"a", producer=(7, 0, 40)) == 40
    assert found.partition(0).append(batch(b"a", producer=(7, 0, 99)), NOW).error


@pytest.mark.parametrize("way", ["killed", "stopped", "recovered"])
def test_a_producer_continues_whose_records_were_deleted(disk: Disk, way: str) -> None:
    """Kafka Streams deletes what it has read, up to the marker of the transaction: the producer's next batch
    is in order.
    """
    topics = disk.start()
    topic = create(topics, disk, "letters")
    writer = Writer(topic, 7)
    writer.write(b"a", b"b")
    marker = writer.end(is_committed=True)
    assert topic.partition(0).delete_records(marker) == (ErrorCode.NONE, marker)
    if way == "killed":
        disk.files.kill()
    elif way == "stopped":
        topics.close()
    else:
        topic.partition(0).log.recover()
    if way != "recovered":
        topics = disk.start()
    writer.topic = topics.all()[0]
    writer.write(b"c")


def test_a_repeated_batch_is_known_after_retention_and_a_restart(disk: Disk) -> None:
    """An idempotent producer may send the last batch again, though its records are deleted."""
    topics = disk.start()
    topic = create(topics, disk, "letters", retention_ms="1000")
    append(topic, b"a", producer=(7, 0, 0))
    assert topic.partition(0).apply_retention(Millis(NOW + 1001)) == 1
    disk.files.kill()
    again = disk.start().all()[0].partition(0)
    repeated = again.append(batch(b"a", producer=(7, 0, 0)), NOW)
    assert (repeated.error, repeated.base_offset, again.log_end_offset) == (ErrorCode.NONE, 0, 1)


def test_sequences_of_lost_records_are_forgotten(disk: Disk) -> None:
    """With page-cache durability a crash may lose the tail; its batches may then be sent again, also if there
    is a snapshot.
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


def test_a_snapshot_of_lost_records_is_ignored(disk: Disk) -> None:
    """It survives the crash that lost its records, and stays invalid when other records get their offsets."""
    topics = disk.start()
    topic = create(topics, disk, "letters", headgate_durability="page-cache")
    append(topic, b"kept", producer=(7, 0, 0))
    partition = topic.partition(0)
    partition._derived.snapshot_at_bytes = 0
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


def test_batches_have_the_leader_epoch_of_their_append(disk: Disk) -> None:
    """So a damaged file of epochs is rebuilt from the log."""
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


def test_a_log_with_damage_and_without_a_file_of_epochs_is_opened(disk: Disk) -> None:
    """The epochs before the damage and that of the last batch are known."""
    topics = disk.start()
    topic = create(topics, disk, "letters", segment_bytes="1024", index_interval_bytes="1")
    append(topic, b"first")
    directory = topic.directory_of(0)
    second_batch_at = topic.partition(0).size_bytes
    for _ in range(39):
        append(topic, b"another")
    disk.files.crash()
    topics = disk.start()
    again = topics.by_name("letters")
    assert again is not None
    append(again, b"last")
    topics.close()
    disk.files.open(directory / f"{0:020}.log").pwrite(bytes(4), second_batch_at + 8)
    disk.files.remove(directory / LEADER_EPOCHS_FILE)
    topics = disk.start()
    found = topics.by_name("letters")
    assert found is not None
    assert [found.partition(0).end_offset_of_epoch(epoch) for epoch in (0, 1)] == [(0, 40), (1, 41)]


def test_a_newer_catalogue_is_refused(disk: Disk) -> None:
    """A data directory of a later Headgate is not opened."""
    topics = disk.start()
    catalogue = topics._catalogue
    assert isinstance(catalogue, Catalogue)
    catalogue.commit([{"v": 3, "type": "something"}], NOW)
    topics.close()
    with pytest.raises(CatalogueCorrupt, match="newer"):
        disk.start()


def test_an_older_server_refuses_the_catalogue(disk: Disk) -> None:
    """Servers that read records up to version 1 do not know the files beside the logs."""
    topics = disk.start()
    cluster_id(disk.files, topics, NOW)
    log = topics._catalogue._log
    events = [
        json.loads(record.value or b"") for _, data in log.batches() for _, record in iterate_records(data)
    ]
    assert [event["v"] for event in events if event["type"] == "cluster-named"] == [2]


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
def test_an_invalid_catalogue_record_is_named(disk: Disk, event: dict[str, object]) -> None:
    """The error of the start has its offset."""
    topics = disk.start()
    log = topics._catalogue._log
    batch = encode_batch([Record(None, json.dumps(event).encode(), NOW)], base_offset=log.log_end_offset)
    log.append(batch, (read_header(batch),))
    disk.files.kill()
    with pytest.raises(CatalogueCorrupt, match=r"record at offset \d+"):
        disk.start()


def test_a_partition_that_lacks_a_segment_is_refused_and_no_other(disk: Disk) -> None:
    """Clients get a storage error, no record is written into the gap, and the log line has the offsets."""
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
