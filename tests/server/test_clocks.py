"""A node whose system clock is set: timestamps are compared with the new time, deadlines do not move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.log.compacting import drive
from tests.runtime.counting import AnswerLater, setup
from tests.server.clients import Client, commit, committed
from tests.server.disk import DATA_DIR, new_disk
from tests.topics.disk import batch

from headgate.core.commands import Tick
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS
MOMENT_MS = 10_000
"""Upper bound of a test's duration."""


class SetClock(Clock):
    """A system clock that a test sets, and a steady time that a suspend stops."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def system_time(self) -> Millis:
        """Return the system time: the real time plus the difference that the test set."""
        return Millis(super().system_time() + self.ahead_ms)


Scenario = Callable[[Client, SetClock], Coroutine[Any, Any, None]]


def run(scenario: Scenario, ahead_ms: int = 0, **settings: str) -> None:
    """Run a scenario against a node with a topic "letters"."""

    async def main() -> None:
        clock = SetClock(ahead_ms)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        node = BrokerNode(
            new_disk(), DATA_DIR, Settings({"group.initial.rebalance.delay.ms": "0"} | given), clock
        )
        await node.start()
        node.topics.create(NewTopic("letters", TopicId(b"l" * 16), 1), node.system_time())
        node.topics.create(NewTopic("t", TopicId(b"t" * 16), 1), node.system_time())
        try:
            await scenario(Client(node), clock)
        finally:
            node.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def produce(client: Client, timestamp: int) -> ErrorCode:
    """Produce a record with a timestamp. Return the error of the response."""
    data = [PartitionProduceData(index=0, records=batch(b"dear", timestamp=timestamp))]
    wanted = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="letters", partition_data=data)])
    response = await client.ask(wanted, 12)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def offset_at(client: Client, timestamp: int) -> int:
    """Return the offset of the first record at or after a timestamp; -1 if there is none."""
    wanted = ListOffsetsTopic(
        name="letters", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    )
    response = await client.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7)
    return int(response.topics[0].partitions[0].offset)


def commit_timestamp(client: Client) -> int:
    """Return the timestamp of group "g"'s offset for `t-0`."""
    for shard in client.node.coordinator.shards():
        stored = shard.offsets.get(GroupId("g"), TopicName("t"), 0)
        if stored is not None:
            return int(stored.commit_timestamp)
    raise AssertionError("nothing is committed")


def keep_topics(client: Client) -> None:
    """Run the node's periodic work on topics, including retention."""
    node = client.node
    drive(node.housekeeping.round(node.system_time()))


def test_after_two_hours_of_suspend_true_timestamps_are_accepted() -> None:
    """Timestamps that are ahead by the duration of the suspend are still rejected."""

    async def scenario(client: Client, clock: SetClock) -> None:
        assert await produce(client, clock.system_time()) is ErrorCode.NONE
        clock.ahead_ms = 2 * HOUR_MS
        assert await produce(client, clock.system_time()) is ErrorCode.NONE
        too_new = clock.system_time() + HOUR_MS + MOMENT_MS
        assert await produce(client, too_new) is ErrorCode.INVALID_TIMESTAMP

    run(scenario)


def test_a_clock_set_back_has_timestamps_judged_by_the_new_time() -> None:
    """Timestamps that were valid before are in the future now."""

    async def scenario(client: Client, clock: SetClock) -> None:
        before = clock.system_time()
        assert await produce(client, before) is ErrorCode.NONE
        clock.ahead_ms = -2 * HOUR_MS
        assert await produce(client, before) is ErrorCode.INVALID_TIMESTAMP
        assert await produce(client, clock.system_time()) is ErrorCode.NONE

    run(scenario)


def test_retention_keeps_what_was_acknowledged_after_a_clock_was_corrected() -> None:
    """The clock is a month ahead at the start and corrected later: records with true timestamps stay."""

    async def scenario(client: Client, clock: SetClock) -> None:
        assert await produce(client, clock.system_time()) is ErrorCode.NONE
        clock.ahead_ms = 0
        now = clock.system_time()
        assert await produce(client, now) is ErrorCode.NONE
        keep_topics(client)
        assert client.node.topics.by_name("letters").partition(0).log_start_offset == 0  # type: ignore[union-attr]
        assert await offset_at(client, now) == 0  # the record with the future timestamp
        assert await offset_at(client, now + HOUR_MS) == 0

    run(scenario, ahead_ms=MONTH_MS)


def test_offsets_committed_by_a_clock_that_was_ahead_stay() -> None:
    """Later commits have the corrected time, and a sweep at either time expires nothing."""

    async def scenario(client: Client, clock: SetClock) -> None:
        assert (await client.ask(commit(5, [0]), 8)).topics[0].partitions[0].error_code == 0
        assert commit_timestamp(client) > Clock().system_time() + MONTH_MS - MOMENT_MS
        clock.ahead_ms = 0
        await asyncio.sleep(0.1)
        assert await committed(client) == {0: 5}
        assert (await client.ask(commit(6, [0]), 8)).topics[0].partitions[0].error_code == 0
        assert abs(commit_timestamp(client) - Clock().system_time()) < MOMENT_MS
        clock.ahead_ms = -MONTH_MS
        await asyncio.sleep(0.1)
        assert await committed(client) == {0: 6}

    run(scenario, ahead_ms=MONTH_MS, offsets_retention_check_interval_ms="20")


def test_no_jump_of_the_clock_ends_a_session_or_stalls_a_rebalance() -> None:
    """The clock is set by a month in both directions, and a member remains in its group."""

    async def scenario(client: Client, clock: SetClock) -> None:
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        first = await client.ask(join, 3)
        assert first.error_code == 0
        for ahead_ms in (MONTH_MS, -MONTH_MS, 0):
            clock.ahead_ms = ahead_ms
            await asyncio.sleep(0.05)
            beat = HeartbeatRequest(
                group_id="g", generation_id=first.generation_id, member_id=first.member_id
            )
            assert (await client.ask(beat, 2)).error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
        join.member_id = first.member_id
        clock.ahead_ms = MONTH_MS
        again = await client.ask(join, 3)
        assert (again.error_code, again.member_id) == (0, first.member_id)

    run(scenario)


class SlowClock(Clock):
    """A steady time at a quarter of the speed of the loop's time."""

    def __init__(self) -> None:
        self.began = Clock.steady_time(self)

    def steady_time(self) -> Millis:
        """Return the slowed steady time."""
        return Millis(self.began + (super().steady_time() - self.began) // 4)


def test_a_timer_that_the_loop_fires_early_waits_for_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard gets no Tick before its own time has come, and then one."""
    monkeypatch.setattr("tests.runtime.counting.Clock", SlowClock)
    ticks = []

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            handle = s.runtime.shard.handle

            def watched(command: object, now: Millis, token: int = 0) -> Any:
                if isinstance(command, Tick):
                    ticks.append(now)
                return handle(command, now, token)

            monkeypatch.setattr(s.runtime.shard, "handle", watched)
            waiting = asyncio.create_task(s.ask(AnswerLater()))
            await asyncio.sleep(0)
            deadline = s.runtime.shard.deadline
            assert deadline is not None
            assert await waiting == "late"
            assert len(ticks) == 1
            assert ticks[0] >= deadline

    asyncio.run(scenario())
