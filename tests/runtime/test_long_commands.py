"""Commands with long records: encoded in slices and written in parts, and still all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.memory_log import Broker, MemoryLog
from tests.runtime.register_life import RegisterLife, begin, new_place, run
from tests.runtime.registers import Get, Put, Value, encode

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import iterate_records
from headgate.log.header import read_header
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records.runs import RunPlace, run_place
from headgate.runtime import record_batches, shard_runtime
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.record_batches import RecordBatches

EACH_LOG = pytest.mark.parametrize("kind", ["local", "memory"])
NONE = ErrorCode.NONE
MANY = {f"key {number}": number for number in range(60)}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches of some records, and writes of some batches."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 100)
    monkeypatch.setattr(shard_runtime, "MOST_WRITTEN_BYTES", 400)


async def begin_long(place: MemoryFileSystem | Broker) -> RegisterLife:
    """Start a run in which each slice takes one step."""
    life = await begin(place, are_long=True)
    times = count()
    life.runtime.seconds = lambda: float(next(times))
    return life


async def once(condition: Callable[[], bool]) -> None:
    """Wait, one iteration of the loop after the other, until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


@EACH_LOG
def test_other_commands_wait_while_a_long_one_is_encoded_and_the_loop_goes_on(kind: str) -> None:
    """Nobody sees a part of it; what comes later is decided later."""

    async def scenario() -> None:
        life = await begin_long(new_place(kind))
        turns = 0

        async def rounds() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.get_running_loop().create_task(rounds())
        submitted = (Put({"key 3": -1}), Put(MANY), Put({"key 4": -2}), Get("key 3"), Get("key 4"))
        replies = await asyncio.gather(*map(life.ask, submitted))
        assert replies == [NONE, NONE, NONE, 3, -2]
        assert turns > 2 * len(MANY)
        beside.cancel()
        life.kill()
        again = await begin(life.place)
        assert await again.values() == MANY | {"key 4": -2}
        again.kill()

    run(scenario)


@EACH_LOG
def test_a_long_command_is_written_in_parts_and_answered_after_the_last_one(kind: str) -> None:
    """Commands that come in between are written behind it, and answered too."""

    async def scenario() -> None:
        life = await begin_long(new_place(kind))
        if isinstance(life.place, Broker):
            life.place.interleaves = 0.5
        written = life.writes.written
        all_of_it = life.submit(Put(MANY))
        await once(lambda: len(written) > 2)
        await once(lambda: life.runtime.is_finishing)
        assert not all_of_it.done()
        between = life.submit(Put({"key 3": -1}))
        for reply in (all_of_it, between):
            assert await asyncio.wait_for(reply, 10) is NONE
        assert len(written) > 8 and max(written) < 700
        assert not life.runtime.is_finishing
        life.kill()
        again = await begin(life.place)
        assert await again.values() == MANY | {"key 3": -1}
        again.kill()

    run(scenario)


@EACH_LOG
def test_a_crash_between_two_parts_leaves_nothing_of_the_command(kind: str) -> None:
    """The parts that were written are a torn run, which counts for nothing."""

    async def scenario() -> None:
        life = await begin_long(new_place(kind))
        assert await life.ask(Put({"key 3": -1})) is NONE
        written = life.writes.written
        written.clear()
        unfinished = life.submit(Put(MANY))
        await once(lambda: len(written) > 2)
        life.kill()
        again = await begin(life.place)
        assert await again.values() == {"key 3": -1}
        assert not unfinished.done() or unfinished.result() is not NONE
        assert await again.ask(Put(MANY)) is NONE
        again.kill()
        last = await begin(life.place)
        assert await last.values() == MANY
        last.kill()

    run(scenario)


def test_a_checkpoint_begins_between_two_commands() -> None:
    """A load from the middle of a command would not know its first records."""

    async def scenario() -> None:
        life = await begin_long(new_place("local"))
        written = life.writes.written
        all_of_it = life.submit(Put(MANY))
        await once(lambda: len(written) > 2)

        async def at_once(work: Callable[[], None]) -> None:
            work()

        await CheckpointWriter(life.runtime).write(at_once)
        assert all_of_it.done()
        assert life.runtime.checkpoint_position == len(MANY)
        life.kill()
        again = await begin(life.place)
        assert again.runtime.checkpoint_position == len(MANY)
        assert await again.values() == MANY
        again.kill()

    run(scenario)


@pytest.mark.parametrize("writes", [0, 3])
def test_a_stop_writes_all_of_a_command_that_is_encoded_or_written(writes: int) -> None:
    """And a checkpoint at the stop has all of it."""

    async def scenario() -> None:
        life = await begin_long(new_place("local"))
        written = life.writes.written
        all_of_it = life.submit(Put(MANY))
        await once(lambda: len(written) >= writes and life.runtime.is_finishing)
        assert not all_of_it.done()
        life.runtime.close()
        CheckpointWriter(life.runtime).write_at_once()
        life.kill()
        again = await begin(life.place)
        assert again.runtime.checkpoint_position == len(MANY)
        assert await again.values() == MANY
        again.kill()

    run(scenario)


def test_a_long_command_with_a_record_that_is_too_large_is_refused() -> None:
    """Nothing of it counts, and the next command does."""

    async def scenario() -> None:
        life = await begin_long(new_place("memory"))
        assert isinstance(life.log, MemoryLog)
        life.log.max_batch_bytes = 1000
        too_large = MANY | {"k" * 2000: 1}
        refused, after = life.submit(Put(too_large)), life.submit(Put({"a": 1}))
        assert await asyncio.wait_for(refused, 10) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await asyncio.wait_for(after, 10) is NONE
        assert await life.values() == {"a": 1}
        life.kill()

    run(scenario)


@pytest.mark.plants_failures("shard")
def test_a_failed_write_of_a_part_loses_the_whole_command() -> None:
    """The shard is loaded from its log, without the parts that were written."""

    async def scenario() -> None:
        life = await begin_long(new_place("local"))
        assert await life.ask(Put({"key 3": -1})) is NONE
        written = life.writes.written
        written.clear()
        all_of_it = life.submit(Put(MANY))
        await once(lambda: len(written) > 2)
        life.writes.failure = RuntimeError("injected")
        assert await asyncio.wait_for(all_of_it, 10) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        life.writes.failure = None
        await once(lambda: life.runtime.is_active)
        assert await life.values() == {"key 3": -1}
        life.kill()

    run(scenario)


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=9), min_size=1, max_size=5), st.booleans())
def test_records_added_in_steps_are_the_same_batches(commands: list[list[int]], is_in_steps: bool) -> None:
    """Also with others added at once before and after them, and batches taken in between."""
    now = Millis(5)
    one, other = RecordBatches(encode), RecordBatches(encode)
    position = 0
    parts: list[bytearray] = []
    for number, sizes in enumerate(commands):
        changes = [Value("k" * size, size) for size in sizes]
        assert one.add(changes, position, now) == len(changes)
        if is_in_steps == bool(number % 2):
            for _ in other.adding(changes, position, now):
                parts += other.take(150)
        else:
            other.add(changes, position, now)
        position += len(changes)
        left = position - sum(read_header(batch).record_count for batch in parts)
        assert other.record_count == left
    while rest := other.take(1):
        assert len(rest) == 1
        parts += rest
    assert records(parts) == records(one.take())


def records(batches: Sequence[bytearray]) -> list[tuple[bytes | None, bytes | None, RunPlace | None]]:
    """Return all records of batches, with their places in runs."""
    found = (record for batch in batches for _, record in iterate_records(batch))
    return [(record.key, record.value, run_place(record.headers)) for record in found]


def test_a_transaction_is_not_added_in_steps() -> None:
    """Its records are not encoded by the steps, also of a kind whose records are long."""

    async def scenario() -> None:
        life = await begin_long(new_place("local"))
        assert await life.ask(Put(MANY, Producer(4000, 3))) is NONE
        assert await life.values() == {}
        life.kill()

    run(scenario)
