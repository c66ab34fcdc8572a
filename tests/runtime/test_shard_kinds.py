"""A kind of shard that the server does not have, over a local log and over one in memory."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.runtime.memory_log import Broker, MemoryLog
from tests.runtime.register_life import RegisterLife, begin, new_place, run
from tests.runtime.registers import End, Get, GetAll, Later, Put
from tests.waiting import until

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch, iterate_records
from headgate.log.markers import EndMarker, encode_marker
from headgate.runtime import record_batches, shard_reloading
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.local_log import LocalLog

EACH_LOG = pytest.mark.parametrize("kind", ["local", "memory"])
ONE, OTHER = Producer(4000, 3), Producer(4001, 0)
NONE = ErrorCode.NONE


def batches_of(life: RegisterLife) -> list[Any]:
    """Return the batches of the log."""
    if isinstance(life.place, Broker):
        return list(life.place.batches)
    assert isinstance(life.log, LocalLog)
    return list(life.log.partition.log.batches(0))


@EACH_LOG
def test_what_is_put_is_there_after_a_kill(kind: str) -> None:
    """The runtime runs commands, records and deadlines of any kind."""

    async def scenario() -> None:
        life = await begin(new_place(kind))
        assert await life.ask(Put({"a": 1, "b": 2})) is NONE
        assert await life.ask(Put({"a": 3, "c": 4})) is NONE
        assert await life.ask(Put({"b": None})) is NONE
        assert await life.ask(Get("a")) == 3
        assert await life.ask(Later(5)) is None
        life.kill()
        again = await begin(life.place)
        assert await again.values() == {"a": 3, "c": 4}
        again.kill()

    run(scenario)


@EACH_LOG
def test_a_transaction_counts_when_it_is_committed(kind: str) -> None:
    """An open or aborted transaction has no effect, nor has one on later writes; before and after a load."""

    async def scenario() -> None:
        life = await begin(new_place(kind))
        await life.ask(Put({"a": 1, "b": 1, "c": 1}))
        await life.ask(Put({"a": 2, "b": 2}, ONE))
        await life.ask(Put({"c": 2, "d": 2}, OTHER))
        await life.ask(Put({"b": 3}))
        before = {"a": 1, "b": 3, "c": 1}
        assert await life.values() == before
        life.kill()
        life = await begin(life.place)
        assert await life.values() == before
        assert await life.ask(End(ONE, is_committed=True)) is NONE
        assert await life.ask(End(OTHER, is_committed=False)) is NONE
        assert await life.ask(End(OTHER, is_committed=True)) is ErrorCode.INVALID_TXN_STATE
        after = {"a": 2, "b": 3, "c": 1}
        assert await life.values() == after
        life.kill()
        life = await begin(life.place)
        assert await life.values() == after
        life.kill()

    run(scenario)


@EACH_LOG
def test_records_of_a_transaction_have_batches_of_their_own(kind: str) -> None:
    """The batches are in order between those of the same turn, as Kafka writes them; so are markers."""

    async def scenario() -> None:
        life = await begin(new_place(kind))
        await life.ask(Put({"a": 0}, ONE))
        replies = [
            life.submit(one)
            for one in (
                Put({"a": 1}),
                Put({"b": 2}),
                Put({"b": 3, "c": 3}, ONE),
                End(ONE, is_committed=True),
                Put({"c": 4}),
                Put({"d": 5}),
            )
        ]
        assert await asyncio.gather(*replies) == [NONE] * 6
        found = [
            (header.record_count, header.producer_id, header.is_transactional, header.is_control)
            for header, _ in batches_of(life)
        ]
        assert found == [
            (1, 4000, True, False),
            (2, -1, False, False),
            (2, 4000, True, False),
            (1, 4000, True, True),
            (2, -1, False, False),
        ]
        assert await life.values() == {"a": 1, "b": 3, "c": 4, "d": 5}
        life.kill()
        life = await begin(life.place)
        assert await life.values() == {"a": 1, "b": 3, "c": 4, "d": 5}
        life.kill()

    run(scenario)


def test_a_transaction_may_need_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them have the producer's id, and none is a run: the marker decides whether they count."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 100)

    async def scenario() -> None:
        life = await begin(new_place("local"))
        await life.ask(Put({f"key {number}": number for number in range(20)}, ONE))
        headers = [header for header, _ in batches_of(life)]
        assert len(headers) > 5
        assert {header.producer_id for header in headers} == {4000}
        assert all(
            not record.headers for _, batch in batches_of(life) for _, record in iterate_records(batch)
        )
        await life.ask(End(ONE, is_committed=True))
        life.kill()
        life = await begin(life.place)
        assert len(await life.values()) == 20
        life.kill()

    run(scenario)


def test_a_checkpoint_holds_open_transactions() -> None:
    """A kind with an image gets checkpoints if its log keeps them; the log after them is applied."""

    async def scenario() -> None:
        life = await begin(new_place("local"))
        await life.ask(Put({"a": 1}))
        await life.ask(Put({"a": 2}, ONE))
        CheckpointWriter(life.runtime).write_at_once()
        await life.ask(Put({"b": 1}))
        await life.ask(End(ONE, is_committed=True))
        life.kill()
        life = await begin(life.place)
        assert life.runtime.checkpoint_position == 2
        assert await life.values() == {"a": 2, "b": 1}
        life.kill()

    run(scenario)


def test_a_log_may_keep_no_checkpoints() -> None:
    """The whole log is then read."""

    async def scenario() -> None:
        life = await begin(new_place("memory"))
        assert life.log.checkpoints is None
        await life.ask(Put({"a": 1}))
        life.kill()
        life = await begin(life.place)
        assert life.runtime.checkpoint_position == 0
        assert await life.values() == {"a": 1}

    run(scenario)


def test_a_log_that_compacts_itself_takes_a_commit_as_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is written that compaction could take apart; a commit too large for a batch is refused."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 100)

    async def scenario() -> None:
        broker = new_place("memory", compacts=True)
        assert isinstance(broker, Broker)
        life = await begin(broker)
        assert isinstance(life.log, MemoryLog)
        life.log.max_batch_bytes = 2000
        values = {f"key {number}": number for number in range(20)}
        assert await life.ask(Put(values)) is NONE
        assert [header.record_count for header, _ in broker.batches] == [20]
        many = {f"key {number}": -number for number in range(200)}
        assert await life.ask(Put(many)) is ErrorCode.UNKNOWN_SERVER_ERROR
        await life.ask(Put({"key 3": 30}))
        assert broker.compact() == 1
        life.kill()
        life = await begin(broker)
        assert await life.values() == values | {"key 3": 30}

    run(scenario)


def test_positions_may_jump() -> None:
    """With markers of others in between, replies wait for the actual positions; a load finds all records."""

    async def scenario() -> None:
        broker = Broker(Random(7), slowest_seconds=0.002)
        broker.interleaves = 0.5
        life = await begin(broker)
        for number in range(40):
            waiting = [life.submit(Put({f"k{number % 7}": number, f"{index}": number})) for index in range(3)]
            told = await asyncio.wait_for(asyncio.gather(*waiting), 10)
            assert told == [NONE] * 3
            arrived = sum(header.record_count for header, _ in broker.batches if not header.is_control)
            assert arrived == 6 * (number + 1)
        values = await life.values()
        assert life.runtime.position <= broker.end
        assert any(header.is_control for header, _ in broker.batches)
        life.kill()
        life = await begin(broker)
        assert await life.values() == values

    run(scenario)


def test_no_reply_leaves_before_the_log_has_what_it_tells() -> None:
    """This holds also after batches of others, when the expected offset is durable before our batch."""

    async def scenario() -> None:
        broker = Broker(Random(7), slowest_seconds=0.01)
        broker.interleaves = 1.0
        life = await begin(broker)
        replies: list[tuple[int, int]] = []

        def note(number: int, reply: object) -> None:
            replies.append((number, ours_in(broker)))

        for number in range(10):
            reply = life.submit(Put({"a": number}))
            reply.add_done_callback(partial(note, number))
            await asyncio.sleep(0.001)
        await until(lambda: len(replies) == 10, "all are answered")
        assert all(arrived > number for number, arrived in replies)

    run(scenario)


def test_markers_of_others_reach_the_shard() -> None:
    """Another coordinator ends a transaction in our log: it counts at once, and after a load."""

    async def scenario() -> None:
        broker = new_place("memory")
        assert isinstance(broker, Broker)
        life = await begin(broker)
        await life.ask(Put({"a": 1}, ONE))
        broker.arrive(encode_marker(EndMarker(True, 5), *ONE, 0))
        life.log.on_others(broker.batches[-1:])
        assert await life.values() == {"a": 1}
        await life.ask(Put({"b": 2}))
        life.kill()
        life = await begin(broker)
        assert await life.values() == {"a": 1, "b": 2}

    run(scenario)


def test_others_that_write_while_a_shard_is_loaded_are_heard() -> None:
    """Batches after the claimed end are applied when the load is done."""

    async def scenario() -> None:
        broker = new_place("memory", slowest_seconds=0.001)
        assert isinstance(broker, Broker)
        life = await begin(broker)
        await life.ask(Put({"a": 1}, ONE))
        life.kill()
        life = RegisterLife(broker)
        loading = asyncio.ensure_future(life.runtime.load())
        await until(lambda: broker.writer is life.log, "the log is claimed")
        broker.arrive(encode_marker(EndMarker(True, 5), *ONE, 0))
        life.log.on_others(broker.batches[-1:])
        await loading
        assert await life.values() == {"a": 1}

    run(scenario)


def test_a_shard_that_is_fenced_is_given_up() -> None:
    """Waiting requests get NOT_COORDINATOR, and no batch of a fenced writer arrives."""

    async def scenario() -> None:
        broker = new_place("memory", slowest_seconds=0.005)
        assert isinstance(broker, Broker)
        first = await begin(broker)
        assert await first.ask(Put({"a": 1})) is NONE
        unsure = first.submit(Put({"a": 2}))
        second = await begin(broker)
        assert await second.ask(Put({"b": 1})) is NONE
        assert await asyncio.wait_for(unsure, 10) in (NONE, ErrorCode.NOT_COORDINATOR)
        await until(lambda: first.runtime.is_fenced, "the first one hears of it")
        assert await first.ask(Put({"a": 5})) is ErrorCode.NOT_COORDINATOR
        values = await second.values()
        assert values in ({"a": 1, "b": 1}, {"a": 2, "b": 1})
        await first.runtime.load_again()
        assert await first.values() == values
        await until(lambda: second.runtime.is_fenced, "now the second one is fenced")

    run(scenario)


def test_a_load_that_another_node_interrupted_has_no_effect_on_the_next_one() -> None:
    """The shard is active when the last load ends, and has what the other node wrote."""

    async def scenario() -> None:
        broker = new_place("memory", slowest_seconds=0.005)
        assert isinstance(broker, Broker)
        life = await begin(broker)
        await asyncio.gather(*(life.ask(Put({f"r{number}": number})) for number in range(10)))
        broker.batches += [broker.batches[0]] * 200  # so that a load lasts longer than the fencing
        life.kill()
        first = RegisterLife(broker)
        interrupted = asyncio.ensure_future(first.runtime.load())
        await until(lambda: broker.writer is first.log, "the log is claimed")
        other = MemoryLog(broker, "another node")
        await other.claim()
        other.append([encode_batch([Record(b"\0\0x", b"1")])])
        await until(lambda: first.runtime.is_fenced, "the first load hears of it")
        assert not interrupted.done()
        again = asyncio.ensure_future(first.runtime.load_again())
        await interrupted
        assert again.done() or not first.runtime.is_active
        await again
        assert await first.ask(Put({"y": 2})) is NONE
        assert {"x", "y"} <= (await first.values()).keys()

    run(scenario)


def test_what_is_lost_on_the_way_is_reported_and_the_log_claimed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting requests get a retriable error; the shard is loaded from the log, and continues."""
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)

    async def scenario() -> None:
        broker = new_place("memory", slowest_seconds=0.002)
        assert isinstance(broker, Broker)
        life = await begin(broker)
        assert await life.ask(Put({"a": 1})) is NONE
        broker.refuses = True
        assert await life.ask(Put({"a": 2})) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.refuses = False
        await until(lambda: life.runtime.is_active, "it is loaded again")
        assert await life.values() == {"a": 1}
        assert await life.ask(Put({"a": 3})) is NONE

    run(scenario)


def test_a_log_of_another_kind_is_not_read() -> None:
    """Records of another kind count as damage: the shard is refused, with a message that names the log."""

    async def scenario() -> None:
        broker = new_place("memory")
        assert isinstance(broker, Broker)
        broker.arrive(encode_batch([Record(b"\0\1what", b"1")]))
        life = RegisterLife(broker)
        await life.runtime.load_if_possible()
        assert await life.ask(GetAll()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        life.runtime.close()

    run(scenario)


def ours_in(broker: Broker) -> int:
    """Return how many records of ours a broker has."""
    return sum(header.record_count for header, _ in broker.batches if not header.is_control)
