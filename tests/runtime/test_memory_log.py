"""The log in memory keeps the rules of the port `StateLog` while it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from tests.runtime.memory_log import Broker, MemoryLog, records_in
from tests.waiting import until

from headgate.log.batch import Record, encode_batch
from headgate.runtime.state_log import Lost

SLOW_SECONDS = 0.02


class Drawn(Random):
    """Draws the given numbers, then 1: each is the third root of a delay's share of the longest one."""

    def __init__(self, numbers: Iterable[float]) -> None:
        super().__init__(1)
        self._numbers = iter(numbers)

    def random(self) -> float:
        return next(self._numbers, 1.0)


async def claimed(broker: Broker) -> tuple[MemoryLog, list[Lost]]:
    """Return a writer's log, and the list that gets its losses."""
    log, losses = MemoryLog(broker), list[Lost]()
    log.on_lost = lambda lost, failure: losses.append(lost)
    await log.claim()
    return log, losses


def batch(value: bytes) -> bytearray:
    return encode_batch([Record(b"key", value)])


def stored(broker: Broker) -> list[bytes | None]:
    return [record.value for _, record in records_in(broker)]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(), 10)

    asyncio.run(main())


def test_nothing_arrives_after_a_loss_that_is_not_reported_yet() -> None:
    """The log holds a prefix of the batches, also if the broker can be reached again before the report."""

    async def scenario() -> None:
        # No delay for the claim, the first batch and the second one; the report of the loss is slow.
        broker = Broker(Drawn([0, 0, 1, 0]), SLOW_SECONDS)
        log, losses = await claimed(broker)
        broker.refuses = True
        log.append([batch(b"lost")])
        await asyncio.sleep(SLOW_SECONDS / 4)
        broker.refuses = False
        log.append([batch(b"later")])
        await until(lambda: losses, "the loss is reported")
        assert losses == [Lost.FAILED]
        assert stored(broker) == []
        assert log.durable_position == 0

    run(scenario)


def test_a_writer_that_appends_after_another_claimed_learns_that_it_is_fenced() -> None:
    """Once, and not that a write failed, after which it would claim the log again."""

    async def scenario() -> None:
        # Only the report of the fencing is slow: a report of the late batch would come before it.
        broker = Broker(Drawn([0, 0, 1, 0, 0, 0]), SLOW_SECONDS)
        first, losses = await claimed(broker)
        second, _ = await claimed(broker)
        first.append([batch(b"late")])
        second.append([batch(b"right")])
        await until(lambda: losses and stored(broker), "the loss is reported")
        assert losses == [Lost.FENCED]
        assert stored(broker) == [b"right"]

    run(scenario)


def test_nothing_of_a_fenced_or_cut_off_writer_arrives_when_it_dies() -> None:
    """A writer that dies can be lucky with batches in flight only while the broker accepts them."""

    async def scenario() -> None:
        for seed in range(5):
            broker = Broker(Random(seed), SLOW_SECONDS)
            cut_off, _ = await claimed(broker)
            cut_off.append([batch(b"cut off")] * 3)
            broker.refuses = True
            cut_off.die()
            broker.refuses = False
            fenced, _ = await claimed(broker)
            await claimed(broker)
            fenced.append([batch(b"fenced")] * 3)
            fenced.die()
            assert stored(broker) == []

    run(scenario)
