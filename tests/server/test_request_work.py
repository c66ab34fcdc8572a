"""Long work of requests runs in slices and in threads, and other requests are served meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

import pytest
from tests.server.clients import Client, commit, committed, run_scenario
from tests.server.disk import DATA_DIR, new_disk
from tests.server.test_turn import beside
from tests.topics.disk import batch

from headgate.api import k47_offset_delete
from headgate.api.contract import RequestSteps
from headgate.core import groups
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicId
from headgate.domain.settings import Settings
from headgate.log.log import Log
from headgate.runtime.clock import Clock
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.server.memory import collect_cycles_rarely
from headgate.server.node import BrokerNode
from headgate.server.request_work import RequestWork
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.codec import decode
from headgate.wire.framing import request_frame
from headgate.wire.message import Request
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headgate.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headgate.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headgate.wire.messages.metadata import MetadataRequest
from headgate.wire.messages.offset_commit import OffsetCommitResponse
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from headgate.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.timeout(60)
JOB = Job("test")


class Outcome:
    """The result or failure of a piece of work."""

    def __init__(self) -> None:
        self.result: Any = None
        self.failure: Exception | None = None

    @property
    def is_known(self) -> bool:
        return self.result is not None or self.failure is not None

    def done(self, result: Any) -> None:
        self.result = result

    def failed(self, failure: Exception) -> None:
        self.failure = failure


def working(scenario: Callable[[RequestWork], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario with its own runner of work."""

    async def main() -> None:
        work = RequestWork(LoopWatch())
        try:
            await scenario(work)
        finally:
            work.close()

    asyncio.run(asyncio.wait_for(main(), 30))


async def until(is_so: Callable[[], bool]) -> None:
    """Run the loop until a condition holds."""
    while not is_so():
        await asyncio.sleep(0)


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every slice at the first yield."""
    ticks = count()
    monkeypatch.setattr(RequestWork, "seconds", staticmethod(lambda: float(next(ticks))))


def test_work_that_is_short_is_done_at_once() -> None:
    """It needs no iteration of the loop."""

    async def scenario(work: RequestWork) -> None:
        def steps() -> RequestSteps[str]:
            yield None
            return "done"

        outcome = Outcome()
        work.run(steps(), JOB, outcome.done, outcome.failed)
        assert outcome.result == "done"

    working(scenario)


def test_others_have_their_turn_between_slices(short_slices: None) -> None:
    """Two pieces of work and a callback of the loop alternate."""

    async def scenario(work: RequestWork) -> None:
        order: list[str] = []

        def steps(name: str) -> RequestSteps[str]:
            for _ in range(3):
                order.append(name)
                yield None
            return name

        outcomes = Outcome(), Outcome()
        for name, outcome in zip("ab", outcomes, strict=True):
            work.run(steps(name), JOB, outcome.done, outcome.failed)
        assert order == ["a", "b"]
        asyncio.get_running_loop().call_soon(order.append, "other")
        await until(lambda: all(outcome.is_known for outcome in outcomes))
        assert order[:2] == ["a", "b"]
        assert order.index("other") < len(order) - 2
        assert [name for name in order if name != "other"] == ["a", "b", "a", "b", "a", "b"]

    working(scenario)


def test_what_blocks_runs_in_a_thread_and_its_failure_comes_back() -> None:
    """The loop continues meanwhile; the work can handle the exception."""

    async def scenario(work: RequestWork) -> None:
        loop_thread, ran_in = threading.get_ident(), []
        may_go_on = threading.Event()

        def block() -> None:
            ran_in.append(threading.get_ident())
            may_go_on.wait()

        def fail() -> None:
            raise OSError("no such luck")

        def steps() -> RequestSteps[str]:
            yield block
            try:
                yield fail
            except OSError as failure:
                return str(failure)
            return "not told"

        outcome = Outcome()
        work.run(steps(), JOB, outcome.done, outcome.failed)
        await until(lambda: bool(ran_in))
        assert ran_in[0] != loop_thread
        assert not outcome.is_known
        may_go_on.set()
        await until(lambda: outcome.is_known)
        assert outcome.result == "no such luck"

    working(scenario)


def test_a_future_is_waited_for() -> None:
    """This includes a future that is cancelled."""

    async def scenario(work: RequestWork) -> None:
        def steps(future: Future[None]) -> RequestSteps[str]:
            yield future
            return "done"

        for finish in (lambda future: future.set_result(None), Future.cancel):
            future: Future[None] = Future()
            outcome = Outcome()
            work.run(steps(future), JOB, outcome.done, outcome.failed)
            assert outcome.result is None
            finish(future)
            await until(partial(outcome.__getattribute__, "is_known"))
            assert outcome.result == "done"

    working(scenario)


def test_work_that_fails_is_reported_and_others_continue(short_slices: None) -> None:
    """This holds for every exception."""

    async def scenario(work: RequestWork) -> None:
        def steps(*, fails: bool) -> RequestSteps[str]:
            yield None
            if fails:
                raise ValueError("unfit")
            return "done"

        bad, good = Outcome(), Outcome()
        work.run(steps(fails=True), JOB, bad.done, bad.failed)
        work.run(steps(fails=False), JOB, good.done, good.failed)
        await until(lambda: bad.is_known and good.is_known)
        assert isinstance(bad.failure, ValueError)
        assert good.result == "done"

    working(scenario)


def test_a_callback_that_raises_does_not_stop_others(short_slices: None) -> None:
    """The event loop reports it."""

    async def scenario(work: RequestWork) -> None:
        def steps(*, fails: bool) -> RequestSteps[str]:
            yield None
            if fails:
                raise ValueError("unfit")
            return "done"

        def bad(outcome: object) -> None:
            raise KeyError("planted")

        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context.get("exception")))
        good = Outcome()
        work.run(steps(fails=False), JOB, bad, good.failed)
        work.run(steps(fails=True), JOB, good.done, bad)
        work.run(steps(fails=False), JOB, good.done, good.failed)
        await until(lambda: good.is_known)
        assert good.result == "done"
        assert [type(one) for one in reported] == [KeyError, KeyError]

    working(scenario)


# --- over connections ---


def metadata() -> MetadataRequest:
    """Return a request for all topics."""
    return MetadataRequest(topics=None)


def send(client: Client, request: Request[Any], version: int, correlation_id: int) -> None:
    """Send a request without waiting."""
    client.connection.data_received(request_frame(request, version, correlation_id, "someone"))


def test_other_clients_are_served_between_the_slices_of_a_wide_request(short_slices: None) -> None:
    """A commit sent after a request for the metadata of many partitions is answered first."""

    async def scenario(client: Client) -> None:
        client.node.topics.create(NewTopic("wide", TopicId(b"w" * 16), 100_000), client.node.system_time())
        other = beside(client)
        send(client, metadata(), 9, 1)
        await other.ask(commit(1, [3]), 9)
        assert not client.wire.sent
        [(correlation_id, _)] = await client.receive(1)
        assert correlation_id == 1

    run_scenario(scenario)


def produce_of_unknown_topics(partition_count: int) -> ProduceRequest:
    return ProduceRequest(
        acks=1,
        topic_data=[
            TopicProduceData(name=f"u{index}", partition_data=[PartitionProduceData(index=0, records=b"")])
            for index in range(partition_count)
        ],
    )


def fetch_of_unknown_partitions(partition_count: int) -> FetchRequest:
    """Make a fetch that also forgets as many partitions."""
    indexes = range(10, 10 + partition_count)
    return FetchRequest(
        session_epoch=0,
        max_wait_ms=0,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=one) for one in indexes])],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[*indexes])],
    )


@pytest.mark.parametrize(
    ("request_in_steps", "version"),
    [
        (produce_of_unknown_topics(2000), 12),
        (fetch_of_unknown_partitions(2000), 12),
    ],
    ids=["produce", "fetch"],
)
def test_other_clients_are_served_while_there_is_much_to_look_for(
    short_slices: None, request_in_steps: Request[Any], version: int
) -> None:
    """A commit sent after such a request is answered first."""

    async def scenario(client: Client) -> None:
        other = beside(client)
        send(client, request_in_steps, version, 1)
        await other.ask(commit(1, [3]), 9)
        assert not client.wire.sent
        [(correlation_id, _)] = await client.receive(1)
        assert correlation_id == 1

    run_scenario(scenario)


def test_groups_are_listed_some_at_a_time(short_slices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests are served in between. Deleted groups are missing; each other one is listed once."""
    monkeypatch.setattr(groups, "LISTED_AT_ONCE", 4)

    async def scenario(client: Client) -> None:
        other = beside(client)
        for number in range(30):
            await other.ask(commit(1, [3], f"g{number}"), 9)
        send(client, ListGroupsRequest(), 5, 1)
        await other.ask(DeleteGroupsRequest(groups_names=["g29"]), 2)
        assert not client.wire.sent
        [(_, frame)] = await client.receive(1)
        listed = [one.group_id for one in decode(ListGroupsResponse, 5, frame, 5).groups]
        assert sorted(listed) == sorted(f"g{number}" for number in range(29))

    run_scenario(scenario)


def test_a_connection_s_requests_wait_for_one_that_is_served_in_steps(short_slices: None) -> None:
    """They see its effects, and all are answered in order."""

    async def scenario(client: Client) -> None:
        client.node.topics.create(NewTopic("wide", TopicId(b"w" * 16), 20_000), client.node.system_time())
        send(client, metadata(), 9, 1)
        assert not client.wire.is_closed
        for correlation_id in (2, 3):
            send(client, commit(correlation_id, [3]), 9, correlation_id)
        assert not client.wire.is_read, "no more is taken than is being served"
        frames = await client.receive(3)
        assert [correlation_id for correlation_id, _ in frames] == [1, 2, 3]
        assert client.wire.is_read

    run_scenario(scenario)


def test_a_large_request_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large request that cannot be decoded closes only its connection."""

    async def scenario(client: Client) -> None:
        other = beside(client)
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(20_000)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])
        send(client, request, 5, 1)
        assert not client.wire.sent
        await other.ask(commit(1, [3]), 9)
        await client.receive(1)
        frame = request_frame(request, 5, 2, "someone")
        cut = (len(frame) - 14).to_bytes(4, "big") + frame[4:-10]
        client.connection.data_received(cut)
        await until(lambda: client.wire.is_closed)
        await other.ask(commit(2, [3]), 9)

    run_scenario(scenario)


def test_a_connection_lost_meanwhile_is_not_answered(short_slices: None) -> None:
    """Later requests are not answered either."""

    async def scenario(client: Client) -> None:
        client.node.topics.create(NewTopic("wide", TopicId(b"w" * 16), 20_000), client.node.system_time())
        other = beside(client)
        send(client, metadata(), 9, 1)
        send(client, commit(1, [3]), 9, 2)
        client.connection.connection_lost(None)
        await other.ask(metadata(), 9)
        assert not client.wire.sent

    run_scenario(scenario)


@pytest.fixture
def slow_opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let logs of topics open only when this event is set."""
    may_go_on = threading.Event()
    load = Topic.load_log

    def slow(topic: Topic, *given: Any) -> Log:
        if topic.name == "records" and given[0].topic.is_written(given[0].index):
            assert threading.current_thread() is not threading.main_thread(), "it would hold the loop"
            may_go_on.wait(30)
        return load(topic, *given)

    monkeypatch.setattr(Topic, "load_log", slow)
    yield may_go_on
    may_go_on.set()


def fetch_records(partition_count: int) -> FetchRequest:
    """Fetch all records of `partition_count` partitions."""
    partitions = [
        FetchPartition(partition=index, partition_max_bytes=1000) for index in range(partition_count)
    ]
    return FetchRequest(
        max_wait_ms=10_000, min_bytes=1, topics=[FetchTopic(topic="records", partitions=partitions)]
    )


def produce_records(partition_count: int) -> ProduceRequest:
    """Produce a record to each of `partition_count` partitions."""
    data = [PartitionProduceData(index=index, records=batch(b"new")) for index in range(partition_count)]
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="records", partition_data=data)])


def list_records(partition_count: int) -> ListOffsetsRequest:
    """List the end offsets of `partition_count` partitions."""
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partition_count)
    ]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="records", partitions=partitions)])


def test_logs_are_recovered_after_a_crash_while_others_are_served(slow_opening: threading.Event) -> None:
    """Two clients wait for the same logs, a third commits; each log is opened once, and all are answered."""

    async def main() -> None:
        files = new_disk()
        settings = Settings({"group.initial.rebalance.delay.ms": "0"})
        node = BrokerNode(files, DATA_DIR, settings, Clock())
        await node.start()
        topic = node.topics.create(NewTopic("records", TopicId(b"r" * 16), 4), node.system_time())
        node.topics.create(NewTopic("t", TopicId(b"t" * 16), 40), node.system_time())
        assert isinstance(topic, Topic)
        for index in range(3):
            records = batch(b"a", b"b", timestamp=node.system_time())
            result = topic.partition(index).append(records, node.system_time())
            assert result.error == ErrorCode.NONE
            node.durability.when_durable(topic.partition(index).log, topic.partition(index).synced)
        await until(lambda: all(topic.partition(index).high_watermark for index in range(3)))
        files.crash()
        node = BrokerNode(files, DATA_DIR, settings, Clock())
        await node.start()
        try:
            reader, finder, producer, other = (Client(node) for _ in range(4))
            send(reader, fetch_records(4), 11, 1)
            send(finder, list_records(4), 5, 1)
            send(producer, produce_records(4), 9, 1)
            await other.ask(commit(1, [3]), 9)
            assert not reader.wire.sent
            assert not finder.wire.sent
            assert not producer.wire.sent
            slow_opening.set()
            [(_, fetched)] = await reader.receive(1)
            assert fetched.count(b"key") >= 6
            await finder.receive(1)
            [(_, produced)] = await producer.receive(1)
            answers = decode(ProduceResponse, 9, produced, 5).responses[0].partition_responses
            assert [(one.error_code, one.base_offset) for one in answers] == [(0, 2)] * 3 + [(0, 0)]
        finally:
            node.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_what_is_appended_while_many_partitions_are_read_is_not_missed(short_slices: None) -> None:
    """A fetch that waits sees records appended after its partition was read and before it was parked."""

    async def scenario(client: Client) -> None:
        topic = client.node.topics.create(
            NewTopic("records", TopicId(b"r" * 16), 2000), client.node.system_time()
        )
        assert isinstance(topic, Topic)
        send(client, fetch_records(2000), 11, 1)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not len(client.node.topics.waiters), "still being read"
        first = topic.partition(0)
        assert first.append(batch(b"late"), client.node.system_time()).error == ErrorCode.NONE
        client.node.durability.when_durable(first.log, first.synced)
        [(_, fetched)] = await client.receive(1)
        assert b"late" in fetched

    run_scenario(scenario)


def record_counts_of_group(node: BrokerNode, group_id: str) -> list[int]:
    """Return the record count of each batch in the log of a group's shard."""
    topic = node.topics.by_name(GROUP_OFFSETS_TOPIC)
    assert topic is not None
    log = topic.partition(node.coordinator.partition_of(GroupId(group_id))).log
    return [header.record_count for header, _ in log.batches(0)]


def test_cycles_are_looked_for_seldom_once_the_server_is_up() -> None:
    """The objects of a wide request are not examined repeatedly while it is served."""
    before = gc.get_threshold()
    try:
        collect_cycles_rarely()
        young, middle, old = gc.get_threshold()
        assert young * middle <= 200_000, "what is looked at in one go"
        assert young * middle * old > 10_000_000
        assert gc.get_freeze_count() > 0
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_many_groups_are_asked_for_in_steps() -> None:
    """A commit of another client is answered first, and each group has its own response."""

    async def scenario(client: Client) -> None:
        for number in (3, 250, 499):
            await client.ask(commit(number, [5], f"g{number}"), 9, "committer")
        other = beside(client)
        groups = [OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(500)]
        send(client, OffsetFetchRequest(groups=groups), 8, 1)
        assert not client.wire.sent
        await other.ask(commit(1, [3]), 9)
        [(_, frame)] = await client.receive(1)
        answers = decode(OffsetFetchResponse, 8, frame, 5).groups
        assert [one.group_id for one in answers] == [one.group_id for one in groups]
        assert [
            (number, one.topics[0].partitions[0].committed_offset)
            for number, one in enumerate(answers)
            if one.topics
        ] == [(3, 3), (250, 250), (499, 499)]

    run_scenario(scenario)


def test_a_wide_commit_with_a_retention_of_its_own_is_one_commit() -> None:
    """All offsets are in one batch; each partition is answered, and unknown ones are rejected."""

    async def scenario(client: Client) -> None:
        client.node.topics.create(NewTopic("wide", TopicId(b"w" * 16), 5000), client.node.system_time())
        partitions = [*range(2500), 9999, *range(2500, 5000)]
        request = commit(1000, partitions, retention_time_ms=3_600_000)
        request.topics[0].name = "wide"
        body = await client.send(request, 4, "old")
        answers = decode(OffsetCommitResponse, 4, bytes(4) + body, 4).topics[0].partitions
        assert [one.partition_index for one in answers] == partitions
        assert {one.partition_index for one in answers if one.error_code} == {9999}
        expected = {index: 1000 + place for place, index in enumerate(partitions) if index != 9999}
        assert await committed(client) == expected
        assert record_counts_of_group(client.node, "g") == [5000]

    run_scenario(scenario)


def test_many_offsets_are_deleted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partition is answered, in the order of the request; an unknown group gets one error."""
    monkeypatch.setattr(k47_offset_delete, "_MOST_AT_ONCE", 7)
    monkeypatch.setattr(k47_offset_delete, "_MOST_IN_A_PIECE", 10)

    async def scenario(client: Client) -> None:
        await client.ask(commit(1, [*range(40)]), 9, "committer")
        names = {"t": [*range(5, 50)], "u": [0], "empty": []}
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in names.items()
        ]
        response = await client.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
        assert {
            topic.name: [one.partition_index for one in topic.partitions] for topic in response.topics
        } == names
        refused = [one.partition_index for one in response.topics[0].partitions if one.error_code]
        assert refused == [*range(40, 50)]
        assert [*await committed(client)] == [0, 1, 2, 3, 4]
        counts = record_counts_of_group(client.node, "g")
        assert counts == [40, 11, 11, 11, 6]  # the last one of each piece tells who asked
        response = await client.ask(OffsetDeleteRequest(group_id="nobody", topics=topics), 0)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run_scenario(scenario)
