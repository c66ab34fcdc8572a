"""Unexpected failures in the runtime of a shard, injected at each place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.counting import Add, AnswerLater, Ask, Counter, Setup, run, setup
from tests.waiting import until

from headgate.api.contract import RequestSteps
from headgate.core.commands import Tick
from headgate.core.contract import Effects, Producer, Reply, Token
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records import GroupMetadata, OffsetCommit, Record
from headgate.runtime import failures, shard_reloading, shard_runtime
from headgate.runtime.failures import Where
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.quarantine import FIRST_SECONDS, Quarantine
from headgate.server.request_work import RequestWork
from headgate.shards.group_batches import TurnBatches


@dataclass
class Undecidable:
    """A command whose decision fails."""


@dataclass
class Unwritable:
    """A command that decides a record that cannot be encoded, and replies to all waiting requests."""


@dataclass
class Inapplicable:
    """A command that decides a record that cannot be applied."""


@dataclass
class TooLarge:
    """A command that decides a record of two megabytes."""


UNAPPLIED = "not to be applied"


class Faulty(Counter):
    """A counting shard that fails on these commands."""

    def __init__(self) -> None:
        super().__init__()
        self.failing_ticks = 0

    def handle(self, command: object, now: Millis, token: Token = 0) -> Effects[Record]:
        match command:
            case Undecidable():
                raise ZeroDivisionError("decided nothing")
            case Unwritable():
                record = OffsetCommit(GroupId("g"), TopicName("t"), 0, 1 << 70, -1, "", now)
                replies = [Reply(waiting, "never") for waiting in (*self.parked, token)]
                return Effects([record], replies)
            case Inapplicable():
                record = OffsetCommit(GroupId("g"), TopicName("t"), 0, 77, -1, UNAPPLIED, now)
                return Effects([record], [Reply(token, "never")])
            case TooLarge():
                large = GroupMetadata(
                    group_id=GroupId("g" * 30_000),
                    protocol_type="p" * 30_000,
                    generation=1,
                    protocol_name="n",
                    leader=None,
                    state_timestamp=now,
                    members=(),
                )
                return Effects([large] * 40, [Reply(token, "many")])
            case Tick() if self.failing_ticks:
                self.failing_ticks -= 1
                raise ZeroDivisionError("a timer failed")
        return super().handle(command, now, token)

    def apply(self, record: Record, position: int, producer: Producer | None = None) -> None:
        if isinstance(record, OffsetCommit) and record.metadata == UNAPPLIED:
            raise ZeroDivisionError("applied nothing")
        super().apply(record, position, producer)


def faulty(s: Setup) -> Faulty:
    """Make the runtime run a faulty shard from now on."""
    s.runtime._new_shard = Faulty
    shard = Faulty()
    shard.count = s.runtime.shard.count
    s.runtime.shard = shard
    return shard


@pytest.fixture(autouse=True)
def quick_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reloading, "RELOAD_DELAY_SECONDS", 0.01)


@pytest.mark.plants_failures("request")
@pytest.mark.parametrize("command", [Undecidable(), Unwritable()])
def test_a_request_that_cannot_be_decided_or_encoded_is_refused_alone(command: object) -> None:
    """Commands of the same turn, before and after it, are answered, and the log has their records."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            faulty(s)
            replies: list[object] = []
            for one in (Add(), command, Add(), command, Ask()):
                s.runtime.submit(one, replies.append)
            await until(lambda: len(replies) == 5, "all are answered", 10)
            assert replies.count(ErrorCode.UNKNOWN_SERVER_ERROR) == 2
            assert [one for one in replies if one is not ErrorCode.UNKNOWN_SERVER_ERROR] == [1, 2, 2]
            assert s.runtime.is_active
            assert s.partition.log.log_end_offset == 2
            assert failures.counts() == {Where.REQUEST: 2}

    run(scenario)


@pytest.mark.plants_failures("request")
def test_who_would_have_been_answered_besides_gets_a_retriable_error() -> None:
    """A parked request gets an error when the request that completes it is refused."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            shard = faulty(s)
            replies: list[object] = []
            s.runtime.submit(AnswerLater(), replies.append)
            assert await s.ask(Unwritable()) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            await until(lambda: not shard.parked, "the Tick answers it once more", 10)
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE], "an answer is given once"

    run(scenario)


@pytest.mark.plants_failures("shard")
def test_records_that_cannot_be_applied_fail_the_shard_over_and_their_group_is_refused() -> None:
    """The shard is loaded again. A client that repeats the command does not block other groups."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            faulty(s)
            assert await s.ask(Add()) == 1
            replies: list[object] = []
            s.runtime.submit(Inapplicable(), replies.append, "g")
            assert replies == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            for expected in range(2, 50):
                s.runtime.submit(Inapplicable(), replies.append, "g")
                assert replies.pop() is ErrorCode.UNKNOWN_SERVER_ERROR
                assert await s.ask(Add()) == expected
            assert failures.counts() == {Where.SHARD: 1}

    run(scenario)


@pytest.mark.plants_failures("request", "shard")
@pytest.mark.parametrize(
    ("command", "error"),
    [
        (Undecidable(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (Inapplicable(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_command_of_a_job_is_refused_as_that_of_a_request(command: object, error: ErrorCode) -> None:
    """A job has no connection that could be closed; the shard fails over all the same."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            faulty(s)
            replies: list[object] = []

            def steps() -> RequestSteps[None]:
                s.runtime.submit(command, replies.append, "g")
                yield None

            work = RequestWork(LoopWatch())
            ends: list[object] = []
            work.run(steps(), Job("test"), ends.append, ends.append)
            await until(lambda: bool(ends), "it has ended", 10)
            assert (replies, ends) == ([error], [None])
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            work.close()

    run(scenario)


@pytest.mark.interpreted
@pytest.mark.plants_failures("shard")
def test_a_write_that_fails_for_no_reason_of_the_disk_fails_the_shard_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shard does not stay active with positions that the log does not have."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            with monkeypatch.context() as patched:
                patched.setattr(TurnBatches, "take", lambda batches: 1 // 0)
                assert await s.ask(Add()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Add()) == 2

    run(scenario)


@pytest.mark.plants_failures("tick")
def test_a_tick_that_fails_neither_spins_nor_stops_the_other_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next Tick comes after a pause, and answers the waiting requests."""
    monkeypatch.setattr(shard_runtime, "TICK_PAUSE_SECONDS", 0.05)

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            faulty(s).failing_ticks = 3
            began = asyncio.get_running_loop().time()
            assert await s.ask(AnswerLater()) == "late"
            assert asyncio.get_running_loop().time() - began > 0.12
            assert failures.counts() == {Where.TICK: 3}

    run(scenario)


@pytest.mark.plants_failures("reply")
@pytest.mark.parametrize("waits", [True, False])
def test_a_reply_that_fails_keeps_no_other_reply_from_leaving(waits: bool) -> None:
    """This holds for replies that wait for the log and for immediate ones."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            replies: list[Any] = []
            if waits:
                s.runtime.submit(Add(), replies.append)
            s.runtime.submit(Ask(), lambda result: replies[99])
            s.runtime.submit(Ask(), replies.append)
            await until(lambda: len(replies) == 1 + waits, "the others are answered", 10)
            assert replies == [int(waits)] * (1 + waits)

    run(scenario)


@pytest.mark.plants_failures("shard")
def test_a_shard_that_cannot_be_loaded_for_no_reason_of_the_disk_is_tried_again() -> None:
    """Failures during the load are counted, and the shard is loaded in the end."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            assert await s.ask(Add()) == 1
            shards: list[Any] = [None, Counter]
            s.runtime._new_shard = lambda: shards.pop(0)() if len(shards) > 1 else shards[0]()
            s.runtime._fail("failed on purpose", None)
            await until(lambda: s.runtime.is_active, "it is loaded again", 10)
            assert await s.ask(Add()) == 2
            assert failures.counts() == {Where.SHARD: 1}

    run(scenario)


def test_a_record_that_fits_into_no_batch_is_refused_as_in_kafka() -> None:
    """The limit is the topic's max.message.bytes; many records that fit are accepted."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem()) as s:
            s.runtime._batches = TurnBatches(lambda: 59_000)
            faulty(s)
            assert await s.ask(Add()) == 1
            assert await s.ask(TooLarge()) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert await s.ask(Add()) == 2
            assert s.partition.log.log_end_offset == 2

    run(scenario)


def test_a_key_is_refused_twice_as_long_each_time_and_forgotten_in_the_end() -> None:
    """Commands of other keys are never refused."""
    now = [1000.0]
    quarantine = Quarantine(lambda: now[0])
    assert quarantine.is_empty()
    assert quarantine.blame("g") == FIRST_SECONDS
    assert quarantine.holds("g")
    assert not quarantine.holds("h")
    now[0] += FIRST_SECONDS
    assert not quarantine.holds("g")
    assert not quarantine.is_empty()
    assert quarantine.blame("g") == 2 * FIRST_SECONDS
    now[0] += 2 * FIRST_SECONDS - 0.01
    assert quarantine.holds("g")
    now[0] += 2 * FIRST_SECONDS + 0.02
    assert quarantine.is_empty()
    assert not quarantine.holds("g")
    assert quarantine.blame("g") == FIRST_SECONDS
