"""A shard whose records are applied in slices: timers and stops among long records without end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import count

from tests.runtime.counting import Add, AnswerLater, Ask, Counter, Setup, run, setup
from tests.waiting import until

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.log.memory_filesystem import MemoryFileSystem
from headgate.records import Record

STEPS = 20
BUSY = 50


class LongCounter(Counter):
    """A `headgate.core.contract.FinishesLater`: each of its records is applied in steps."""

    def __init__(self) -> None:
        super().__init__()
        self.finishes_later = False
        self.unfinished: deque[Iterator[None]] = deque()

    def apply(self, record: Record, position: int, producer: Producer | None = None) -> None:
        super().apply(record, position, producer)
        self.unfinished.append(self._steps())

    def _steps(self) -> Iterator[None]:
        for _ in range(STEPS):
            yield


def add_without_end(s: Setup) -> list[object]:
    """Let clients commit, each again as soon as it is answered. Return the list that gets the replies."""
    replies: list[object] = []

    def again(reply: object) -> None:
        replies.append(reply)
        if not isinstance(reply, ErrorCode):
            s.runtime.submit(Add(), again)

    for _ in range(BUSY):
        s.runtime.submit(Add(), again)
    return replies


def slowly(s: Setup) -> None:
    """Let each slice of the shard have one step."""
    times = count()
    s.runtime.seconds = lambda: float(next(times))


def test_timers_run_among_long_records_without_end() -> None:
    """Sessions end and rebalances complete, however many clients keep the shard busy."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem(), new_shard=LongCounter) as s:
            slowly(s)
            replies = add_without_end(s)
            await until(lambda: len(replies) > BUSY, "the shard is busy")
            later = [s.ask(AnswerLater()) for _ in range(3)]
            assert await asyncio.gather(*later) == ["late"] * 3
            assert s.runtime.is_finishing or s.runtime._later
            answered = len(replies)
            assert await s.ask(Ask()) >= answered

    run(scenario)


def test_a_stop_among_long_records_refuses_what_waits() -> None:
    """Nothing is decided after the stop, whose marker says that the log is complete; each client is told."""

    async def scenario() -> None:
        async with setup(MemoryFileSystem(), new_shard=LongCounter) as s:
            slowly(s)
            replies = add_without_end(s)
            late = asyncio.get_running_loop().create_task(s.ask(AnswerLater()))
            await until(lambda: len(replies) > BUSY and s.runtime._later, "commands wait")
            s.runtime.close()
            end = s.partition.log.log_end_offset
            await until(lambda: not s.runtime._later and not s.runtime.is_finishing, "nothing waits")
            assert s.partition.log.log_end_offset == end
            assert replies.count(ErrorCode.COORDINATOR_NOT_AVAILABLE) > 0
            late.cancel()

    run(scenario)
