"""History of offsets, undo and restore, with a real server that compacts continuously."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from tests.consumers import reading
from tests.waiting import wait_until

from headgate.admin import (
    Admin,
    AlreadyUndone,
    CommittedOffset,
    Earlier,
    GroupIsActive,
    HistoryUnknown,
    NothingToReset,
    OffsetsMoved,
    PartlyRefused,
    ToEarliest,
    TopicGone,
    TopicNow,
    TopicPartition,
)
from headgate.broker import Broker, run
from headgate.client.cluster import Cluster
from headgate.client.errors import RequestRefused, check
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import OFFSETS_HISTORY_TOPIC, Millis, TopicName
from headgate.log.batch import iterate_records
from headgate.records import OffsetCommit, decode
from headgate.records.history import origin_of
from headgate.wire.extensions.describe_offset_history import DescribeOffsetHistoryRequest
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.delete_topics import DeleteTopicsRequest

pytestmark = pytest.mark.timeout(60)
FLIGHTS = TopicName("flights")
FIRST, SECOND, THIRD = (TopicPartition(FLIGHTS, index) for index in range(3))
COMPACTING = {
    "headgate.durability": "page-cache",  # these tests commit often
    "offsets.topic.segment.bytes": "2000",
    "offsets.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "20",
    "log.retention.check.interval.ms": "100",
}


def create_flights(broker: Broker) -> None:
    """Create the topic `flights` with three partitions."""
    with Admin(broker.bootstrap_servers) as admin:
        topic = CreatableTopic(name=FLIGHTS, num_partitions=3, replication_factor=1)
        created = admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        check("topic", created.topics[0].error_code, created.topics[0].error_message)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start a server that compacts continuously."""
    with run(COMPACTING, data_dir=tmp_path_factory.mktemp("history") / "data") as broker:
        create_flights(broker)
        yield broker


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    """A new `Admin`."""
    with Admin(broker.bootstrap_servers) as admin:
        yield admin


def a_moment_later() -> None:
    """Wait until the next changes have a later time in ms than the previous ones."""
    time.sleep(0.003)


def now() -> Millis:
    """Return the time in ms. It is later than all earlier changes."""
    a_moment_later()
    return Millis(time.time_ns() // 1_000_000)


def alter(admin: Admin, group: str, **offsets: int | CommittedOffset) -> None:
    """Commit offsets of flights by `p0`, `p1`, `p2`, at a later time than all earlier changes."""
    a_moment_later()
    admin.alter_offsets(group, {TopicPartition(FLIGHTS, int(p[1])): one for p, one in offsets.items()})


def fill(admin: Admin, count: int = 20) -> None:
    """Let the server compact all earlier records: commit until every segment was closed."""
    history = [TopicPartition(OFFSETS_HISTORY_TOPIC, index) for index in range(2)]
    moved_before = admin.log_end_offsets(history)
    for filler in ("filler-1", "filler-2", "filler-3"):  # a group in each partition of the log
        for at in range(count):
            admin.alter_offsets(filler, {FIRST: at, SECOND: at, THIRD: at})
    wait_until(
        lambda: all(
            end > moved_before[where] + 2 * count for where, end in admin.log_end_offsets(history).items()
        ),
        "all is compacted",
        60,
    )


def test_every_change_is_listed_newest_first_through_compaction_and_a_crash(
    broker: Broker, admin: Admin, group: str
) -> None:
    """Offset, leader epoch and metadata of each commit, and removals, are returned in spite of compaction."""
    alter(admin, group, p0=CommittedOffset(1, 7, "first"), p1=5)
    alter(admin, group, p0=2)
    fill(admin)
    admin.delete_offsets(group, [FIRST])
    fill(admin)
    broker.kill()
    broker.start()
    history = admin.offset_history(group)
    assert history.known_since == -1
    assert [each.partition for each in history.partitions] == [FIRST, SECOND]
    first, second = history.partitions
    assert [change.committed for change in first.changes] == [
        None,
        CommittedOffset(2),
        CommittedOffset(1, 7, "first"),
    ]
    assert [change.committed for change in second.changes] == [CommittedOffset(5)]
    assert first.earlier is second.earlier is Earlier.NOTHING
    assert first.changes[-1].written == second.changes[0].written
    limited = admin.offset_history(group, [FIRST], limit=1, until=first.changes[1].time)
    assert [change.committed for change in limited.partitions[0].changes] == [CommittedOffset(2)]
    assert limited.partitions[0].earlier is Earlier.MORE


def test_offsets_as_of_any_time_are_returned(admin: Admin, group: str) -> None:
    """Before the first commit there is none. The scope is partitions, topics, or everything."""
    before = now()
    alter(admin, group, p0=1)
    between = now()
    alter(admin, group, p0=2, p2=9)
    fill(admin)
    assert admin.offsets_as_of(group, before, [FIRST])[0].is_known
    assert [each.committed for each in admin.offsets_as_of(group, before, [FIRST])] == [None]
    for places in ([FIRST, THIRD], [FLIGHTS], None):
        found = admin.offsets_as_of(group, between, places)
        assert {each.partition: each.committed for each in found} == {FIRST: CommittedOffset(1), THIRD: None}
        assert all(each.is_known for each in found)
    after = admin.offsets_as_of(group, now())
    assert [each.committed for each in after] == [CommittedOffset(2), CommittedOffset(9)]


def test_an_undo_restores_exactly_the_offsets_before_a_reset(admin: Admin, group: str) -> None:
    """Also metadata, leader epoch and missing offsets. An undo is undone only with `redo`."""
    kept = {FIRST: CommittedOffset(41, 3, "at the gate"), SECOND: CommittedOffset(7)}
    alter(admin, group, p0=kept[FIRST], p1=kept[SECOND])
    fill(admin)
    a_moment_later()
    admin.reset_offsets(group, [FIRST, SECOND, THIRD], ToEarliest())
    reset = dict.fromkeys([FIRST, SECOND, THIRD], CommittedOffset(0))
    assert admin.committed_offsets(group) == reset
    fill(admin)
    planned = admin.plan_undo(group)
    assert [each.restored for each in planned.partitions] == [kept[FIRST], kept[SECOND], None]
    assert admin.committed_offsets(group) == reset, "a plan changes nothing"
    admin.undo(group)
    assert admin.committed_offsets(group) == kept
    a_moment_later()
    with pytest.raises(AlreadyUndone, match="already undid the one of") as already:
        admin.undo(group)
    assert already.value.took_back == planned.changed_at
    assert admin.committed_offsets(group) == kept, "a second undo by mistake changes nothing"
    admin.undo(group, redo=True)
    assert admin.committed_offsets(group) == reset
    admin.undo(group, [FIRST], redo=True)
    assert admin.committed_offsets(group) == {**reset, FIRST: kept[FIRST]}


@pytest.mark.parametrize("has_second", [True, False])
def test_a_second_undo_is_refused_though_the_change_moved_only_some_of_its_partitions(
    admin: Admin, group: str, *, has_second: bool
) -> None:
    """A reset to the earliest offset leaves a partition as it is that was there already; another had none."""
    kept = {FIRST: CommittedOffset(0)} | ({SECOND: CommittedOffset(7)} if has_second else {})
    alter(admin, group, **({"p0": 0, "p1": 7} if has_second else {"p0": 0}))
    a_moment_later()
    admin.reset_offsets(group, [FIRST, SECOND], ToEarliest())
    a_moment_later()
    planned = admin.undo(group)
    assert planned.took_back is None
    a_moment_later()
    with pytest.raises(AlreadyUndone) as already:
        admin.undo(group)
    assert already.value.took_back == planned.changed_at
    assert admin.committed_offsets(group) == kept


def test_a_reset_to_the_offsets_before_the_last_commit_is_no_undo(admin: Admin, group: str) -> None:
    """A consumer that read a topic once, and a reset to its start: the reset is what `undo` undoes."""
    alter(admin, group, p0=0, p1=0)
    a_moment_later()
    alter(admin, group, p0=600, p1=500)
    a_moment_later()
    admin.reset_offsets(group, [FIRST, SECOND], ToEarliest())
    planned = admin.undo(group)
    assert planned.took_back is None
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(600), SECOND: CommittedOffset(500)}
    (change,) = admin.offset_history(group, [FIRST], limit=1).partitions[0].changes
    assert change.undone_at == planned.changed_at
    a_moment_later()
    with pytest.raises(AlreadyUndone):
        admin.undo(group)


def test_a_second_undo_is_refused_though_the_first_one_only_removed_offsets(admin: Admin, group: str) -> None:
    """The group had none before; a plan that is executed later is an undo, too. A repeated change is none."""
    alter(admin, group, p0=3)
    planned = admin.plan_undo(group)
    admin.execute_restore(group, planned)
    assert admin.committed_offsets(group) == {}
    a_moment_later()
    with pytest.raises(AlreadyUndone):
        admin.undo(group)
    admin.undo(group, redo=True)
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(3)}
    a_moment_later()
    admin.undo(group)
    assert admin.committed_offsets(group) == {}


def test_offsets_whose_records_were_deleted_since_are_not_restored_as_they_were(
    broker: Broker, admin: Admin, group: str
) -> None:
    """A consumer with such an offset would skip what is left. An undo is exact, and tells it."""
    topic = f"of-{group}"
    admin.create_topic(topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(100):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0
    where = TopicPartition(topic, 0)
    admin.alter_offsets(group, {where: CommittedOffset(10, 0, "ten")})
    a_moment_later()
    then = now()
    a_moment_later()
    admin.alter_offsets(group, {where: 90})
    admin.delete_records({where: 50})
    (restore,) = admin.plan_restore(group, then)
    assert restore.restored == CommittedOffset(50, -1, "ten")
    (undo,) = admin.plan_undo(group).partitions
    assert undo.restored == CommittedOffset(10, 0, "ten")
    assert {(each.past_offset, each.log_start) for each in (restore, undo)} == {(10, 50)}
    admin.restore_offsets(group, then)
    assert admin.committed_offsets(group) == {where: CommittedOffset(50, -1, "ten")}
    assert admin.restore_offsets(group, then) == [], "a second one has nothing to do"


def test_repeated_commits_of_the_same_offsets_are_no_undo(admin: Admin, group: str) -> None:
    """Nothing was taken back where nothing moved."""
    for _ in range(3):
        alter(admin, group, p0=3, p1=5)
        a_moment_later()
    assert admin.plan_undo(group).took_back is None


def test_an_undo_reverts_only_the_last_change_and_only_in_scope(admin: Admin, group: str) -> None:
    """Changes of other requests and partitions outside of the scope are kept. A removal is undone too."""
    alter(admin, group, p0=1, p1=1)
    alter(admin, group, p1=2, p2=2)
    alter(admin, group, p0=3)
    admin.undo(group, [SECOND, THIRD])
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(3), SECOND: CommittedOffset(1)}
    a_moment_later()
    admin.delete_groups([group])
    assert admin.committed_offsets(group) == {}
    admin.undo(group)
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(3), SECOND: CommittedOffset(1)}


def test_the_deletion_of_an_offset_committed_once_is_undone(admin: Admin, group: str) -> None:
    """A deletion restores the state before the only commit, but does not count as an undo."""
    alter(admin, group, p0=3, p1=5)
    admin.delete_groups([group])
    admin.undo(group)
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(3), SECOND: CommittedOffset(5)}


def test_an_undo_is_refused_for_an_active_group_and_without_a_change(
    broker: Broker, admin: Admin, group: str
) -> None:
    """Members would overwrite it. An unknown group has no last change."""
    with pytest.raises(NothingToReset, match="group nobody has no known change"):
        admin.undo("nobody")
    with reading(broker.bootstrap_servers, group, FLIGHTS) as consumer:
        consumer.commit(offsets=[KafkaTopicPartition(FLIGHTS, 0, 3)], asynchronous=False)
        with pytest.raises(GroupIsActive):
            admin.undo(group)
        assert admin.offsets_as_of(group, now())[0].committed == CommittedOffset(3)
    admin.undo(group)
    assert admin.committed_offsets(group) == {}


def test_a_concurrent_commit_prevents_the_whole_undo(admin: Admin, group: str) -> None:
    """An offset differs from the plan, so no partition is changed."""
    alter(admin, group, p0=1, p1=1)
    alter(admin, group, p0=2, p1=2)
    planned = admin.plan_undo(group)
    alter(admin, group, p1=3)
    with pytest.raises(OffsetsMoved):
        admin.execute_restore(group, planned.partitions)
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(2), SECOND: CommittedOffset(3)}


def test_offsets_are_restored_as_of_a_time(admin: Admin, group: str) -> None:
    """All of the group's offsets in one step. Partitions without an offset then have none afterwards."""
    alter(admin, group, p0=1, p1=1)
    then = now()
    alter(admin, group, p0=5)
    alter(admin, group, p2=6)
    fill(admin)
    planned = admin.restore_offsets(group, then)
    assert [(each.partition, each.restored) for each in planned] == [
        (FIRST, CommittedOffset(1)),
        (THIRD, None),
    ]
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(1), SECOND: CommittedOffset(1)}
    assert admin.restore_offsets(group, then) == []


def test_a_restore_of_what_is_not_known_is_no_success(admin: Admin, group: str) -> None:
    """Nothing to do is what a restore says of offsets that are right already, not of mistyped names."""
    alter(admin, group, p0=1)
    then = now()
    alter(admin, group, p0=5)
    for asked, partitions in ((f"{group}s", None), (group, ["flihgts"])):
        with pytest.raises(NothingToReset, match=f"group {asked} has no known offsets there"):
            admin.restore_offsets(asked, then, partitions)
    with pytest.raises(ValueError, match=r"is 3,[56]\d\d s in the future: is its time zone right\?"):
        admin.restore_offsets(group, then + 3_600_000)
    assert len(admin.restore_offsets(group, then, ["flights"])) == 1


def recreate_flights(broker: Broker, delete_only: bool = False) -> None:
    """Delete the topic, with its committed offsets, and create another one of the same name."""
    with Admin(broker.bootstrap_servers) as admin:
        request = DeleteTopicsRequest(topic_names=[FLIGHTS], timeout_ms=10_000)
        deleted = admin.cluster.any_node().request(request, 3)
        check("topic", deleted.responses[0].error_code)
    if not delete_only:
        create_flights(broker)


@pytest.mark.parametrize("happening", ["compaction", "a crash in between", "a crash after"])
def test_offsets_of_a_deleted_topic_are_not_restored_into_one_of_its_name(
    broker: Broker, admin: Admin, group: str, happening: str
) -> None:
    """Whether the offset was removed with the topic or before. Later commits can be undone, once."""
    alter(admin, group, p0=1, p1=CommittedOffset(5, 1, "of the first"))
    then = now()
    time.sleep(0.003)
    admin.delete_offsets(group, [FIRST])
    if happening == "compaction":
        fill(admin)
    recreate_flights(broker, delete_only=happening == "a crash in between")
    if happening.startswith("a crash"):
        broker.kill()
        broker.start()
    if happening == "a crash in between":
        with pytest.raises(TopicGone) as deleted:
            admin.undo(group)
        assert deleted.value.topics == {FLIGHTS: None}
        create_flights(broker)
    for places in (None, [FIRST], [SECOND], [FLIGHTS]):
        with pytest.raises(TopicGone, match="created again at"):
            admin.undo(group, places)
        with pytest.raises(TopicGone, match="created again at"):
            admin.restore_offsets(group, then, places)
    assert [each.topic_now for each in admin.offsets_as_of(group, then)] == [TopicNow.RECREATED] * 2
    assert admin.committed_offsets(group) == {}

    alter(admin, group, p0=0)
    if happening == "compaction":
        fill(admin)
    between = now()
    alter(admin, group, p0=9, p1=9)
    first, second = admin.offset_history(group).partitions
    assert [(one.topic_now, one.committed) for one in first.changes] == [
        (TopicNow.SAME, CommittedOffset(9)),
        (TopicNow.SAME, CommittedOffset(0)),
        (TopicNow.RECREATED, None),
        (TopicNow.RECREATED, CommittedOffset(1)),
    ]
    assert [one.topic_now for one in second.changes] == [TopicNow.SAME, *[TopicNow.RECREATED] * 2]
    admin.undo(group)
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(0)}
    time.sleep(0.003)
    with pytest.raises(AlreadyUndone):
        admin.undo(group)
    time.sleep(0.003)
    admin.delete_offsets(group, [FIRST])
    admin.undo(group)
    assert admin.restore_offsets(group, between) == []
    assert admin.committed_offsets(group) == {FIRST: CommittedOffset(0)}


def test_a_plan_belongs_to_the_topic_id(broker: Broker, admin: Admin, group: str) -> None:
    """If the topic is deleted and created again before the plan is executed, the plan fails."""
    alter(admin, group, p0=4)
    time.sleep(0.003)
    admin.delete_offsets(group, [FIRST])
    planned = admin.plan_undo(group)
    # The id is a text everywhere, so that a program can compare it with others and write all as JSON.
    described = admin.describe_topics([FLIGHTS])[FLIGHTS]
    history = admin.offset_history(group)
    assert described is not None
    assert described.topic_id == planned.partitions[0].topic_id == history.topics[FLIGHTS].topic_id
    assert described.topic_id in json.dumps([asdict(planned), asdict(history)])
    recreate_flights(broker)
    with pytest.raises(PartlyRefused, match="UNKNOWN_TOPIC_ID"):
        admin.execute_restore(group, planned.partitions)
    assert admin.committed_offsets(group) == {}


def test_records_of_the_history_topic_are_fetched_and_decoded(
    broker: Broker, admin: Admin, group: str
) -> None:
    """Any consumer can read the topic in Kafka's formats; clients cannot write or delete it."""
    for at in range(30):
        alter(admin, group, p0=at)
    fill(admin)

    def moved() -> list[int]:
        commits: list[int] = []
        with Cluster(broker.bootstrap_servers) as cluster:
            for partition in cluster.partitions_of(OFFSETS_HISTORY_TOPIC):
                offset = 0
                while records := cluster.fetch(OFFSETS_HISTORY_TOPIC, partition, offset).records:
                    for at, record in iterate_records(records):
                        offset = at + 1
                        decoded = decode(record.key, record.value)
                        if isinstance(decoded, OffsetCommit) and decoded.group_id == group:
                            assert origin_of(record.headers) is not None
                            commits.append(decoded.offset)
        return commits

    wait_until(lambda: len(moved()) >= 28, "compaction moves the commits", 20)
    commits = moved()
    topic = admin.cluster.any_node().request(DeleteTopicsRequest(topic_names=[OFFSETS_HISTORY_TOPIC]), 3)
    assert topic.responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert commits == list(range(len(commits)))


def test_invalid_requests_are_refused_with_a_message(admin: Admin, group: str) -> None:
    """An unknown mode, a list without a limit, a missing time."""
    for message, problem in (
        (DescribeOffsetHistoryRequest(group_id=group, mode=9), "no mode 9"),
        (DescribeOffsetHistoryRequest(group_id=group, limit=0), "limit"),
        (DescribeOffsetHistoryRequest(group_id=group, mode=1), "time is missing"),
    ):
        response = admin.cluster.any_node().request(message)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message is not None
        assert problem in response.error_message
    with pytest.raises(RequestRefused, match="INVALID_GROUP_ID"):
        admin.offset_history("g" * 40_000)


def test_offsets_older_than_the_history_are_unknown(tmp_path: Path) -> None:
    """With a short retention, an undo that needs deleted history is refused."""
    settings = {**COMPACTING, "offsets.history.retention.ms": "300"}
    with run(settings, data_dir=tmp_path / "data") as broker, Admin(broker.bootstrap_servers) as admin:
        create_flights(broker)
        alter(admin, "group", p0=1)
        then = now()
        alter(admin, "group", p0=2)

        def is_forgotten() -> bool:
            fill(admin, 20)  # so that there is something to compact
            return not admin.offsets_as_of("group", then, [FIRST])[0].is_known

        wait_until(is_forgotten, "the past is gone", 20)
        assert not admin.offsets_as_of("group", then, [FIRST])[0].is_known
        assert admin.offsets_as_of("group", now(), [FIRST])[0].committed == CommittedOffset(2)
        assert admin.offset_history("group").partitions[0].earlier is Earlier.UNKNOWN
        with pytest.raises(HistoryUnknown, match="flights-0"):
            admin.undo("group")
        with pytest.raises(HistoryUnknown, match="flights-0"):
            admin.restore_offsets("group", then)
        assert admin.committed_offsets("group") == {FIRST: CommittedOffset(2)}
