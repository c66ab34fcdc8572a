"""A kind of shard that the server does not have, with crashes at changes of its disk and on the way to a log.

The script sets registers, directly and in transactions of two producers, some of them in several batches.
After each crash, the next run holds the state after a prefix of the script, with all answered commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tests.runtime.memory_log import Broker
from tests.runtime.register_life import RegisterLife, begin
from tests.runtime.registers import End, Put
from tests.server.disk import new_disk

from headgate.core.contract import Producer
from headgate.log.memory_filesystem import MemoryFileSystem, PowerCut
from headgate.runtime import record_batches
from headgate.runtime.checkpoints import CheckpointGivenUp, CheckpointWriter

ONE, OTHER = Producer(4000, 3), Producer(4001, 0)
WIDE = {f"wide {number}": 1 for number in range(12)}
SCRIPT: tuple[Put | End, ...] = (
    Put({"a": 1, "b": 1}),
    Put({"a": 2}, ONE),
    Put(WIDE),
    Put({"b": 2, "c": 2}, OTHER),
    Put({"b": 3}),
    End(ONE, is_committed=True),
    Put(dict.fromkeys(WIDE, 2), ONE),
    End(OTHER, is_committed=True),
    End(ONE, is_committed=False),
    Put({"a": None}),
)
State = tuple[dict[str, int], dict[int, dict[str, int | None]]]
"""The registers, and the writes of open transactions."""
CHECKPOINT_AFTER = 5


def states() -> list[State]:
    """Return the state after each prefix of the script, computed with dicts, without the shard's code."""
    values: dict[str, int | None] = {}
    put_at: dict[str, int] = {}
    open_puts: dict[int, dict[str, tuple[int | None, int]]] = {}
    found: list[State] = [({}, {})]
    for number, command in enumerate(SCRIPT):
        if isinstance(command, End):
            for key, (value, at) in open_puts.pop(command.producer.producer_id).items():
                if command.is_committed and put_at.get(key, -1) < at:
                    values[key], put_at[key] = value, at
        elif command.producer is not None:
            pending = open_puts.setdefault(command.producer.producer_id, {})
            pending.update({key: (value, number) for key, value in command.values.items()})
        else:
            values.update(command.values)
            put_at.update(dict.fromkeys(command.values, number))
        found.append(
            (
                {key: value for key, value in values.items() if value is not None},
                {one: {key: value for key, (value, _) in each.items()} for one, each in open_puts.items()},
            )
        )
    return found


def state_of(life: RegisterLife) -> State:
    """Return the state of a shard."""
    shard = life.runtime.shard
    pending: Mapping[int, Mapping[str, Any]] = shard.pending
    return shard.values(), {
        one: {key: stored.value for key, stored in each.items()} for one, each in pending.items()
    }


async def act(life: RegisterLife) -> int:
    """Run the script until a failure. Return how many commands were answered."""
    answered = 0
    for command in SCRIPT:
        reply = life.submit(command)
        while not reply.done():
            if isinstance(life.place, MemoryFileSystem) and not life.place.has_power:
                return answered
            await asyncio.sleep(0)
        if reply.result():
            return answered
        answered += 1
        if answered == CHECKPOINT_AFTER and life.log.checkpoints is not None:
            try:
                CheckpointWriter(life.runtime).write_at_once()
            except (OSError, CheckpointGivenUp, PowerCut):
                return answered
    return answered


async def check(place: MemoryFileSystem | Broker, answered: int, where: object) -> None:
    """Check that the next run holds the state after a prefix of the script, and accepts commands."""
    life = await begin(place)
    expected = states()[answered : answered + 2]  # the command after the last answered one may be there
    found = state_of(life)
    assert found in expected or _is_in_the_midst(found, expected), (where, answered, found)
    await life.ask(Put({"z": 1}))
    assert (await life.values())["z"] == 1
    life.kill()


def _is_in_the_midst(found: State, expected: list[State]) -> bool:
    """Return whether only some batches of a transaction's writes are there, which do not count yet."""
    if len(expected) < 2 or found[0] != expected[0][0]:
        return False
    (_, before), (_, after) = expected
    return all(
        before.get(one, {}).keys() <= each.keys() <= after.get(one, {}).keys()
        for one, each in found[1].items()
    )


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a command of several registers take several batches."""
    monkeypatch.setattr(record_batches, "BATCH_BYTES", 150)


@pytest.mark.parametrize("torn_bytes", [0, 70])
def test_a_power_cut_at_any_change_leaves_a_prefix(torn_bytes: int) -> None:
    """Runs are complete or absent, transactions open or ended, with and without a checkpoint."""

    async def scenario() -> None:
        random = Random(torn_bytes)
        for operation in range(2, 400, 3):
            files = new_disk()
            life = await begin(files)
            files.cut_power_after(operation, torn_bytes)
            answered = await act(life)
            has_got_through = files.has_power
            life.kill() if operation % 2 else files.crash(random if operation % 4 else None)
            await check(files, answered, (operation, torn_bytes))
            if has_got_through:
                assert answered == len(SCRIPT)
                return
        raise AssertionError("the script never got through")

    asyncio.run(scenario())


def test_a_process_that_ends_while_batches_are_on_their_way_leaves_a_prefix() -> None:
    """The log is on another machine, and markers of others are in between."""

    async def scenario() -> None:
        for seed in range(40):
            broker = Broker(Random(seed), slowest_seconds=0.002)
            broker.interleaves = 0.3
            life = await begin(broker)
            acting = asyncio.ensure_future(act(life))
            await asyncio.sleep(Random(seed).random() * 0.02)
            acting.cancel()
            life.kill()
            # The number of answered commands is not known here: every prefix is valid.
            again = await begin(broker)
            found = state_of(again)
            known = states()
            assert any(found in [one] for one in known) or any(
                _is_in_the_midst(found, known[at : at + 2]) for at in range(len(known))
            ), (seed, found)
            again.kill()

    asyncio.run(scenario())
