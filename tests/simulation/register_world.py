"""A kind of shard unknown to the server, over a log that delays, loses, fences and interleaves.

The runtime and the shard of registers are real; time, log and clients are simulated. A client owns some
registers and a producer, and performs one action after another. So the possible results are known exactly:
one state, or several if the outcome of a request is unknown. Everything follows from the seed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from random import Random
from typing import Any

from tests.runtime.memory_log import Broker, MemoryLog
from tests.runtime.registers import End, GetAll, Put, Registers, registers
from tests.simulation.clock import SimulatedTime
from tests.simulation.loop import SimulatedLoop
from tests.simulation.requests import Violation

from headgate.core.contract import Producer
from headgate.domain.errors import ErrorCode
from headgate.runtime.shard_runtime import ShardRuntime

CLIENTS = 4
LIVES = 4
TROUBLES = ("kill", "stop", "fence", "fence", "refuse", "compact", "compact")
RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
State = tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]] | None]
"""The values of a client's registers, and those of its open transaction; None without one."""


def after(state: State, command: Put | End) -> State:
    """Return the state after a command."""
    values, pending = state
    if isinstance(command, End):
        ended = dict(pending or ()) if command.is_committed else {}
        return frozenset({**dict(values), **ended}.items()), None
    put = {key: value for key, value in command.values.items() if value is not None}
    if command.producer is not None:
        return values, frozenset({**dict(pending or ()), **put}.items())
    if pending is not None:  # writes after a transaction's records are not undone by its end
        pending = frozenset(one for one in pending if one[0] not in put)
    return frozenset({**dict(values), **put}.items()), pending


class RegisterClient:
    """One client, and its possible states."""

    def __init__(self, world: RegisterWorld, number: int) -> None:
        self._world = world
        self._keys = [f"{number}.{index}" for index in range(3)]
        self._producer = Producer(number, 0)
        self.states: set[State] = {(frozenset(), None)}
        self._count = 0

    def command(self) -> Any:
        """Return the next command."""
        random = self._world.random
        self._count += 1
        key = random.choice(self._keys)
        match random.choice(("put", "put", "transaction", "transaction", "commit", "abort", "get")):
            case "put":
                return Put({key: self._count})
            case "transaction":
                return Put({key: self._count}, self._producer)
            case "get":
                return GetAll()
            case end:
                return End(self._producer, end == "commit")

    def unknown(self, command: Any) -> None:
        """Note that the outcome of a command is unknown."""
        if not isinstance(command, GetAll):
            self.states |= {after(state, command) for state in self.states}

    def answered(self, command: Any, result: Any) -> None:
        """Check a reply. Raises Violation."""
        if isinstance(result, ErrorCode) and result in RETRIABLE:
            self._world.counts["refused"] += 1
            self.unknown(command)
            return
        self._world.counts["answered"] += 1
        if isinstance(command, GetAll):
            found = frozenset(one for one in result.items() if one[0] in self._keys)
            left = {state for state in self.states if state[0] == found}
        elif isinstance(command, End) and result is ErrorCode.INVALID_TXN_STATE:
            left = {state for state in self.states if state[1] is None}
        else:
            is_end = isinstance(command, End)
            left = {after(one, command) for one in self.states if not is_end or one[1] is not None}
        if not left:
            raise Violation(f"{command} was answered {result}, and what there may be is {self.states}")
        self.states = left


class RegisterWorld:
    """One seed: several lives of a shard on one log."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.time = SimulatedTime()
        self.counts: Counter[str] = Counter()
        self.broker = Broker(self.random, self.random.choice((0.001, 0.05)), compacts=True)
        self.broker.interleaves = self.random.choice((0.0, 0.3))
        self._clients = [RegisterClient(self, number) for number in range(CLIENTS)]
        self._runtime: ShardRuntime[Registers]
        self._runtimes: list[ShardRuntime[Registers]] = []
        """All runtimes of this life: those before the last are fenced."""
        self._violations: list[BaseException] = []

    def run(self) -> Counter[str]:
        """Run the lives. Raises Violation."""
        for _ in range(LIVES):
            self._live()
        self.broker.interleaves = 0.0
        return self.counts

    def _live(self) -> None:
        loop = SimulatedLoop(self.time, 0.0002, self.random, 0.0)
        try:
            loop.run_until_complete(self._life())
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    def _new_runtime(self) -> ShardRuntime[Registers]:
        runtime = ShardRuntime(registers(), MemoryLog(self.broker), self.time)
        runtime.seconds = self.random.random
        self._runtimes.append(runtime)
        return runtime

    async def _life(self) -> None:
        """Run from a start of the process to its end."""
        self.broker.refuses = False
        self._runtime = self._new_runtime()
        await self._runtime.load_if_possible()
        working = [asyncio.ensure_future(self._work(client)) for client in self._clients]
        ending = asyncio.ensure_future(self._trouble())
        await asyncio.wait([ending, *working], return_when=asyncio.FIRST_COMPLETED)
        for one in (ending, *working):
            if one.done():
                one.result()  # a violation
            one.cancel()
        await asyncio.gather(ending, *working, return_exceptions=True)
        for runtime in self._runtimes:
            runtime.close()
        self._runtimes.clear()

    async def _work(self, client: RegisterClient) -> None:
        while True:
            command = client.command()
            reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._runtime.submit(command, partial(_set, reply))
            if reply.done() and reply.result() in RETRIABLE:  # refused without processing
                await asyncio.sleep(0.05)
                continue
            try:
                client.answered(command, await reply)
            except asyncio.CancelledError:
                client.unknown(command)
                raise
            await asyncio.sleep(self.random.random() * 0.05)

    async def _trouble(self) -> None:
        """Cause one fault after another, until one ends this life."""
        while True:
            await asyncio.sleep(self.random.random())
            kind = self.random.choice(TROUBLES)
            self.counts[kind] += 1
            log = self._runtime.log
            assert isinstance(log, MemoryLog)
            match kind:
                case "kill":
                    log.die()
                    return
                case "stop":
                    return
                case "fence":
                    self._runtime._reloading.close()
                    self._runtime = self._new_runtime()
                    await self._runtime.load_if_possible()
                case "refuse":
                    self.broker.refuses = True
                    await asyncio.sleep(self.random.random() * 2)
                    self.broker.refuses = False
                case _:
                    self.counts["compacted records"] += self.broker.compact()


def _set(reply: asyncio.Future[Any], result: Any) -> None:
    if not reply.done():
        reply.set_result(result)
