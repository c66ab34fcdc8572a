"""`headgate import` of a directory that a broker left: what is taken over, and what is refused."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
from base64 import urlsafe_b64decode
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from bench.kafka.broker import kafka_missing
from confluent_kafka import Consumer, TopicPartition
from tests.takeover.conftest import Broker
from tests.takeover.kafka_life import DELETED, FLIGHTS, PAYMENTS, Printed, print_all

import headgate
from headgate.admin import Admin
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName, topic_id_text
from headgate.domain.partitioning import partition_for
from headgate.inspect.verify import verify
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.walking import walk_batches
from headgate.records.codec import encode
from headgate.records.share_group_model import ShareGroupStatePartitions, TopicPartitions
from headgate.records.share_state import encode_share
from headgate.records.share_state_model import ShareKey, ShareSnapshot
from headgate.takeover import importing
from headgate.takeover.cluster_metadata import BROKER_RESOURCE, TOPIC_RESOURCE, read_cluster_metadata
from headgate.takeover.errors import ImportRefused
from headgate.takeover.importing import Progress
from headgate.takeover.plan import plan_import
from headgate.takeover.source import stopped_broker
from headgate.topics.catalogue_copy import read_catalogue

SETTINGS = {
    "node.id": "1",
    # The directory was recorded once, and the tests run for years.
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
}
TIMED_OUT = "transaction timed out and is aborted transactional_id=till-"
"""The open transactions of the recording end a day after it."""
ALL = (f"--topics={FLIGHTS},{PAYMENTS}",)


def committed(servers: str, group: str, *places: TopicPartition) -> list[int]:
    """The committed offsets of a group."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        return [one.offset for one in consumer.committed(list(places), timeout=20)]
    finally:
        consumer.close()


def test_topics_keep_ids_partitions_and_settings(kafka: Broker, printed: Printed) -> None:
    """Those of Kafka's metadata log, from its snapshot and the records after it."""
    kafka.imported()
    catalogue = read_catalogue(kafka.target)
    found = {str(name): (entry.topic_id, entry.partition_count) for name, entry in catalogue.topics.items()}
    expected = {line.split()[0]: line.split()[1:] for line in printed["topics"]}
    assert found.keys() == expected.keys()
    for name, (topic_id, count) in expected.items():
        assert topic_id_text(found[name][0]) == topic_id
        assert found[name][1] == int(count)
    assert catalogue.topics[PAYMENTS].overrides["cleanup.policy"] == "compact"  # type: ignore[index]
    assert DELETED not in found
    assert catalogue.group_overrides["modern"] == {"consumer.session.timeout.ms": "47000"}


def test_the_new_directory_has_no_damage_and_needs_no_recovery(kafka: Broker) -> None:
    """The check finds nothing, and the server starts as after a clean stop."""
    kafka.imported(*ALL)
    assert [str(one) for one in verify(kafka.target).findings.listed] == []
    with headgate.run(SETTINGS, data_dir=kafka.target) as broker:
        log = broker.log_path.read_text()
    assert "last_stop=clean" in log
    trouble = [line for line in log.splitlines() if " ERROR " in line or " WARN " in line]
    assert [line for line in trouble if TIMED_OUT not in line] == []


def test_committed_offsets_are_those_of_kafka(kafka: Broker) -> None:
    """Of a standalone consumer, of a transaction, and of a topic that was deleted."""
    kafka.imported()
    with headgate.run(SETTINGS, data_dir=kafka.target) as broker:
        servers = broker.bootstrap_servers
        assert committed(servers, "standalone", TopicPartition(FLIGHTS, 2)) == [299]
        assert committed(servers, "exactly-once", TopicPartition(FLIGHTS, 1)) == [21]
        assert committed(servers, "deleted", TopicPartition(FLIGHTS, 0)) == [-1001]


def test_a_share_group_without_members_so_far_is_taken_over(kafka: Broker) -> None:
    """Its start offsets were set: Kafka has written its share-partitions, and no epoch of the group."""
    group, flights = GroupId("prepared"), TopicId(urlsafe_b64decode("B5oyBL6TRn61qhdBSIIYoQ=="))
    parts = TopicPartitions(TopicName(FLIGHTS), (1,))
    states = ShareGroupStatePartitions(group_id=group, initialized={flights: parts})
    append(kafka.first_segment(f"__consumer_offsets-{partition_for(group, 3)}"), *encode(states))
    start = ShareSnapshot(
        key=ShareKey(group, flights, 1),
        snapshot_epoch=0,
        state_epoch=1,
        leader_epoch=0,
        start_offset=100,
        created=Millis(0),
        written=Millis(0),
    )
    states_log = f"__share_group_state-{partition_for(start.key.name, 2)}"
    append(kafka.first_segment(states_log), *encode_share(start))
    kafka.imported("--topics", FLIGHTS)
    with headgate.run(SETTINGS, data_dir=kafka.target) as broker, Admin(broker.bootstrap_servers) as admin:
        assert {one.group_id for one in admin.list_share_groups()} == {"prepared", "workers"}
        assert starts(admin) == {1: 100}
        admin.alter_share_offsets(group, {headgate.admin.TopicPartition(FLIGHTS, 1): 50})
        assert starts(admin) == {1: 50}
        admin.delete_groups([group])
        assert [one.group_id for one in admin.list_share_groups()] == ["workers"]


def starts(admin: Admin) -> dict[int, int | None]:
    """The start offsets of the group, by partition, where it has any."""
    found = admin.share_offsets("prepared")
    return {one.partition.partition: one.start_offset for one in found if one.start_offset is not None}


@pytest.mark.skipif(kafka_missing() is not None, reason=kafka_missing() or "")
@pytest.mark.timeout(300)
def test_kafkas_tools_print_the_same_as_before(kafka: Broker, printed: Printed) -> None:
    """All groups, offsets, lags, topics, transactional ids and settings of groups."""
    kafka.imported(*ALL)
    with headgate.run(SETTINGS, data_dir=kafka.target) as broker:
        assert print_all(broker.bootstrap_servers) == printed


def test_a_dry_run_writes_nothing(kafka: Broker) -> None:
    """It tells what would be done, also as JSON."""
    plain = kafka.imported("--dry-run", "--topics", FLIGHTS)
    assert "dry run:" in plain and not kafka.target.exists()
    told = json.loads(kafka.imported("--dry-run", "--topics", FLIGHTS, "--output", "json"))
    by_name = {topic["name"]: topic["offsets"] for topic in told["topics"]}
    assert by_name[FLIGHTS] == 983 and by_name[PAYMENTS] is None
    assert told["dry_run"] is True and told["was_stopped_cleanly"] is True
    assert not kafka.target.exists()


def test_a_topic_without_its_records_begins_where_kafkas_ends(kafka: Broker) -> None:
    """Committed offsets keep their meaning: no lag appears or disappears."""
    kafka.imported()
    with headgate.run(SETTINGS, data_dir=kafka.target) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "x"})
        marks = [consumer.get_watermark_offsets(TopicPartition(FLIGHTS, n), 20) for n in range(3)]
        consumer.close()
    assert marks == [(335, 335), (335, 335), (330, 330)]


def test_what_is_not_taken_over_is_told(kafka: Broker) -> None:
    """Settings that Headgate does not have, and those of brokers."""
    output = kafka.imported()
    assert f"remote.log.copy.disable of {PAYMENTS} is left out" in output
    left_out = "settings of all brokers are left out, "
    assert left_out + "Headgate has none of these: log.cleaner.threads, min.insync.replicas" in output


def test_settings_of_brokers_are_told_as_serve_takes_them(kafka: Broker) -> None:
    """Those that it has, with their values."""
    with stopped_broker([kafka.data]) as broker:
        metadata = read_cluster_metadata(OsFileSystem(), broker.metadata_directory)
        metadata.configs[BROKER_RESOURCE, ""] = {"log.retention.ms": "-1", "num.io.threads": "9"}
        plan = plan_import(broker, metadata, [FLIGHTS], all_topics=False)
    told = [one.partition("left out, ")[2] for one in plan.notes if "of all brokers" in one]
    assert told == [
        "give them to `headgate serve`: log.retention.ms=-1",
        "Headgate has none of these: num.io.threads",
    ]


def test_no_setting_that_is_left_out_removes_records(kafka: Broker) -> None:
    """An empty cleanup.policy keeps all, as in Kafka. So does what replaces a value not valid here."""
    with stopped_broker([kafka.data]) as broker:
        metadata = read_cluster_metadata(OsFileSystem(), broker.metadata_directory)
        own = metadata.configs.setdefault((TOPIC_RESOURCE, FLIGHTS), {})
        own |= {"cleanup.policy": "", "retention.ms": "forever", "retention.bytes": "few"}
        plan = plan_import(broker, metadata, [FLIGHTS], all_topics=False)
    (planned,) = [one for one in plan.topics if one.name == FLIGHTS]
    assert planned.overrides == {
        "segment.bytes": "1048576",
        "cleanup.policy": "",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    told = [one for one in plan.notes if FLIGHTS in one]
    assert len(told) == 2 and all("no record is removed because of it" in one for one in told), told


# --- refusals ---


def test_a_running_broker_is_refused(kafka: Broker) -> None:
    """It holds a lock on its directory, in another process."""
    (kafka.data / ".lock").touch()
    context = multiprocessing.get_context("spawn")
    locked, done = context.Event(), context.Event()
    holder = context.Process(target=hold_lock, args=(kafka.data / ".lock", locked, done))
    holder.start()
    try:
        assert locked.wait(30)
        assert f"a Kafka broker runs on {kafka.data}; stop it first" in kafka.refused()
    finally:
        done.set()
        holder.join(10)
    kafka.imported()


def hold_lock(path: Path, locked: Event, done: Event) -> None:
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        locked.set()
        done.wait(60)


def test_a_target_that_is_not_empty_is_refused(kafka: Broker) -> None:
    """Nobody's data is overwritten; what is there stays."""
    kafka.target.mkdir()
    (kafka.target / "notes.txt").write_text("mine")
    assert "is not empty (it has notes.txt)" in kafka.refused()
    shutil.rmtree(kafka.target)
    kafka.imported()
    assert "is not empty" in kafka.refused()


def test_an_empty_target_is_used(kafka: Broker) -> None:
    """Such as a new volume."""
    kafka.target.mkdir()
    (kafka.target / "lost+found").mkdir()
    kafka.imported()
    assert (kafka.target / "lost+found").is_dir()


def test_what_is_no_kafka_directory_is_refused(kafka: Broker) -> None:
    """The message tells which directory to give."""
    (kafka.data / "meta.properties").rename(kafka.data / "gone")
    assert "is not a log directory of a Kafka broker: it has no meta.properties" in kafka.refused()
    (kafka.data / "meta.properties").write_text("version=1\ncluster.id=Le_g_HhWT4mTqFTmGruDwQ\n")
    assert "a data directory of Headgate is copied as a whole" in kafka.refused()
    (kafka.data / "gone").rename(kafka.data / "meta.properties")
    (kafka.data / "__cluster_metadata-0").rename(kafka.data / "metadata")
    assert "there is no __cluster_metadata-0" in kafka.refused()


def test_a_target_within_the_kafka_directory_is_refused(kafka: Broker) -> None:
    """Kafka does not start with a directory that is no partition."""
    inside = replace(kafka, target=kafka.data / "headgate")
    assert "where Kafka would not start any more" in inside.refused()


def test_a_broker_that_is_started_meanwhile_is_noticed(kafka: Broker) -> None:
    """It removes the mark of its clean stop. What was written stays unfinished."""
    with stopped_broker([kafka.data]) as broker:
        plan = importing.plan_of(broker, [], all_topics=False)
        ready = importing.check_logs(plan, Progress())
        (kafka.data / ".kafka_cleanshutdown").unlink()
        with pytest.raises(ImportRefused, match="was started on"):
            importing.carry_out(ready, kafka.target, Progress())
    assert (kafka.target / "import-unfinished").exists()


def test_a_directory_that_is_named_twice_is_one(kafka: Broker) -> None:
    """Also by another path."""
    twice = ("--from-kafka-log", f"{kafka.data}/../data")
    in_json = ("--dry-run", "--output", "json")
    assert json.loads(kafka.imported(*twice, *in_json)) == json.loads(kafka.imported(*in_json))
    kafka.imported(*twice)


def append(path: Path, key: bytes | None, value: bytes | None, *, is_control: bool = False) -> int:
    """Append a record to a segment; return its offset."""
    end = 0
    for _, header, _ in walk_batches(OsFileSystem().open(path), 0, path.stat().st_size):
        end = header.next_offset
    with path.open("ab") as file:
        records, producer = (
            [Record(key, value)],
            {"producer_id": 7, "producer_epoch": 0} if is_control else {},
        )
        file.write(
            encode_batch(
                records, base_offset=end, is_transactional=is_control, is_control=is_control, **producer
            )
        )
    return end


def test_a_record_that_no_coordinator_could_read_is_refused(kafka: Broker) -> None:
    """Otherwise the server would not start on what was taken over."""
    end = append(kafka.first_segment("__consumer_offsets-1"), b"\x00\x02\x00\x01g", b"\x00\x63")
    message = kafka.refused()
    assert f"the record at offset {end} cannot be read" in message and "99" in message


@pytest.mark.parametrize("key", [None, b"\x00"], ids=["no key", "short key"])
@pytest.mark.parametrize("topic", ["__consumer_offsets-1", "__transaction_state-0"])
def test_a_marker_that_no_coordinator_could_read_is_refused(
    kafka: Broker, topic: str, key: bytes | None
) -> None:
    """Otherwise the server could not load the log, and all groups of it would be unavailable."""
    path = kafka.first_segment(topic)
    end = append(path, key, b"", is_control=True)
    message = kafka.refused()
    assert str(path) in message
    assert f"the control record at offset {end} cannot be read: a control record has no type" in message


def test_unknown_topics_are_refused_and_the_others_listed(kafka: Broker) -> None:
    message = kafka.refused("--topics", "flihgts")
    assert "there is no topic flihgts in this cluster; it has: flights, never.written, payments" in message


def test_a_missing_partition_is_refused(kafka: Broker) -> None:
    """Its groups would be lost: the broker may have more directories."""
    shutil.rmtree(kafka.data / "__consumer_offsets-1")
    assert "__consumer_offsets-1 is in none of the directories; give all of log.dirs" in kafka.refused()


def test_several_directories_of_a_broker_are_one(kafka: Broker, tmp_path: Path) -> None:
    """As in `log.dirs`; a partition in two of them is refused."""
    other = tmp_path / "other"
    other.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown", "replication-offset-checkpoint"):
        shutil.copy(kafka.data / name, other / name)
    shutil.copytree(kafka.data / "__consumer_offsets-1", other / "__consumer_offsets-1")
    more = ("--from-kafka-log", str(other))
    assert "__consumer_offsets-1 is in" in kafka.refused(*more)
    shutil.rmtree(kafka.data / "__consumer_offsets-1")
    kafka.imported(*more)


# --- damage, crashes ---


def test_damage_is_told_with_file_and_position(kafka: Broker) -> None:
    """All of it at once, and nothing is taken over."""
    places = [kafka.first_segment("flights-0"), kafka.first_segment("flights-1")]
    for path in places:
        data = bytearray(path.read_bytes())
        data[100] ^= 1  # within the first batch
        path.write_bytes(data)
    message = kafka.refused("--topics", FLIGHTS)
    for path in places:
        assert f"{path}, byte 0: the checksum of the batch is wrong" in message
    kafka.imported()  # their records are not wanted


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_torn_end_is_left_out_after_a_crash_only(kafka: Broker, was_clean: bool) -> None:
    """After a clean stop it is damage."""
    path = kafka.first_segment("flights-2")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 7)
    if was_clean:
        assert f"{path}, byte " in kafka.refused("--topics", FLIGHTS)
        return
    (kafka.data / ".kafka_cleanshutdown").unlink()
    output = kafka.imported("--topics", FLIGHTS)
    assert f"left out: {path}, byte " in output.replace("\n", "")


def test_damage_before_whole_batches_is_no_torn_end(kafka: Broker) -> None:
    """Not even after a crash: a crash tears the end only."""
    (kafka.data / ".kafka_cleanshutdown").unlink()
    path = kafka.first_segment("flights-2")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    message = kafka.refused("--topics", FLIGHTS)
    assert f"{path}, byte 0: the checksum" in message
    assert "from a copy, or name all topics but flights with --topics" in message.replace("\n", " ")


def test_without_a_damaged_topic_the_others_are_taken_over(kafka: Broker) -> None:
    """As the refusal advises; not of the coordinators' topics, which every import reads."""
    path = kafka.first_segment("flights-2")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    offsets = kafka.first_segment("__consumer_offsets-0")
    whole = offsets.read_bytes()
    offsets.write_bytes(b"\xff" * 100 + whole)
    assert kafka.refused(*ALL).rstrip().endswith("Restore these files from a copy")
    offsets.write_bytes(whole)
    assert "from a copy, or name all topics but flights" in kafka.refused(*ALL).replace("\n", " ")
    kafka.imported("--topics", PAYMENTS)


def test_damaged_metadata_is_refused(kafka: Broker) -> None:
    """A record in the middle of the metadata log."""
    path = kafka.first_segment("__cluster_metadata-0")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert str(path) in kafka.refused()


def test_records_above_the_high_watermark_are_left_out(kafka: Broker) -> None:
    """They may be lost in the cluster: the partition has another replica."""
    with stopped_broker([kafka.data]) as broker:
        plan = importing.plan_of(broker, [FLIGHTS], all_topics=False)
        (flights,) = [topic for topic in plan.topics if topic.name == FLIGHTS]
        flights.state.partitions[1].replicas = (1, 2)
        watermarks = plan.directory_of(flights, 1).high_watermarks
        watermarks[FLIGHTS, 1] = 100  # type: ignore[index]  # as its file could say
        ready = importing.check_logs(plan, Progress())
    log = ready.logs[FLIGHTS, 1]
    assert log.end_offset <= 100 < ready.logs[FLIGHTS, 0].end_offset
    assert any("above the high watermark 100" in note for note in plan.notes)


def test_an_interrupted_import_begins_anew(kafka: Broker) -> None:
    """No server starts on what it left, and the next import removes it."""
    context = multiprocessing.get_context("spawn")
    victim = context.Process(target=import_and_die, args=(kafka.data, kafka.target))
    victim.start()
    victim.join(60)
    assert victim.exitcode == -signal.SIGKILL
    assert (kafka.target / "import-unfinished").exists()
    with pytest.raises(headgate.BrokerFailed, match="has an import that did not finish"):
        headgate.run(SETTINGS, data_dir=kafka.target).__enter__()
    (kafka.target / "stale-0").mkdir()
    kafka.imported(*ALL)
    assert not (kafka.target / "stale-0").exists()
    assert [str(one) for one in verify(kafka.target).findings.listed] == []


def import_and_die(data: Path, target: Path) -> None:
    """Import, and be killed when half of the logs are open."""
    opened = 0

    def die(count: int) -> None:
        nonlocal opened
        opened += count
        if opened == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with stopped_broker([data]) as broker:
        plan = importing.plan_of(broker, [FLIGHTS], all_topics=False)
        ready = importing.check_logs(plan, Progress())
        importing.carry_out(ready, target, Progress(opened=die))


# --- missing parts of the metadata, small files that say nothing usable ---


def metadata_of(kafka: Broker) -> tuple[Path, Path]:
    """The newest snapshot of the metadata log, which may be written, and its first segment."""
    snapshot = max((kafka.data / "__cluster_metadata-0").glob("*.checkpoint"))
    snapshot.chmod(0o600)
    return snapshot, kafka.first_segment("__cluster_metadata-0")


def cut_out(path: Path, number: int) -> None:
    """Remove one batch of a file."""
    positions = [at for at, *_ in walk_batches(OsFileSystem().open(path), 0, path.stat().st_size)]
    positions.append(path.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(data[: positions[number]] + data[positions[number + 1] :])


def test_an_empty_metadata_directory_is_refused(kafka: Broker) -> None:
    """Otherwise nothing would be taken over, with the message that it was."""
    for path in (kafka.data / "__cluster_metadata-0").iterdir():
        path.unlink()
    assert "has no segment: a part of the metadata log is missing" in kafka.refused()


def test_a_metadata_log_without_its_segment_is_refused(kafka: Broker) -> None:
    """The snapshot alone may be an old state."""
    metadata_of(kafka)[1].unlink()
    assert "has no segment" in kafka.refused()


@pytest.mark.parametrize("number", [1, 40, 298])
def test_a_gap_in_the_metadata_log_is_refused(kafka: Broker, number: int) -> None:
    """Also where the missing records are of no topic, and before the last batch."""
    _, segment = metadata_of(kafka)
    cut_out(segment, number)
    message = kafka.refused()
    assert f"{segment}, at or after byte" in message and "is expected" in message


def test_a_metadata_log_that_ends_before_its_snapshot_is_refused(kafka: Broker) -> None:
    _, segment = metadata_of(kafka)
    segment.write_bytes(b"")
    assert f"{segment} ends at offset 0, before the snapshot at 346" in kafka.refused()


def test_a_snapshot_without_its_end_is_refused(kafka: Broker) -> None:
    """Cut at the end of a batch, every checksum is right."""
    snapshot, _ = metadata_of(kafka)
    cut_out(snapshot, 2)
    assert f"{snapshot} is cut off" in kafka.refused()
    snapshot.write_bytes(b"")
    assert f"{snapshot} is cut off" in kafka.refused()


def test_a_file_that_is_no_segment_is_refused_in_the_metadata_log(kafka: Broker) -> None:
    metadata_of(kafka)[1].with_name("copy.log").touch()
    assert "copy.log is not the name of a segment" in kafka.refused()


def test_a_checkpoint_that_kafka_created_and_did_not_write_yet_has_no_offsets(kafka: Broker) -> None:
    """It writes that of the starts each minute: one that was killed before may never start again."""
    (kafka.data / "log-start-offset-checkpoint").write_bytes(b"")
    told = json.loads(kafka.imported("--dry-run", "--output", "json", *ALL))
    assert {one["name"]: one["offsets"] for one in told["topics"]}[FLIGHTS] == 1000


@pytest.mark.parametrize("offset", ["-5", "9223372036854775808"])
@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "log-start-offset-checkpoint"])
def test_an_offset_that_no_log_can_have_is_refused(kafka: Broker, name: str, offset: str) -> None:
    path = kafka.data / name
    *lines, last = path.read_text().splitlines()
    path.write_text("\n".join([*lines, f"{last.rpartition(' ')[0]} {offset}", ""]))
    assert f"{path} is damaged" in kafka.refused()


def test_missing_high_watermarks_of_replicated_partitions_are_refused(kafka: Broker) -> None:
    """Without them no record would count, and all groups would be left out."""
    (kafka.data / "replication-offset-checkpoint").unlink()
    with stopped_broker([kafka.data]) as broker:
        plan = importing.plan_of(broker, [FLIGHTS], all_topics=False)
        importing.check_logs(plan, Progress())  # of the only replica all records count
        (flights,) = [topic for topic in plan.topics if topic.name == FLIGHTS]
        flights.state.partitions[1].replicas = (1, 2)
        with pytest.raises(ImportRefused, match="replication-offset-checkpoint is missing or empty"):
            importing.check_logs(plan, Progress())


def test_a_dry_run_refuses_a_target_within_the_kafka_directory(kafka: Broker) -> None:
    """As the import would."""
    inside = replace(kafka, target=kafka.data / "headgate")
    assert "where Kafka would not start any more" in inside.refused("--dry-run")


def test_a_broker_that_was_started_and_stopped_again_is_noticed(kafka: Broker) -> None:
    """Its clean stop writes the mark anew."""
    with stopped_broker([kafka.data]) as broker:
        mark = kafka.data / ".kafka_cleanshutdown"
        content = mark.read_bytes()
        mark.unlink()
        mark.write_bytes(content)
        with pytest.raises(ImportRefused, match="was started on"):
            broker.check_still_stopped()
