"""Streams that meet a fence, another stream, an administrator or expired records, without Spark."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from tests.spark.stream_engine import Checkpoint, Engine
from tests.spark.test_stream_reader import (
    Start,
    admin,
    broker,
    committed,
    create,
    more_partitions,
    places,
    produce,
    start,
    topic,
    until,
)

import headgate
from headgate.admin import Admin, TopicPartition
from headgate.client.membership import MemberSettings, Membership, remove_member
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.spark.options import OptionError
from headgate.spark.plan import MissingData
from headgate.spark.stream.member import GroupInUse

__all__ = ["admin", "broker", "start", "topic"]

pytestmark = pytest.mark.timeout(60)


def member_of(engine: Engine) -> Membership:
    """Return the membership of a running stream."""
    group = engine.reader._group
    assert group is not None
    assert group._member is not None
    return group._member


def fence(engine: Engine, admin: Admin, group: str) -> None:
    """Remove the stream's member, as `--remove-members` does, and wait until it knows."""
    member = member_of(engine)
    member_id, instance_id = MemberId(member.member_id), member.settings.instance_id
    before = member.view().lost
    remove_member(admin.cluster, GroupId(group), member_id, instance_id)
    while member.view().lost == before:
        time.sleep(0.001)


def wait_until_revoked(engine: Engine) -> None:
    """Wait until a heartbeat has told the stream that it loses a partition."""
    while not member_of(engine).view().revoked:
        time.sleep(0.01)


def expire(broker: headgate.Broker, topic: str, partition: int, before: int) -> None:
    """Delete the first records of a partition."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    place = Place(topic, partition, before)
    client.delete_records([place])[place].result(10)


def test_available_now_reads_everything_although_its_member_is_fenced(
    start: Start, admin: Admin, topic: str
) -> None:
    """In the middle, and after its last batch, which is committed before the query ends."""
    engine = start(Checkpoint(), maxOffsetsPerTrigger="15")
    engine.reader.prepareForTriggerAvailableNow()
    for count in (15, 5):
        assert engine.plan()
        assert len(engine.run()) == count
        fence(engine, admin, topic)
    assert not engine.plan()
    assert len(engine.checkpoint.rows) == 20
    assert committed(admin, topic) == [10, 10]


def test_available_now_does_not_wait_for_paused_partitions(start: Start, admin: Admin, topic: str) -> None:
    """They are read by a later run."""
    first = TopicPartition(TopicName(topic), 0)
    engine = start(Checkpoint(), maxOffsetsPerTrigger="8")
    engine.reader.prepareForTriggerAvailableNow()
    engine.trigger()
    admin.pause_partitions(topic, [first], reason="test")
    wait_until_revoked(engine)
    while engine.plan():
        engine.run()
    assert (len(places(engine.checkpoint.rows, 0)), len(places(engine.checkpoint.rows, 1))) == (4, 10)
    admin.resume_partitions(topic, [first])
    again = start(engine.checkpoint)
    again.available_now()
    assert places(again.checkpoint.rows, 0) == list(range(10))


def test_available_now_fails_if_another_member_keeps_its_partitions(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """Instead of an end that looks like success; the error names the member."""
    engine = start(Checkpoint(), maxOffsetsPerTrigger="2", timeout="2s")
    engine.reader.prepareForTriggerAvailableNow()
    engine.trigger()
    settings = MemberSettings(group_id=GroupId(topic), topics=(TopicName(topic),))
    with Membership(broker.bootstrap_servers, settings, client_id="billing"):
        wait_until_revoked(engine)
        with pytest.raises(GroupInUse, match="of client billing"):
            until(engine, lambda _: False)


def test_two_streams_that_start_at_once_name_each_other(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """None of them reads a part of the partitions."""
    runs = [start(Checkpoint(), timeout="2s") for _ in range(2)]
    for run in runs:
        run.reader.initialOffset()
    with ThreadPoolExecutor() as threads:
        tried = [threads.submit(run.trigger) for run in runs]
        problems = [each.exception() for each in tried]
    assert any(isinstance(problem, GroupInUse) for problem in problems)
    assert all(problem is None or "headgate-spark-stream" in str(problem) for problem in problems)


def test_an_undo_of_a_stopped_streams_last_commit_is_seen(start: Start, admin: Admin, topic: str) -> None:
    """Although the offset and its metadata are those before the commit, as after a crash before it."""
    checkpoint = Checkpoint()
    first = start(checkpoint, maxOffsetsPerTrigger="12")
    first.available_now()
    admin.undo(topic)
    assert committed(admin, topic) == [6, 6]
    second = start(checkpoint)
    rows = second.trigger()
    assert (places(rows, 0), places(rows, 1)) == ([6, 7, 8, 9], [6, 7, 8, 9])
    assert len(set(checkpoint.rows)) == len(checkpoint.rows) == 28
    second.stop()
    third = start(checkpoint)
    assert third.trigger() == []
    assert committed(admin, topic) == [10, 10]


def test_a_topic_that_does_not_exist_is_told_with_those_that_do(start: Start, topic: str) -> None:
    """As by a batch read: most often the name is mistyped."""
    told = rf"no topic '{topic}x' at .* \(topics there: .*{topic}.*; a topic must exist before the stream "
    for first in (Engine.trigger, Engine.available_now):
        with pytest.raises(MissingData, match=told):
            first(start(Checkpoint(), subscribe=f"{topic}x"))


def test_a_topic_that_was_deleted_before_a_later_start_can_be_left_out(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """Its offsets are lost data, other than a name that was mistyped at the first start."""
    other = f"{topic}_other"
    create(broker, other)
    first = start(Checkpoint(), subscribe=f"{topic},{other}")
    first.available_now()
    first.stop()
    admin.delete_topics([other])
    with pytest.raises(MissingData, match=f"no topic '{other}'.*; set failOnDataLoss to false to read what"):
        start(first.checkpoint, subscribe=f"{topic},{other}").available_now()


def test_starting_offsets_outside_of_the_log_are_not_committed(
    start: Start, admin: Admin, topic: str
) -> None:
    """They would be there for ever: a corrected option counts only where nothing is committed."""
    given = f'{{"{topic}": {{"0": 1000}}}}'
    strict = start(Checkpoint(), startingOffsets=given)
    with pytest.raises(MissingData, match=f"has 1000 for {topic}-0, which has offsets 0 to 10"):
        strict.trigger()
    strict.stop()
    assert committed(admin, topic) == []
    with pytest.raises(OptionError, match=f"do not exist: {topic}-7"):
        start(Checkpoint(), startingOffsets=given.replace('"0"', '"7"')).trigger()
    lenient = start(Checkpoint(), startingOffsets=given, failOnDataLoss="false")
    assert (places(lenient.trigger(), 0), committed(admin, topic)) == ([], [10, 0])


def test_records_that_expired_before_a_batch_fail_before_it_is_fixed(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """So a reset of the group's offset helps, too: Spark repeats a batch that it has fixed."""
    checkpoint = Checkpoint()
    first = start(checkpoint, maxOffsetsPerTrigger="4")
    first.trigger()
    expire(broker, topic, 0, 6)
    with pytest.raises(MissingData, match="begins at offset 6, and 2 is not there"):
        first.trigger()
    first.stop()
    admin.alter_offsets(topic, {TopicPartition(TopicName(topic), 0): 6})
    assert places(start(checkpoint).trigger(), 0) == [6, 7, 8, 9]


def test_expired_records_do_not_count_for_the_limit_of_a_batch(
    start: Start, broker: headgate.Broker, topic: str
) -> None:
    """Else a stream would run through a long gap in many empty batches."""
    lenient = start(Checkpoint(), maxOffsetsPerTrigger="1", failOnDataLoss="false")
    lenient.reader.initialOffset()
    expire(broker, topic, 0, 10)
    expire(broker, topic, 1, 9)
    lenient.trigger()
    lenient.trigger()
    assert places(lenient.checkpoint.rows, 1) == [9]


def test_a_partition_that_is_paused_when_its_batch_was_not_committed_is_no_rewind(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """After the resume its rows are not delivered again, although there was a batch without it meanwhile."""
    checkpoint, where = Checkpoint(), TopicPartition(TopicName(topic), 1)
    first = start(checkpoint)
    first.trigger()
    first.stop()
    assert committed(admin, topic) == [0, 0]
    admin.pause_partitions(topic, [where])
    second = start(checkpoint)
    produce(broker, topic, 0, 1)
    assert places(second.trigger(), 0) == [10]
    admin.resume_partitions(topic, [where])
    produce(broker, topic, 1, 2)
    assert places(until(second, bool), 1) == [10, 11]
    second.trigger()
    assert committed(admin, topic) == [11, 12]


def test_a_batch_after_expired_records_is_delivered_once(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """A stream that is killed before it commits the batch does not take the group's offset for a rewind."""
    checkpoint = Checkpoint()
    first = start(checkpoint, maxOffsetsPerTrigger="4", failOnDataLoss="false")
    first.trigger()
    expire(broker, topic, 0, 6)
    assert places(first.trigger(), 0) == [6, 7]
    first.stop()
    assert committed(admin, topic) == [6, 2]
    assert places(start(checkpoint).trigger(), 0) == [8, 9]


def test_an_end_that_moved_back_is_no_rewind_for_a_restart(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """A crash of the broker lost records: what is written since is read, before and after a restart."""
    checkpoint, where = Checkpoint(), TopicPartition(TopicName(topic), 0)
    first = start(checkpoint)
    first.trigger()
    first.trigger()
    first.stop()
    (end,) = checkpoint.ends
    checkpoint.ends = [end.replace('"o": 10', '"o": 15', 1)]  # as if the log had had 15 records
    admin.alter_offsets(topic, {where: admin.committed_offsets(topic)[where]._replace(offset=15)})
    second = start(checkpoint, failOnDataLoss="false")
    second.trigger()
    assert committed(admin, topic) == [10, 10]
    produce(broker, topic, 0, 3)
    assert places(second.trigger(), 0) == [10, 11, 12]
    second.stop()
    produce(broker, topic, 0, 7)
    assert places(start(checkpoint).trigger(), 0) == [13, 14, 15, 16, 17, 18, 19]


def test_a_new_topic_that_is_deleted_at_once_stops_nothing(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """The stream has it assigned until its next heartbeat."""
    later = f"{topic}-later"
    engine = start(Checkpoint(), subscribe="", subscribePattern=f"{topic}(-later)?")
    engine.trigger()
    create(broker, later, 1)
    where = TopicPartition(TopicName(later), 0)
    while where not in member_of(engine).view().assigned:
        time.sleep(0.01)
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.delete_topics([later])[later].result(10)
    produce(broker, topic, 0, 1)
    assert places(until(engine, bool), 0) == [10]


def test_a_member_that_hurries_does_not_wait_for_its_next_heartbeat(topic: str) -> None:
    """It is told what the coordinator decided since the last one, which asked for the next in a minute."""
    intervals = {f"group.consumer.{name}.interval.ms": "60000" for name in ("heartbeat", "max.heartbeat")}
    timeouts = {f"group.consumer.{name}session.timeout.ms": "90000" for name in ("", "max.")}
    with headgate.run(intervals | timeouts) as broker:
        create(broker, topic)
        settings = MemberSettings(group_id=GroupId("g"), topics=(TopicName(topic),))
        with Membership(broker.bootstrap_servers, settings) as one:
            assert len(one.wait_for_assignment(10).assigned) == 2
            with Membership(broker.bootstrap_servers, settings):
                while not one.view().revoked:
                    one.hurry()
                    time.sleep(0.05)


def test_a_checkpoint_from_before_a_rewind_leaves_out_no_record(
    start: Start, admin: Admin, topic: str
) -> None:
    """It reads from its own offset, or from that of the rewind, and commits nothing meanwhile."""
    checkpoint = Checkpoint()
    first = start(checkpoint, maxOffsetsPerTrigger="12")
    first.trigger()
    old = Checkpoint(list(checkpoint.ends), 1)
    first.trigger()
    first.trigger()
    partitions = [TopicPartition(TopicName(topic), each) for each in (0, 1)]
    admin.rewind(topic, {partitions[0]: 8, partitions[1]: 3}, reason="test")
    until(first, bool)
    until(first, lambda rows: not rows)
    first.stop()
    assert committed(admin, topic) == [10, 10]
    second = start(old, maxOffsetsPerTrigger="4")
    rows = [row for _ in range(4) for row in second.trigger()]
    assert (places(rows, 0), places(rows, 1)) == ([6, 7, 8, 9], [3, 4, 5, 6, 7, 8, 9])
    assert committed(admin, topic) == [10, 10]
    assert set(rows) > {row for row in checkpoint.rows if row[2] == max(checkpoint.rows)[2]}


def test_a_checkpoint_from_before_a_new_partition_reads_it_from_its_start(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """Although the group has an offset for it; a stream that was killed when it found it does so, too."""
    checkpoint = Checkpoint()
    first = start(checkpoint)
    first.trigger()
    old = Checkpoint(list(checkpoint.ends), 1)
    admin.cluster.any_node().request(more_partitions(topic, 3))
    produce(broker, topic, 2, 4)
    until(first, bool)
    until(first, lambda rows: not rows)
    first.stop()
    assert committed(admin, topic) == [10, 10, 4]
    assert places(start(old).trigger(), 2) == [0, 1, 2, 3]


def test_a_stream_that_is_killed_in_a_rewind_makes_it_once(start: Start, admin: Admin, topic: str) -> None:
    """After its commit of the new offset, and before Spark has fixed a batch that starts there."""
    checkpoint = Checkpoint()
    first = start(checkpoint)
    first.available_now()
    first.stop()
    admin.alter_offsets(topic, {TopicPartition(TopicName(topic), 0): 7})
    second = start(checkpoint)
    assert second.plan()
    checkpoint.ends.pop()
    second.stop()
    third = start(checkpoint)
    assert places(third.trigger(), 0) == [7, 8, 9]
    assert third.trigger() == []
    assert committed(admin, topic) == [10, 10]


def delete_group(engine: Engine, admin: Admin, group: str) -> None:
    """Remove the stream's member and delete its group, before a heartbeat of the stream joins again."""
    member = member_of(engine)
    with member._changed:
        remove_member(admin.cluster, GroupId(group), member.member_id, member.settings.instance_id)
        admin.delete_groups([group])


@pytest.mark.parametrize("notices", ["commit", "heartbeat"])
def test_a_stream_whose_group_is_deleted_makes_it_again(
    start: Start, admin: Admin, broker: headgate.Broker, topic: str, notices: str
) -> None:
    """It reads on from its own offsets, commits them, and a rewind still has a higher epoch."""
    checkpoint = Checkpoint()
    engine = start(checkpoint)
    for first in (8, 9):  # epochs beyond those with which a new group begins
        until(engine, lambda rows: not rows)
        admin.rewind(topic, {TopicPartition(TopicName(topic), 0): first}, reason="test")
        until(engine, bool)
    produce(broker, topic, 0, 2)
    lost = member_of(engine).view().lost
    delete_group(engine, admin, topic)
    while notices == "heartbeat" and member_of(engine).view().lost == lost:
        time.sleep(0.001)
    assert [row[:2] for row in until(engine, bool)] == [(0, 10), (0, 11)]
    until(engine, lambda rows: not rows)
    assert committed(admin, topic) == [12, 10]
    before = max(row[2] for row in checkpoint.rows)
    admin.rewind(topic, {TopicPartition(TopicName(topic), 0): 10}, reason="test")
    again = until(engine, bool)
    assert places(again, 0) == [10, 11]
    assert min(row[2] for row in again) > before > member_of(engine).view().epoch


def test_a_commit_of_before_its_group_was_deleted_never_overwrites_a_reset(
    start: Start, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the new group gave the stream an epoch that it had in the old one."""
    engine = start(Checkpoint())
    engine.trigger()
    where = TopicPartition(TopicName(topic), 0)
    commit = Membership.commit
    epochs: list[int] = []

    def late(self: Membership, offsets: Any, *more: Any) -> None:
        if not epochs:
            old = self.view()
            delete_group(engine, admin, topic)
            admin.alter_offsets(topic, {where: 3})
            while self.view().lost == old.lost or not self.view().assigned:
                time.sleep(0.02)
            epochs.extend((old.epoch, self.view().epoch))
        commit(self, offsets, *more)

    monkeypatch.setattr(Membership, "commit", late)
    assert places(until(engine, bool), 0) == [3, 4, 5, 6, 7, 8, 9]
    assert epochs[0] == epochs[1]
    assert committed(admin, topic)[0] == 3


def test_a_partition_that_is_paused_at_the_first_start_starts_where_the_others_do(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str
) -> None:
    """Records that come while it is paused are read, also by a later run; those from before are not."""
    paused = TopicPartition(TopicName(topic), 0)
    settings = MemberSettings(group_id=GroupId(topic), topics=(TopicName(topic),))
    with Membership(broker.bootstrap_servers, settings):
        admin.pause_partitions(topic, [paused], reason="test")
    checkpoint = Checkpoint()
    first = start(checkpoint, startingOffsets="latest")
    assert first.trigger() == []
    produce(broker, topic, 0, 2)
    produce(broker, topic, 1, 1)
    assert [row[:2] for row in until(first, bool)] == [(1, 10)]
    first.stop()
    admin.resume_partitions(topic, [paused])
    assert [row[:2] for row in until(start(checkpoint), bool)] == [(0, 10), (0, 11)]


@pytest.mark.parametrize("starts_at", ["latest", "the group's offsets"])
def test_a_checkpoint_that_has_no_rows_yet_knows_its_topic(
    start: Start, broker: headgate.Broker, topic: str, starts_at: str
) -> None:
    """If the topic is deleted and created again, no record of the new one is left out silently."""
    if starts_at != "latest":
        earlier = start(Checkpoint())
        earlier.available_now()
        earlier.stop()
    strict, lenient = (without_rows(start) for _ in range(2))
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.delete_topics([topic])[topic].result(10)
    create(broker, topic)
    produce(broker, topic, 0, 30)
    engine = start(strict)
    with pytest.raises(MissingData, match="created again"):
        engine.trigger()
    engine.stop()
    assert places(until(start(lenient, failOnDataLoss="false"), bool), 0) == list(range(30))


def without_rows(start: Start) -> Checkpoint:
    """Return a checkpoint whose only batch is empty, which Spark logs with the initial offsets."""
    checkpoint = Checkpoint()
    engine = start(checkpoint, startingOffsets="latest")
    assert engine.trigger() == []
    checkpoint.ends.append(json.dumps(engine.reader.initialOffset()))
    checkpoint.finished = 1
    engine.stop()
    return checkpoint


def test_a_deleted_topic_is_told_once(
    start: Start, broker: headgate.Broker, admin: Admin, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And not again at each change of the assignment; a second deletion of the same name is told again."""
    other = f"{topic}_other"
    create(broker, other)
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    engine = start(Checkpoint(), subscribe=f"{topic},{other}", failOnDataLoss="false")
    told = f"topic {other} was deleted; what is missing is skipped\n"
    for count in (1, 2):
        produce(broker, other, 0, 1)
        until(engine, lambda rows: bool(rows) and not engine.trigger())
        client.delete_topics([other])[other].result(10)
        while {where.topic for where in member_of(engine).view().assigned} != {topic}:
            engine.trigger()
        for _ in range(2):
            engine.trigger()
            fence(engine, admin, topic)
            while not member_of(engine).view().assigned:
                time.sleep(0.01)
            engine.trigger()
        assert capfd.readouterr().err.count(told) == 1, count
        create(broker, other)
