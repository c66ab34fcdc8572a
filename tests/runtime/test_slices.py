"""Work in slices leaves the loop to other work: half of it, and more while the loop is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from contextvars import Context
from itertools import count
from typing import TypeVarTuple

import pytest

from headgate.log.compaction import Steps
from headgate.runtime.slices import PAUSE_SECONDS, SLICE_SECONDS, SliceRunner, slice_seconds

SLICES = 12
Arguments = TypeVarTuple("Arguments")


class HurriedLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait, and records the delays."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.pauses.append(delay)
        return super().call_later(0, callback, *args, context=context)


def slices(runner: SliceRunner, works: list[str]) -> Steps[str]:
    """Make work of `SLICES` slices, with a function for the thread in the middle."""
    for number in range(SLICES):
        if number == SLICES // 2:
            yield lambda: works.append("aside")
        while not runner.is_slice_over():
            pass
        works.append("slice")
        yield None
    return "done"


def pauses_of(busy_share: float, processor_seconds: Callable[[], float]) -> list[float]:
    """Return the length of each pause."""
    loop, works = HurriedLoop(), list[str]()

    async def scenario() -> None:
        with closing(SliceRunner("test", lambda: busy_share)) as runner:
            runner.processor_seconds = processor_seconds
            assert await runner.run(slices(runner, works)) == "done"

    with closing(loop):
        loop.run_until_complete(scenario())
    assert works.count("slice") == SLICES
    assert works.count("aside") == 1
    return loop.pauses


def test_an_idle_loop_gives_half_of_its_time_to_work_in_slices() -> None:
    """A pause is as long as a slice."""
    assert pauses_of(0.1, lambda: 0.0) == [PAUSE_SECONDS] * SLICES


@pytest.mark.parametrize(("busy_share", "slices_a_pause"), [(0.1, 9), (0.25, 3)])
def test_a_busy_loop_keeps_all_but_a_share_of_its_time(busy_share: float, slices_a_pause: int) -> None:
    """After the first pause in which the loop's thread was busy, pauses are as long as the share requires."""
    worked = count()
    first, *others = pauses_of(busy_share, lambda: float(next(worked)))
    assert first == PAUSE_SECONDS
    assert len(others) == SLICES - 1
    # A slice ends some time after its limit; other work has the loop while the function runs in the thread.
    assert all(pause >= slices_a_pause * SLICE_SECONDS for pause in others[: SLICES // 2 - 1])


@pytest.mark.parametrize(
    ("share", "left_alone_ms", "slice_ms"),
    [
        (0.1, 9, 1),
        (0.1, 50, 1),  # a share of a tenth keeps the minimum
        (0.5, 0, 1),
        (0.5, 1, 1),
        (0.5, 3, 3),
        (0.5, 50, 4),
        (0.25, 6, 2),
    ],
)
def test_a_slice_is_longer_after_long_turns_of_others_if_the_share_is_large(
    share: float, left_alone_ms: float, slice_ms: float
) -> None:
    """It is as long as the share allows, at least a millisecond and at most this share of eight."""
    assert slice_seconds(share, left_alone_ms / 1000) == pytest.approx(slice_ms / 1000)


def test_what_fails_in_the_thread_is_reported_to_the_work() -> None:
    """The work may handle a failure of the thread, and end normally."""

    def failing() -> None:
        raise OSError("disk on fire")

    def work() -> Steps[str]:
        try:
            yield failing
        except OSError as failure:
            return str(failure)
        return "nothing failed"

    async def scenario() -> None:
        with closing(SliceRunner("test")) as runner:
            assert await runner.run(work()) == "disk on fire"

    asyncio.run(asyncio.wait_for(scenario(), 20))
