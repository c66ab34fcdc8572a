"""Transactional offsets on a real log: they survive crashes, checkpoints and reloads as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import numpy as np
import pytest
from tests.log.compacting import drive
from tests.runtime.checkpointed import LATER_MS, TOPIC, Life, begin, run

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    CommitTransactionalOffsets,
    EndTransaction,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.core.offsets.pending import STEP
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.log.compaction import CompactionOrder, compact
from headgate.records.run_completeness import RunCompleteness

pytestmark = pytest.mark.usefixtures("small_parts")
NONE = ErrorCode.NONE
WIDE = 10_000


async def commit_in(life: Life, producer: int, group: str, partition: int, offset: int) -> None:
    """Commit an offset in the transaction of a producer; it counts as acknowledged at the end."""
    asked = CommitOffsets(
        GroupId(group), [(TOPIC, [OffsetToCommit(partition, offset, -1, "")])], is_transactional=True
    )
    result = await life.submit(CommitTransactionalOffsets(asked, Producer(producer, 0)))
    assert result == CommitResult(NONE)


async def end(life: Life, producer: int, *, is_committed: bool = True) -> None:
    assert await life.submit(EndTransaction(TransactionEnd(Producer(producer, 0), is_committed))) is NONE


def wide(producer: int, group: str, count: int, base: int = 0) -> CommitTransactionalOffsets:
    numbers = np.arange(count)
    columns = OffsetColumns(numbers, numbers + base, np.full(count, -1), "")
    asked = CommitOffsets(GroupId(group), [(TOPIC, columns)], is_transactional=True)
    return CommitTransactionalOffsets(asked, Producer(producer, 0))


class Model:
    """Kafka's rule, one command at a time."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, int], tuple[int, int]] = {}
        self.pending: dict[int, dict[tuple[str, int], tuple[int, int]]] = {}
        self.time = 0

    def commit(self, key: tuple[str, int], offset: int, producer: int | None = None) -> None:
        self.time += 1
        of = self.committed if producer is None else self.pending.setdefault(producer, {})
        of[key] = self.time, offset

    def end(self, producer: int, is_committed: bool) -> None:
        for key, one in self.pending.pop(producer, {}).items():
            if is_committed and one > self.committed.get(key, (-1, 0)):
                self.committed[key] = one

    def delete(self, key: tuple[str, int]) -> None:
        for of in (self.committed, *self.pending.values()):
            of.pop(key, None)

    def offsets(self) -> dict[tuple[str, int], int]:
        return {key: offset for key, (_, offset) in self.committed.items()}

    def waiting(self) -> set[tuple[int, str, int]]:
        return {(producer, *key) for producer, offsets in self.pending.items() for key in offsets}


def compact_closed(life: Life) -> None:
    """Compact what is before the first open transaction, as the server does; remove all tombstones."""
    log = life.partition.log
    closed = log.segments.closed
    if closed:
        end = min(closed[-1].next_offset, life.partition.last_stable_offset)
        order = CompactionOrder(
            now_ms=LATER_MS, delete_retention_ms=0, not_beyond=end, new_completeness=RunCompleteness
        )
        drive(compact(log, order))


def waiting_in(life: Life) -> set[tuple[int, str, int]]:
    copied = life.runtime.shard.pending.copy()
    return {
        (producer.producer_id, group_id, partition)
        for producer, (group_id, _), partitions in copied
        for partition in partitions
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_is_that_of_kafkas_rule(seed: int) -> None:
    """Commits, markers, deletions, checkpoints with commits between their parts, compactions and crashes."""
    chance = Random(seed)

    async def scenario() -> None:
        life, model = await begin(), Model()

        async def act(work: Callable[[], None] = lambda: None) -> None:
            work()
            group, partition, offset = chance.choice("ab"), chance.randrange(4), chance.randrange(1000)
            producer = chance.randrange(3)
            match chance.choice(["commit", "in", "in", "in", "end", "delete"]):
                case "commit":
                    await life.commit(group, partition, offset)
                    model.commit((group, partition), offset)
                case "in":
                    await commit_in(life, producer, group, partition, offset)
                    model.commit((group, partition), offset, producer)
                case "end":
                    is_committed = chance.random() < 0.7
                    await end(life, producer, is_committed=is_committed)
                    model.end(producer, is_committed)
                case "delete" if life.runtime.shard.groups.find(GroupId(group)) is not None:
                    await life.delete(group, partition)
                    model.delete((group, partition))

        for _ in range(10):
            for _ in range(chance.randrange(16)):
                await act()
            if life.runtime.position and chance.random() < 0.5:
                await life.write(act)
            if chance.random() < 0.5:
                compact_closed(life)
            if chance.random() < 0.5:
                life.kill() if chance.random() < 0.5 else life.crash(chance)
                life = await begin(life.files)
            assert life.held() == model.offsets()
            assert waiting_in(life) == model.waiting()
        life.end()

    run(scenario)


def test_commands_of_one_iteration_share_a_write() -> None:
    """Plain commits, commits of two transactions and a marker, in their order, in batches of their own."""

    async def scenario() -> None:
        life = await begin()
        await asyncio.gather(
            life.commit("a", 0, 1),
            commit_in(life, 7, "a", 0, 2),
            commit_in(life, 8, "a", 1, 3),
            life.commit("a", 2, 4),
            end(life, 7),
            life.commit("a", 3, 5),
        )
        life.kill()
        again = await begin(life.files)
        assert again.held() == {("a", 0): 2, ("a", 2): 4, ("a", 3): 5}
        headers = [header for header, _ in again.partition.log.batches(0)]
        told = [(one.producer_id, one.is_transactional, one.is_control) for one in headers]
        plain = (-1, False, False)
        assert told == [plain, (7, True, False), (8, True, False), plain, (7, True, True), plain]
        again.end()

    run(scenario)


def test_a_wide_commit_spans_several_batches_of_its_transaction() -> None:
    """Columns on the way in and out; a crash between keeps it pending."""

    async def scenario() -> None:
        life = await begin()
        name = "a-group-with-a-long-name" * 5
        assert await life.submit(wide(7, name, WIDE)) == CommitResult(NONE)
        life.kill()
        life = await begin(life.files)
        assert (len(life.runtime.shard.pending), life.held()) == (WIDE, {})
        headers = [header for header, _ in life.partition.log.batches(0)]
        assert len(headers) > 1 and all(one.is_transactional for one in headers)
        await life.write()
        life.kill()
        life = await begin(life.files)
        assert life.runtime.checkpoint_position > 0
        await end(life, 7)
        await whole(life)
        assert life.held() == {(name, partition): partition for partition in range(WIDE)}
        life.end()

    run(scenario)


def slowly(life: Life) -> None:
    """Let each slice of the shard have one step."""
    times = count()
    life.runtime.seconds = lambda: float(next(times))


async def begin_to_end(life: Life, producer_id: int) -> asyncio.Task[None]:
    """End a transaction; return while it is being applied, which may be over before the answer comes."""
    ended = asyncio.get_running_loop().create_task(end(life, producer_id))
    while not life.runtime.is_finishing:
        await asyncio.sleep(0)
    return ended


async def whole(life: Life) -> None:
    """Wait until the shard has applied everything."""
    while life.runtime.is_finishing:
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_committed", [True, False])
def test_commands_wait_while_a_wide_transaction_is_applied_and_ended(is_committed: bool) -> None:
    """Nobody sees a part of it; what comes later is later, and other shards and connections go on."""

    async def scenario() -> None:
        life = await begin()
        slowly(life)
        turns = 0

        async def rounds() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.get_running_loop().create_task(rounds())
        replies = await asyncio.gather(
            life.submit(wide(7, "g", WIDE, base=5)),
            life.commit("g", 3, 1),
            end(life, 7, is_committed=is_committed),
            life.commit("g", 4, 2),
            life.submit(FetchOffsets(GroupId("g"), [(TOPIC, [3, 4, 5])])),
        )
        offsets = [one and one.offset for _, one in replies[-1].topics[0][1]]
        assert offsets == [1, 2, 10 if is_committed else None]
        assert turns > 2 * WIDE // STEP
        beside.cancel()
        await whole(life)
        held = life.held()
        assert len(held) == (WIDE if is_committed else 2)
        life.kill()
        again = await begin(life.files)
        assert again.held() == held
        again.end()

    run(scenario)


def test_a_checkpoint_waits_for_what_is_applied() -> None:
    """It would lack the offsets of a transaction that is being ended."""

    async def scenario() -> None:
        life = await begin()
        await life.submit(wide(7, "g", WIDE))
        await whole(life)
        slowly(life)
        ended = await begin_to_end(life, 7)
        await life.write()
        await ended
        life.kill()
        again = await begin(life.files)
        assert again.runtime.checkpoint_position == again.runtime.position
        assert len(again.held()) == WIDE
        again.end()

    run(scenario)


def test_a_checkpoint_that_has_begun_waits_for_what_is_applied_since() -> None:
    """Else the first part of the image would apply all of it at once, and hold the event loop."""

    async def scenario() -> None:
        life = await begin()
        await life.submit(wide(7, "g", WIDE))
        await whole(life)
        slowly(life)
        turns, turns_before, endings = 0, [], []

        async def execute(work: Callable[[], None]) -> None:
            work()
            turns_before.append(turns)
            if len(turns_before) == 1:
                endings.append(await begin_to_end(life, 7))

        async def rounds() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.get_running_loop().create_task(rounds())
        await life.write(execute)
        beside.cancel()
        await endings[0]
        assert turns_before[1] - turns_before[0] >= WIDE // STEP
        life.kill()
        again = await begin(life.files)
        assert again.runtime.checkpoint_position > 0
        assert len(again.held()) == WIDE
        again.end()

    run(scenario)


@pytest.mark.plants_failures("shard")
def test_a_shard_that_fails_while_it_finishes_is_loaded_and_refuses_what_waits() -> None:
    """The log has the marker; the load ends the transaction."""

    async def scenario() -> None:
        life = await begin()
        await life.submit(wide(7, "g", WIDE))
        await whole(life)
        slowly(life)
        await end(life, 7)
        assert life.runtime.is_finishing

        def fails() -> Iterator[None]:
            yield
            raise RuntimeError("injected")

        life.runtime.shard.unfinished.append(fails())
        waits = await life.submit(FetchOffsets(GroupId("g"), [(TOPIC, [3])]))
        assert waits is ErrorCode.COORDINATOR_NOT_AVAILABLE
        while not life.runtime.is_active:
            await asyncio.sleep(0.01)
        assert len(life.held()) == WIDE
        life.end()

    run(scenario)
