"""The protocol of a stream with its group, against a real server and without Spark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.spark.stream_engine import Checkpoint, Engine, Row
from tests.spark.test_committed import Writer

import headgate
from headgate.admin import Admin, ToOffset, TopicPartition
from headgate.client.cluster import Cluster
from headgate.client.errors import PartlyRefused, RequestRefused
from headgate.client.membership import MemberSettings, Membership, remove_member
from headgate.domain.ids import GroupId, TopicName
from headgate.spark.formats import HeadgateDataSource
from headgate.spark.options import OptionError
from headgate.spark.plan import MissingData
from headgate.spark.schemas import STREAM_RECORDS
from headgate.spark.stream.member import GroupInUse
from headgate.spark.stream.options import parse_stream
from headgate.spark.stream.positions import ForeignOffsets
from headgate.spark.stream.reader import GroupStreamReader
from headgate.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

pytestmark = pytest.mark.timeout(60)

SETTINGS = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}
Start = Callable[..., Engine]


@pytest.fixture(scope="module")
def broker() -> Iterator[headgate.Broker]:
    """A server with short intervals of heartbeats."""
    with headgate.run(SETTINGS) as running:
        yield running


@pytest.fixture
def admin(broker: headgate.Broker) -> Iterator[Admin]:
    """An administrator's client."""
    with Admin(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(broker: headgate.Broker, request: pytest.FixtureRequest) -> str:
    """The name of a topic of two partitions with ten records each; its group has the same name."""
    name = re.sub("[^a-z_]", "", request.node.name.lower())
    create(broker, name)
    produce(broker, name, 0, 10)
    produce(broker, name, 1, 10)
    return str(name)


@pytest.fixture
def start(broker: headgate.Broker, topic: str) -> Iterator[Start]:
    """Start runs of the stream of the test's topic. They are stopped after the test."""
    with ExitStack() as runs:

        def begin(checkpoint: Checkpoint, **changes: str) -> Engine:
            options = {
                "kafka.bootstrap.servers": broker.bootstrap_servers,
                "group.id": topic,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "includeEpoch": "true",
                "timeout": "10s",
            }
            given = {name: value for name, value in {**options, **changes}.items() if value}
            engine = Engine(given, checkpoint)
            runs.callback(engine.stop)
            return engine

        yield begin


def create(broker: headgate.Broker, topic: str, partitions: int = 2) -> None:
    """Create a topic."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)


def produce(broker: headgate.Broker, topic: str, partition: int, count: int) -> None:
    """Produce records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(10) == 0


def committed(admin: Admin, group: str) -> list[int]:
    """Return the offsets of the group's partitions, in order."""
    return [each.offset for each in admin.committed_offsets(group).values()]


def places(rows: list[Row], partition: int) -> list[int]:
    """Return the offsets of a partition's rows."""
    return [offset for where, offset, _ in rows if where == partition]


def until(engine: Engine, holds: Callable[[list[Row]], bool]) -> list[Row]:
    """Trigger until the rows of a trigger fulfil a condition."""
    deadline = time.monotonic() + 10
    while not holds(rows := engine.trigger()):
        assert time.monotonic() < deadline, rows
        time.sleep(0.02)
    return rows


def test_a_batch_is_committed_by_the_trigger_after_it(start: Start, admin: Admin, topic: str) -> None:
    """Not earlier, and also if that trigger finds nothing new."""
    engine = start(Checkpoint())
    assert len(engine.trigger()) == 20
    assert committed(admin, topic) == [0, 0]
    assert engine.trigger() == []
    assert committed(admin, topic) == [10, 10]


def test_the_stream_is_the_only_member_and_leaves_an_empty_group(
    start: Start, admin: Admin, topic: str
) -> None:
    """While it runs it has all partitions."""
    engine = start(Checkpoint())
    engine.trigger()
    group = admin.describe_group(topic)
    assert group is not None
    (member,) = group.members
    assert member.assignment == (TopicPartition(TopicName(topic), 0), TopicPartition(TopicName(topic), 1))
    assert str(member.instance_id).startswith("headgate-spark-stream-")
    engine.stop()
    group = admin.describe_group(topic)
    assert group is not None
    assert not group.members


def test_a_restart_repeats_the_unfinished_batch_exactly(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str
) -> None:
    """With the same epoch, and nothing that was produced since; killed before and after the commit."""
    checkpoint = Checkpoint()
    first = start(checkpoint)
    first.trigger()
    produce(broker, topic, 0, 5)
    assert first.plan()
    planned = first.read()
    first.stop()
    produce(broker, topic, 0, 5)
    second = start(checkpoint)
    assert second.trigger() == planned
    assert committed(admin, topic) == [10, 10]
    assert places(second.trigger(), 0) == list(range(15, 20))
    assert committed(admin, topic) == [15, 10]
    assert len(set(checkpoint.rows)) == len(checkpoint.rows) == 30
    assert len({epoch for _, _, epoch in checkpoint.rows}) == 1


def test_the_first_batch_starts_again_where_it_started(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """`latest` is resolved once: what is produced before the repeated start is not lost."""
    first = start(Checkpoint(), startingOffsets="latest")
    assert first.trigger() == []
    produce(broker, topic, 1, 3)
    first.stop()
    second = start(Checkpoint(), startingOffsets="latest")
    assert places(second.trigger(), 1) == [10, 11, 12]


def test_a_lost_checkpoint_continues_at_the_groups_offsets(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """In the same epoch, so that a sink recognises rows of a batch that was not committed."""
    first = start(Checkpoint())
    ((_, _, epoch), *_) = first.trigger()
    first.trigger()
    produce(broker, topic, 0, 4)
    planned = first.trigger()
    first.stop()
    again = start(Checkpoint()).trigger()
    assert again == planned
    assert {row[2] for row in again} == {epoch}


def test_a_stream_that_did_not_leave_is_replaced_by_the_next_of_its_checkpoint(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """At once, as after a kill; the old one, if it still lives, is fenced and does not commit any more."""
    checkpoint = Checkpoint()
    old = start(checkpoint)
    old.trigger()
    assert old.trigger() == []
    new = start(checkpoint)
    produce(broker, topic, 0, 1)
    assert places(new.trigger(), 0) == [10]
    with pytest.raises((RequestRefused, PartlyRefused)):
        until(old, lambda _: False)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_stream_that_is_killed_in_a_commit(
    start: Start, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """Whether the request arrives or not, the next start repeats nothing and commits what is finished."""
    checkpoint = Checkpoint()
    first = start(checkpoint, maxOffsetsPerTrigger="4")
    first.trigger()
    commit = Membership.commit

    def dies(self: Membership, *arguments: Any) -> None:
        if arrives:
            commit(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Membership, "commit", dies)
        first.trigger()
    assert committed(admin, topic) == ([2, 2] if arrives else [0, 0])
    second = start(checkpoint, maxOffsetsPerTrigger="4")
    assert places(second.trigger(), 0) == [2, 3]
    assert committed(admin, topic) == [2, 2]


def test_a_late_commit_never_overwrites_a_reset(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that was cut off is refused by the coordinator until it has seen the reset."""
    engine = start(Checkpoint())
    engine.trigger()
    where = TopicPartition(TopicName(topic), 0)
    commit = Membership.commit
    made: list[Any] = []

    def late(self: Membership, offsets: Any, *more: Any) -> None:
        if not made:
            made.append(offsets)
            old = self.view()
            remove_member(admin.cluster, GroupId(topic), self.member_id, self.settings.instance_id)
            admin.alter_offsets(topic, {where: 3})
            deadline = time.monotonic() + 10
            while self.view().lost == old.lost or not self.view().assigned:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        commit(self, offsets, *more)

    monkeypatch.setattr(Membership, "commit", late)
    assert places(engine.trigger(), 0) == [3, 4, 5, 6, 7, 8, 9]
    assert made
    assert committed(admin, topic)[0] == 3


def test_another_member_that_stays_is_a_reason_not_to_start(
    start: Start, broker: headgate.Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A consumer, or the stream of another checkpoint; the error names it and says what to do."""
    settings = MemberSettings(group_id=GroupId(topic), topics=(TopicName(topic),))
    with (
        Membership(broker.bootstrap_servers, settings, client_id="billing") as member,
        pytest.raises(GroupInUse, match=f"{member.member_id} of client billing .* Stop that member, or"),
    ):
        start(Checkpoint(), timeout="2s").trigger()
    assert "of client billing" in capsys.readouterr().err
    start(Checkpoint()).trigger()
    with pytest.raises(GroupInUse, match="headgate-spark-stream"):
        start(Checkpoint(), timeout="1s").trigger()


def test_a_stream_waits_for_the_reader_of_a_query_that_was_stopped(
    start: Start, admin: Admin, topic: str
) -> None:
    """Spark does not wait for it. What it commits until then is not delivered again by a new checkpoint."""
    before, after = start(Checkpoint()), start(Checkpoint())
    assert len(before.trigger()) == 20
    after.reader.initialOffset()
    assert committed(admin, topic) == [0, 0]
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(after.trigger)
        time.sleep(0.3)
        assert not before.plan()
        before.stop()
        assert waiting.result() == []
    assert committed(admin, topic) == [10, 10]


def test_a_new_stream_does_not_commit_over_a_member_that_it_waits_for(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """Partitions start at `startingOffsets` if nothing is committed when the other member has left."""
    settings = MemberSettings(group_id=GroupId(topic), topics=(TopicName(topic),))
    with ThreadPoolExecutor() as threads:
        with Membership(broker.bootstrap_servers, settings) as member:
            member.wait_for_assignment(10)
            waiting = threads.submit(start(Checkpoint()).trigger)
            time.sleep(0.3)
            member.commit({TopicPartition(TopicName(topic), 0): 7})
        assert places(waiting.result(), 0) == [7, 8, 9]
    assert committed(admin, topic) == [7, 0]


def test_available_now_leaves_the_group_before_the_query_ends(start: Start, admin: Admin, topic: str) -> None:
    """So the next stream, or a reset, finds it empty. A further look joins again."""
    engine = start(Checkpoint())
    engine.available_now()
    group = admin.describe_group(topic)
    assert group is not None
    assert group.members == ()
    assert committed(admin, topic) == [10, 10]
    assert not engine.plan()


def test_pause_rewind_and_resume_while_the_stream_runs(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str
) -> None:
    """The paused partition stops, the other goes on; after the resume it is read from the new offset once."""
    engine = start(Checkpoint())
    engine.trigger()
    first = TopicPartition(TopicName(topic), 0)
    admin.pause_partitions(topic, [first], reason="test")
    until(engine, lambda _: admin.list_paused_partitions(topic)[first].is_released)
    assert committed(admin, topic) == [10, 10]
    produce(broker, topic, 0, 2)
    produce(broker, topic, 1, 2)
    rows = engine.trigger()
    assert (places(rows, 0), places(rows, 1)) == ([], [10, 11])
    admin.alter_offsets(topic, {first: 7})
    engine.trigger()
    assert committed(admin, topic) == [7, 12]
    admin.resume_partitions(topic, [first])
    rows = until(engine, bool)
    assert places(rows, 0) == [7, 8, 9, 10, 11]
    assert engine.trigger() == []
    assert committed(admin, topic) == [12, 12]
    assert all(new > 0 for new in {row[2] for row in rows} - {row[2] for row in engine.checkpoint.rows[:20]})
    assert len(set(engine.checkpoint.rows)) == len(engine.checkpoint.rows)


def test_a_pause_without_a_rewind_delivers_nothing_twice(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str
) -> None:
    """Also if the batch in flight was not committed before the pause."""
    engine = start(Checkpoint())
    engine.trigger()
    first = TopicPartition(TopicName(topic), 0)
    admin.pause_partitions(topic, [first], reason="test")
    until(engine, lambda _: admin.list_paused_partitions(topic)[first].is_released)
    produce(broker, topic, 0, 2)
    admin.resume_partitions(topic, [first])
    assert places(until(engine, bool), 0) == [10, 11]
    assert len(engine.checkpoint.rows) == 22


def test_a_partition_is_not_released_before_its_batch_is_finished(
    start: Start, admin: Admin, topic: str
) -> None:
    """Its offset is then committed, so that an administrator sees it; an idle stream releases at once."""
    engine = start(Checkpoint())
    assert engine.plan()
    first, second = (TopicPartition(TopicName(topic), each) for each in (0, 1))
    admin.pause_partitions(topic, [first], reason="test")
    time.sleep(0.4)
    assert not admin.list_paused_partitions(topic)[first].is_released
    engine.run()
    until(engine, lambda _: admin.list_paused_partitions(topic)[first].is_released)
    assert committed(admin, topic) == [10, 10]
    admin.pause_partitions(topic, [second], reason="test")
    admin.wait_until_paused(topic, [second])


def test_a_rewind_with_one_command(start: Start, admin: Admin, topic: str) -> None:
    """`Admin.rewind` pauses, sets and resumes within the heartbeats of an idle stream."""
    engine = start(Checkpoint())
    engine.trigger()
    engine.trigger()
    admin.rewind(topic, {TopicPartition(TopicName(topic), 1): ToOffset(4)}, reason="test")
    assert places(until(engine, bool), 1) == list(range(4, 10))


def test_a_reset_of_a_stopped_stream_counts_for_its_checkpoint(
    start: Start, admin: Admin, topic: str
) -> None:
    """Backwards and forwards, once; the unfinished batch is finished first, as Spark demands."""
    checkpoint = Checkpoint()
    first = start(checkpoint)
    first.trigger()
    first.trigger()
    first.stop()
    admin.alter_offsets(topic, {TopicPartition(TopicName(topic), 0): 6})
    second = start(checkpoint)
    assert places(second.trigger(), 0) == [6, 7, 8, 9]
    second.stop()  # the offset 10 is not committed again yet
    third = start(checkpoint)
    assert third.trigger() == []
    assert committed(admin, topic) == [10, 10]


def test_an_older_checkpoint_does_not_commit_backwards(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str
) -> None:
    """It reads its records again."""
    checkpoint = Checkpoint()
    first = start(checkpoint)
    first.trigger()
    old = Checkpoint(list(checkpoint.ends), 1)
    produce(broker, topic, 0, 5)
    first.trigger()
    first.trigger()
    first.stop()
    assert committed(admin, topic) == [15, 10]
    second = start(old, maxOffsetsPerTrigger="2")
    assert places(second.trigger(), 0) == [10, 11]
    assert places(second.trigger(), 0) == [12, 13]
    assert committed(admin, topic) == [15, 10]


def test_added_partitions_are_read_from_their_start(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """As soon as the coordinator assigns them."""
    engine = start(Checkpoint(), startingOffsets="latest")
    engine.trigger()
    admin.cluster.any_node().request(more_partitions(topic, 3))
    produce(broker, topic, 2, 4)
    assert places(until(engine, bool), 2) == [0, 1, 2, 3]
    engine.trigger()
    assert committed(admin, topic) == [10, 10, 4]


def test_a_topic_that_is_deleted_and_created_again(start: Start, broker: headgate.Broker, topic: str) -> None:
    """An error; with failOnDataLoss=false the new topic is read from its start, in a higher epoch."""
    strict_checkpoint, checkpoint = Checkpoint(), Checkpoint()
    strict = start(strict_checkpoint, **{"group.id": f"{topic}-strict"})
    lenient = start(checkpoint, failOnDataLoss="false")
    before = lenient.trigger()
    strict.trigger()
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.delete_topics([topic])[topic].result(10)
    with pytest.raises(MissingData, match="deleted"):
        until(strict, lambda _: False)
    lenient.trigger()
    create(broker, topic)
    produce(broker, topic, 1, 3)
    rows = until(lenient, bool)
    assert places(rows, 1) == [0, 1, 2]
    assert min(row[2] for row in rows) > max(row[2] for row in before)
    strict.stop()
    with pytest.raises(MissingData, match="created again"):
        start(strict_checkpoint, **{"group.id": f"{topic}-strict"}).trigger()


def test_a_batch_reads_no_record_of_a_later_topic_of_the_same_name(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """If the topic is deleted and created again after the batch was planned."""
    strict = start(Checkpoint(), **{"group.id": f"{topic}-strict"})
    lenient = start(Checkpoint(), failOnDataLoss="false")
    assert strict.plan()
    assert lenient.plan()
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.delete_topics([topic])[topic].result(10)
    create(broker, topic)
    produce(broker, topic, 0, 30)
    with pytest.raises(MissingData, match="was deleted"):
        strict.run()
    assert lenient.run() == []
    assert places(until(lenient, bool), 0) == list(range(30))


def test_a_pattern_subscribes_to_topics_that_come_later(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """The coordinator evaluates it; every tool shows the offsets of all its topics."""
    engine = start(Checkpoint(), subscribe="", subscribePattern=f"{topic}(-later)?")
    assert len(engine.trigger()) == 20
    later = f"{topic}-later"
    create(broker, later, 1)
    produce(broker, later, 0, 3)
    assert places(until(engine, bool), 0) == [0, 1, 2]
    engine.trigger()
    assert committed(admin, topic) == [10, 10, 3]


def test_expired_records_are_lost_data(start: Start, broker: headgate.Broker, topic: str) -> None:
    """An error, or with failOnDataLoss=false the records that remain."""
    from confluent_kafka import TopicPartition as Place

    strict = start(Checkpoint(), **{"group.id": f"{topic}-strict"})
    lenient = start(Checkpoint(), failOnDataLoss="false")
    assert strict.plan()
    assert lenient.plan()
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    place = Place(topic, 0, 6)
    client.delete_records([place])[place].result(10)
    with pytest.raises(MissingData, match="begins at offset 6"):
        strict.run()
    assert places(lenient.run(), 0) == [6, 7, 8, 9]


def test_a_batch_is_limited_and_divided(start: Start, topic: str) -> None:
    """In proportion to what the partitions have; and among at least minPartitions tasks."""
    engine = start(Checkpoint(), maxOffsetsPerTrigger="6", minPartitions="3")
    assert engine.plan()
    rows = engine.run()
    assert (places(rows, 0), places(rows, 1)) == ([0, 1, 2], [0, 1, 2])
    assert len(engine.reader.partitions({}, json.loads(engine.checkpoint.ends[-1]))) == 3


def test_available_now_reads_what_was_there_and_commits_all_of_it(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str
) -> None:
    """In several batches; what comes later is for the next run."""
    engine = start(Checkpoint(), maxOffsetsPerTrigger="8")
    engine.reader.prepareForTriggerAvailableNow()
    produce(broker, topic, 0, 5)
    while engine.plan():
        engine.run()
    assert len(engine.checkpoint.rows) == 20
    assert committed(admin, topic) == [10, 10]


def test_a_stream_of_committed_records_waits_at_an_open_transaction(
    broker: headgate.Broker, topic: str, start: Start
) -> None:
    """It leaves out aborted ones; a group whose offset is behind the open one waits there, too."""
    with Cluster(broker.bootstrap_servers) as cluster:
        first, second = (Writer(cluster, f"{topic}-{name}", topic) for name in "ab")
        first.write(0, "aborted")
        first.end(False)
        second.write(0, "open")
        first.write(0, "committed")
        first.end(True)
        everything = Checkpoint()
        start(everything, **{"group.id": f"{topic}-all"}).available_now()
        assert places(everything.rows, 0) == [*range(11), 12, 13]
        checkpoint = Checkpoint()
        engine = start(checkpoint, isolationLevel="read_committed")
        assert places(engine.trigger(), 0) == [*range(10)]
        engine.stop()
        ahead = start(everything, **{"group.id": f"{topic}-all", "isolationLevel": "read_committed"})
        assert ahead.trigger() == []
        second.end(True)
        assert ahead.trigger() == []
        ahead.stop()
        last = start(checkpoint, isolationLevel="read_committed")
        assert places(until(last, lambda rows: len(rows) > 0), 0) == [12, 13]


def test_a_broker_that_restarts_stops_nothing(tmp_path: object) -> None:
    """Commits and reads wait for it."""
    with headgate.run(SETTINGS) as broker:
        create(broker, "t")
        produce(broker, "t", 0, 10)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "subscribe": "t"}
        engine = Engine(
            options | {"startingOffsets": "earliest", "includeEpoch": "true", "timeout": "20s"}, Checkpoint()
        )
        assert engine.plan()
        broker.kill()
        broker.start()
        assert len(engine.run()) == 10
        broker.kill()
        broker.start()
        assert engine.trigger() == []
        with Admin(broker.bootstrap_servers) as admin:
            assert committed(admin, "g") == [10, 0]
        engine.stop()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group.id": ""}, "group.id is missing"),
        ({"endingOffsets": '{"t": {"0": 1}}'}, "no end"),
        ({"subscribe": "", "assign": '{"t": [0]}'}, "not assign"),
        ({"startingOffsets": "earlist"}, "neither earliest nor latest nor JSON like"),
        ({"startingOffsets": '{"u": {"0": 1}}'}, "topics that are not read"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number"),
        ({"maxOffsetPerTrigger": "1"}, "did you mean"),
        ({"kafka.group.id": "other"}, "given twice"),
    ],
)
def test_what_a_stream_cannot_mean_is_refused(changes: dict[str, str], message: str) -> None:
    """Before anything is read."""
    given = {"kafka.bootstrap.servers": "a:1", "group.id": "g", "subscribe": "t", **changes}
    with pytest.raises(OptionError, match=message):
        Engine({name: value for name, value in given.items() if value or name == "group.id"}, Checkpoint())


@pytest.mark.parametrize("offsets", [{"t": {"0": 20}}, {"stream": "s", "topics": {"t": {"id": "7"}}}])
def test_a_checkpoint_of_another_source_is_refused(offsets: dict[str, Any]) -> None:
    """Such as one of Spark's Kafka source; what was decoded before is not told."""
    reader = GroupStreamReader(
        parse_stream({"kafka.bootstrap.servers": "a:1", "group.id": "g", "subscribe": "t"}), STREAM_RECORDS
    )
    told = "offsets of another source.* give it startingOffsets: the last line of offsets/N in the old"
    with pytest.raises(ForeignOffsets, match=told) as refused:
        reader.partitions(offsets, offsets)
    assert refused.value.__suppress_context__
    assert refused.value.__cause__ is None


def test_a_new_checkpoint_goes_on_where_sparks_own_source_ended(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """Its offsets have the form of startingOffsets. Partitions that they do not name begin at their start."""
    admin.create_partitions({topic: 5})
    for partition in (2, 3, 4):
        produce(broker, topic, partition, 2)
    ended = {"0": 7, "1": 10, "2": -1, "3": -2}
    rows = start(Checkpoint(), startingOffsets=json.dumps({topic: ended})).trigger()
    assert [places(rows, partition) for partition in range(5)] == [[7, 8, 9], [], [], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxOffsetsPerTrigger", "10"), ("includeepoch", "true"), ("startingOffsets", "Latest")],
)
def test_an_option_of_a_stream_without_its_group_names_the_group(name: str, value: str) -> None:
    """And not the option of a read with the most similar name."""
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", name: value}
    with pytest.raises(OptionError, match=rf"(?i)option {name}.* spark.readStream.* group.id"):
        HeadgateDataSource(given).schema()


def more_partitions(topic: str, count: int) -> CreatePartitionsRequest:
    """Return the request that raises a topic's number of partitions."""
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[wanted], timeout_ms=5000, validate_only=False)
