"""Share-partitions when something goes wrong: failed reads and writes, sessions and settings that change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from tests.server.clients import T
from tests.server.disk import new_disk
from tests.server.share_members import FIRST_WAIT_MS, Got, Scene, play, started, until
from tests.topics.disk import batch, sync
from tests.topics.transactions import Writer

from headgate.api.contract import RequestSteps
from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.core.share.state.commands import (
    InitializeState,
    ReadState,
    ReadStateResult,
    ShareKey,
    StateResult,
    WriteState,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.log.memory_filesystem import Fault
from headgate.runtime.loop_watch import Job
from headgate.server.node import BrokerNode
from headgate.server.shares import delivery
from headgate.server.shares.counts import FAILURES_TOLD, ShareCounts
from headgate.server.shares.fetch import AT_ONCE, MOST_PARTITIONS
from headgate.server.shares.writing import AGAIN_AT_ONCE
from headgate.topics.partition import Partition
from headgate.topics.topics import NewTopic

ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)
NONE = ErrorCode.NONE


def _configure(scene: Scene, **settings: str) -> None:
    change = scene.node.topics.group_change(
        "g", {name.replace("_", "."): one for name, one in settings.items()}
    )
    assert scene.node.topics.change_settings([change], scene.node.system_time()) is None


def test_log_that_could_not_be_read_is_tried_again() -> None:
    """A group that begins by time searches the log first. A failure must not let it begin at the end."""

    async def story() -> None:
        files = new_disk()
        scene = await started(files)
        await scene.initialize(start=-1)
        for _ in range(3):
            scene.append(b"a")
        _configure(scene, share_auto_offset_reset="by_duration:P1000D")
        assert scene.topic.partition(0).log_start_offset == 0  # it is open
        files.inject(Fault(kind="pread", times=1))
        member = scene.member("m")
        (refused,) = (await member.fetch(0)).values()
        assert refused.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # clients ask again
        files.heal()
        found = await member.fetch(wait_ms=FIRST_WAIT_MS)
        assert found == {0: Got(NONE, NONE, [(0, 2, 1)], [b"a"] * 3)}
        scene.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))


class _Held:
    """A share coordinator whose replies to writes of batches are held back, or those to reads."""

    def __init__(self, real: Any, *, holds_reads: bool = False) -> None:
        self._real = real
        self._holds_reads = holds_reads
        self.held: list[Any] = []

    def submit(self, key: str, command: Any, on_reply: Any) -> None:
        is_read = isinstance(command, ReadState)
        if is_read if self._holds_reads else isinstance(command, WriteState) and command.batches:
            self.held.append(on_reply)
        else:
            self._real.submit(key, command, on_reply)


class _Node:
    """A node with another share coordinator."""

    def __init__(self, node: BrokerNode, share_state: Any) -> None:
        self._node = node
        self.share_state = share_state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


class _Timers(_Node):
    """A node on which no time passes."""

    def __init__(self, node: BrokerNode, share_state: Any) -> None:
        super().__init__(node, share_state)
        self.due: list[Callable[[], None]] = []

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.due.append(action)


class _Noting:
    """A share coordinator that notes how many batches each write has."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.sizes: list[int] = []

    def submit(self, key: str, command: Any, on_reply: Any) -> None:
        if isinstance(command, WriteState) and command.batches:
            self.sizes.append(len(command.batches))
        self._real.submit(key, command, on_reply)


def test_many_ranges_that_nobody_waits_for_are_written_again_some_at_a_time() -> None:
    """Each of them may change another part of the state."""

    async def story(scene: Scene) -> None:
        records = 5 * AGAIN_AT_ONCE
        for _ in range(records // 500):
            scene.append(*[b"a"] * 500)
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(at, at, [ACCEPT]) for at in range(1, records, 2)]})
        (shared,) = scene.shared()
        held, noting = _Held(scene.node.share_state), _Noting(scene.node.share_state)
        shared.writes._node = _Node(scene.node, held)
        ann.disconnect()
        await until(lambda: shared.machine is not None and not shared.machine.is_any_in_flight)
        shared.writes._node = _Node(scene.node, noting)
        for reply in held.held:
            reply(StateResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        await until(lambda: shared.writes.is_done)
        assert sum(noting.sizes) == records // 2
        assert max(noting.sizes) == AGAIN_AT_ONCE

    play(story)


def test_lock_that_ended_while_its_acknowledgement_was_written() -> None:
    """If the write fails then, others get the records (F17)."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        (shared,) = scene.shared()
        held = _Held(scene.node.share_state)
        shared.writes._node = _Node(scene.node, held)
        answer = asyncio.create_task(ann.acknowledge({0: [(0, 0, [ACCEPT])]}))
        await until(lambda: bool(held.held))
        await until(lambda: not shared.locks.is_set)
        held.held.pop()(StateResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert await answer == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await ben.fetch(0, wait_ms=50_000) == {0: Got(NONE, NONE, [(0, 0, 2)], [b"a"])}

    play(story, group_share_record_lock_duration_ms="6000")


def test_failed_writes_are_logged_at_a_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk fails every write; each is answered, and some are logged."""

    async def story(scene: Scene) -> None:
        scene.append(*[b"a"] * 3 * FAILURES_TOLD)
        member = scene.member("m")
        await member.fetch(0)
        (shared,) = scene.shared()
        shared.writes._node = _Node(scene.node, held := _Held(scene.node.share_state))
        for offset in range(3 * FAILURES_TOLD):
            answer = asyncio.create_task(member.acknowledge({0: [(offset, offset, [ACCEPT])]}))
            await until(lambda: bool(held.held))
            held.held.pop()(StateResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            assert await answer == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        lines = [one for one in caplog.messages if "not written" in one]
        assert len(lines) == FAILURES_TOLD

    play(story)


def test_isolation_level_changes_while_a_fetch_waits() -> None:
    """A waiting fetch follows it: records of an open transaction wake it, and nothing of it remains."""

    async def story(scene: Scene) -> None:
        _configure(scene, share_isolation_level="read_committed")
        member = scene.member("m")
        waiting = asyncio.create_task(member.fetch(0, wait_ms=50_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        _configure(scene, share_isolation_level="read_uncommitted")
        await asyncio.sleep(0.01)
        Writer(scene.topic, 1).write(b"a")
        assert await waiting == {0: Got(NONE, NONE, [(0, 0, 1)], [b"a"])}
        assert not scene.node.topics.committed_waiters
        assert not scene.node.topics.waiters

    play(story)


def test_fetch_that_finds_many_aborted_transactions_looks_on() -> None:
    """A fetch does so much reading at once; it then goes on without waiting for new records."""

    async def story(scene: Scene) -> None:
        _configure(scene, share_isolation_level="read_committed")
        writer = Writer(scene.topic, 1)
        for _ in range(12):
            writer.write(b"x" * 300_000)
            writer.end(is_committed=False)
        scene.append(b"a")
        got = await asyncio.wait_for(scene.member("m").fetch(0, wait_ms=500_000), 5)
        assert got == {0: Got(NONE, NONE, [(24, 24, 1)], [b"a"])}

    play(story)


def test_fetch_of_a_session_that_ended_acquires_nothing() -> None:
    """A session is ended over another connection while its fetch waits: others get the records."""

    async def story(scene: Scene) -> None:
        ann, ben = scene.member("ann"), scene.member("ben")
        waiting = asyncio.create_task(ann.fetch(0, wait_ms=50_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        elsewhere = scene.member("ann")
        await elsewhere.acknowledge({}, epoch=-1)
        scene.append(b"a")
        assert await ben.fetch(0, wait_ms=50_000) == {0: Got(NONE, NONE, [(0, 0, 1)], [b"a"])}
        assert await waiting == {}

    play(story)


def test_start_moves_over_markers_durably() -> None:
    """What no member gets leaves no lag when it is at the end of the log."""

    async def story(scene: Scene) -> None:
        writer = Writer(scene.topic, 1)
        writer.write(b"a")
        member = scene.member("m")
        assert await member.fetch(0) == {0: Got(NONE, NONE, [(0, 0, 1)], [b"a"])}
        await member.acknowledge({0: [(0, 0, [ACCEPT])]})
        writer.end(is_committed=True)
        assert await member.fetch() == {}
        (shared,) = scene.shared()
        await until(lambda: shared.writes.is_done)
        (runtime, *_) = [one for one in scene.node.share_state.runtimes if shared.key in one.shard.states]
        state = runtime.shard.states[shared.key]
        assert state.start_offset + state.delivery_complete_count == 2

    play(story)


def test_start_moves_over_markers_that_came_while_an_acknowledgement_was_written() -> None:
    """The write of the acknowledgement did not know of them."""

    async def story(scene: Scene) -> None:
        writer = Writer(scene.topic, 1)
        writer.write(b"a")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        (shared,) = scene.shared()
        held = _Held(scene.node.share_state)
        shared.writes._node = _Node(scene.node, held)
        answer = asyncio.create_task(ann.acknowledge({0: [(0, 0, [ACCEPT])]}))
        await until(lambda: bool(held.held))
        writer.end(is_committed=True)
        assert await ben.fetch(0) == {}
        held.held.pop()(StateResult())
        await answer
        await until(lambda: shared.writes.is_done)
        assert _persisted_start(scene, shared.key) == 2

    play(story)


def _persisted_start(scene: Scene, key: ShareKey) -> int:
    (found,) = [one.shard.states[key] for one in scene.node.share_state.runtimes if key in one.shard.states]
    return found.start_offset


def test_what_nobody_waits_for_is_written_again() -> None:
    """The delivery count of a record whose lock ended survives a failed write."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        (shared,) = scene.shared()
        real, held = scene.node.share_state, _Held(scene.node.share_state)
        shared.writes._node = _Node(scene.node, held)
        await until(lambda: bool(held.held))
        ann.disconnect()
        shared.writes._node = _Node(scene.node, real)
        held.held.pop()(StateResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert not shared.is_idle
        await until(lambda: shared.is_idle)
        shared.discard(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert await scene.member("ben").fetch(0, wait_ms=50_000) == {0: Got(NONE, NONE, [(0, 0, 2)], [b"a"])}

    play(story, group_share_record_lock_duration_ms="6000")


def test_share_partition_that_has_not_read_its_state_is_not_forgotten() -> None:
    """The first delivery may come right after the state was initialized: nobody else may get the records."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann = scene.member("ann")
        scene.node.shares._node = _Node(scene.node, held := _Held(None, holds_reads=True))
        fetch = asyncio.create_task(ann.fetch(0, wait_ms=50_000))
        await until(lambda: bool(held.held))
        (shared,) = scene.shared()
        scene.node.shares.forget(GroupId("g"), shared.topic_key)
        held.held.pop()(ReadStateResult(start_offset=0))
        assert await fetch == {0: Got(NONE, NONE, [(0, 0, 1)], [b"a"])}
        assert scene.shared() == [shared]

    play(story)


def test_a_share_partition_whose_log_is_opened_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody fetches the group, so what is idle is given up each second. A recovery takes longer."""

    async def story(scene: Scene) -> None:
        shares, group_id = scene.node.shares, GroupId("g")
        opened: Future[None] = Future()

        def slowly(partition: Partition) -> Iterator[Any]:
            if partition.index == 1:
                yield opened

        monkeypatch.setattr(delivery, "opened_aside", slowly)

        def borrow(index: int) -> RequestSteps[int]:
            yield from shares.borrow(group_id, [(T, index)])
            return index

        ended: list[int] = []
        failures: list[Exception] = []
        for index in (0, 1):
            scene.node.request_work.run(borrow(index), Job("test"), ended.append, failures.append)
        await until(lambda: ended == [0])
        await until(lambda: shares.find(group_id, (T, 0)) is None)
        opened.set_result(None)
        await until(lambda: ended == [0, 1])
        shared = shares.find(group_id, (T, 1))
        assert shared is not None and not shared.error
        await until(lambda: shared.is_loaded)
        assert not failures

    play(story)


def test_sessions_that_come_and_go_add_no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share-partition that cannot be given up is looked at once a second, however many sessions ended."""

    async def story(scene: Scene) -> None:
        shares, group_id = scene.node.shares, GroupId("g")
        scene.append(b"a")
        for number in range(20):
            member = scene.member(f"m{number}")
            await member.fetch(0)
            (shared,) = scene.shared()
            shared.holds = 1  # as an administrator does
            await member.fetch(epoch=-1)
        timers = _Timers(scene.node, scene.node.share_state)
        monkeypatch.setattr(shares, "_node", timers)
        await until(lambda: bool(timers.due))
        await asyncio.sleep(0.1)  # all timers from before have ended
        assert len(timers.due) == 1
        shared.holds = 0
        timers.due.pop()()
        await until(lambda: shares.find(group_id, (T, 0)) is None)

    play(story)


def test_fetch_of_many_partitions_looks_at_some_in_each_step() -> None:
    """Whichever partition has records, before the fetch or while it waits, and nothing waits afterwards."""

    async def story(scene: Scene) -> None:
        many = TopicId(b"m" * 16)
        scene.node.topics.create(NewTopic("many", many, 3 * AT_ONCE), scene.node.system_time())
        replies: list[Any] = []
        for index in range(3 * AT_ONCE):
            key = ShareKey(GroupId("g"), many, index)
            command = InitializeState(key=key, state_epoch=1, start_offset=0)
            scene.node.share_state.submit(key.name, command, replies.append)
        await until(lambda: len(replies) == 3 * AT_ONCE)
        topic = scene.node.topics.by_id(many)
        assert topic is not None
        member = scene.member("m")
        first = asyncio.create_task(member.fetch(*range(3 * AT_ONCE), topic_id=many, wait_ms=500_000))
        await until(lambda: sum(bool(one.waiting) for one in scene.shared()) == 3 * AT_ONCE)
        last = 3 * AT_ONCE - 1
        for index in (0, last):
            assert topic.partition(index).append(batch(b"a"), scene.node.system_time()).error == NONE
            sync(topic, index)
            topic.partition(index).advance()
        delivered = Got(NONE, NONE, [(0, 0, 1)], [b"a"])
        found = await first
        assert found in ({0: delivered}, {last: delivered})
        await until(lambda: not any(one.waiting for one in scene.shared()))
        (other,) = {0, last} - set(found)
        assert await member.fetch() == {other: delivered}
        late = asyncio.create_task(member.fetch(wait_ms=500_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        member.disconnect()
        await until(lambda: not any(one.waiting for one in scene.shared()))
        late.cancel()

    play(story)


def test_response_has_a_limited_number_of_partitions() -> None:
    """Partitions that do not exist are told some at a time."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        member = scene.member("m")
        refused = await member.fetch(*range(10, 30 + MOST_PARTITIONS), 0)
        assert len(refused) == MOST_PARTITIONS
        assert {one.error for one in refused.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        errors = await member.acknowledge({index: [(0, 0, [ACCEPT])] for index in range(10, 130)}, epoch=-1)
        assert set(errors.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(errors) == 120
        assert not scene.node.shares.sessions

    play(story)


def test_acknowledgements_below_the_start_are_not_counted() -> None:
    """They are ignored, and so are not in the metric; one type for all, or one for each."""
    counts = ShareCounts()
    counts.count_acknowledged(
        [
            AcknowledgementBatch(0, 3, [ACCEPT]),
            AcknowledgementBatch(4, 9, [ACCEPT]),
            AcknowledgementBatch(10, 12, [ACCEPT, REJECT, ACCEPT]),
        ],
        6,
    )
    assert (counts.acknowledged[ACCEPT], counts.acknowledged[REJECT]) == (4 + 2, 1)
    counts.count_acknowledged([AcknowledgementBatch(10, 12, [REJECT, ACCEPT, ACCEPT])], 11)
    assert (counts.acknowledged[ACCEPT], counts.acknowledged[REJECT]) == (8, 1)


def test_a_member_that_left_does_not_keep_what_could_not_be_acknowledged() -> None:
    """Its write fails after its connection was lost: others get the record before its lock ends."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        (shared,) = scene.shared()
        held = _Held(scene.node.share_state)
        shared.writes._node = _Node(scene.node, held)
        answer = asyncio.create_task(ann.acknowledge({0: [(0, 0, [ACCEPT])]}))
        await until(lambda: bool(held.held))
        waiting = asyncio.create_task(ben.fetch(0, wait_ms=100_000_000))
        ann.disconnect()
        shared.writes._node = scene.node
        held.held.pop()(StateResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        assert await waiting == {0: Got(NONE, NONE, [(0, 0, 2)], [b"a"])}
        answer.cancel()

    play(story)


def test_a_lowered_delivery_limit_counts_at_once() -> None:
    """What was delivered as often as it allows is not delivered once more."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        scene.append(b"b")
        ann = scene.member("ann")
        for _ in range(3):
            await ann.fetch(0, most=1, batch_size=1)
            await ann.acknowledge({0: [(0, 0, [RELEASE])]})
        (shared,) = scene.shared()
        _configure(scene, share_delivery_count_limit="3")
        assert (await ann.fetch(0))[0].acquired == [(1, 1, 1)]
        assert shared.machine is not None
        assert shared.machine.start_offset == 1

    play(story)


def test_many_share_partitions_follow_new_settings_in_parts() -> None:
    """A change of a group's settings reaches them all, but not in one iteration of the loop."""

    async def story(scene: Scene) -> None:
        count = 60
        wide = TopicId(b"w" * 16)
        scene.node.topics.create(NewTopic("wide", wide, count), scene.node.system_time())
        replies: list[Any] = []
        for index in range(count):
            key = ShareKey(GroupId("g"), wide, index)
            command = InitializeState(key=key, state_epoch=1, start_offset=0)
            scene.node.share_state.submit(key.name, command, replies.append)
        await until(lambda: len(replies) == count)
        await scene.member("m").fetch(*range(count), topic_id=wide)
        assert len(scene.shared()) == count

        def following() -> int:
            return sum(one.settings.limits.lock_duration_ms == 15_000 for one in scene.shared())

        _configure(scene, share_record_lock_duration_ms="15000")
        assert 0 < following() < count
        await until(lambda: following() == count)

    play(story)
