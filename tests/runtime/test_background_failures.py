"""Unexpected failures in a node's background jobs: the jobs continue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.clients import Client, commit, committed, run_scenario
from tests.waiting import until

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.log.batch import Record, encode_batch
from headgate.runtime import checkpoints, compaction, failures
from headgate.runtime.checkpoints import CheckpointRunner
from headgate.runtime.failures import Where, on_loop_exception
from headgate.topics import appends
from headgate.topics.admission import AppendResult
from headgate.topics.appends import Budget
from headgate.topics.compactor import Compactor
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

WITHIN_S = 20


def failing_times(times: int, otherwise: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """Make a function that raises `times` times and then calls `otherwise`, and a list of its calls."""
    done: list[int] = []
    left = [times]

    def run(*given: Any, **more: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise ZeroDivisionError("planted")
        done.append(1)
        return otherwise(*given, **more)

    return run, done


@pytest.mark.plants_failures("compaction")
def test_compaction_continues_when_its_search_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is counted, and the next search runs."""
    monkeypatch.setattr(compaction, "RETRY_SECONDS", 0.01)
    failing, done = failing_times(2, Compactor.next_job)
    monkeypatch.setattr(Compactor, "next_job", failing)

    async def scenario(client: Client) -> None:
        await until(lambda: bool(done), "it searches again", WITHIN_S)
        assert failures.counts() == {Where.COMPACTION: 2}

    run_scenario(scenario)


@pytest.mark.plants_failures("checkpoint")
def test_checkpoints_go_on_when_one_shard_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is counted, and the shard is examined again."""
    monkeypatch.setattr(checkpoints, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(checkpoints, "RETRY_AFTER_SECONDS", 0.01)
    failing, done = failing_times(2, CheckpointRunner._interval)
    monkeypatch.setattr(CheckpointRunner, "_interval", failing)

    async def scenario(client: Client) -> None:
        await until(lambda: bool(done), "it looks again", WITHIN_S)
        assert failures.counts() == {Where.CHECKPOINT: 2}

    run_scenario(scenario)


@pytest.mark.plants_failures("housekeeping")
@pytest.mark.parametrize(
    ("owner", "job"), [(Topics, "tidy_catalogue"), (Topics, "remove_deleted"), (Housekeeping, "round")]
)
def test_housekeeping_that_fails_keeps_nobody_from_being_served(
    owner: type, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is counted; the node starts, serves and stops."""
    failing, _ = failing_times(1, getattr(owner, job))
    monkeypatch.setattr(owner, job, failing)

    async def scenario(client: Client) -> None:
        await until(lambda: failures.counts() == {Where.HOUSEKEEPING: 1}, "it is counted", WITHIN_S)
        await client.ask(commit(5, [0]), 8)
        assert await committed(client) == {0: 5}

    run_scenario(scenario)


@pytest.mark.plants_failures("loop")
def test_a_callback_of_the_loop_that_fails_is_counted() -> None:
    """Errors of the disk or the network are not counted."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_loop_exception)

        def fail(problem: Exception) -> None:
            raise problem

        loop.call_soon(fail, OSError("the network"))
        loop.call_soon(fail, ZeroDivisionError("planted"))
        await asyncio.sleep(0.01)
        assert failures.counts() == {Where.LOOP: 1}

    asyncio.run(scenario())


@pytest.mark.plants_failures("request")
def test_a_check_of_a_batch_that_fails_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check runs in another thread; the producer gets an error, and the next batch is accepted."""

    def fail(*given: object, **more: object) -> None:
        raise ZeroDivisionError("planted")

    async def scenario(client: Client) -> None:
        now = client.node.system_time()
        topic = client.node.topics.create(NewTopic("checked", TopicId(b"c" * 16), 1), now)
        assert isinstance(topic, Topic)
        results: list[AppendResult] = []
        budget = Budget()
        budget.left = 0
        with monkeypatch.context() as patched:
            patched.setattr(appends, "admit", fail)
            batch = encode_batch([Record(b"k", b"v", 1_750_000_000_000)])
            partition = topic.partition(0)
            client.node.appends.append(partition, batch, now, budget, lambda _, one: results.append(one))
            await until(lambda: bool(results), "the producer is told", 10)
        assert [one.error for one in results] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert failures.counts() == {Where.REQUEST: 1}

    run_scenario(scenario)
