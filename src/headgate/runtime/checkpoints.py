"""Checkpoints of shards: their state, stored beside the log, so that a start need not read the whole log.

Rules:

1. A checkpoint is taken from the live shard in slices of a few milliseconds. A thread writes each slice
   before the next one is taken. So no request waits for it, and memory holds one slice at most.
2. The file is put in place when the log is durable up to the end that the slices may reflect. So no
   checkpoint holds state that can still be lost.
3. A checkpoint is written after enough new records, when compaction passed the last one, and at a clean stop.
   A failure costs a slower start, and nothing else.

docs/adr/0005-checkpoints.md gives the reasons for this design.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import Metric

from headgate.core.contract import Pictured
from headgate.log.header import CorruptBatch
from headgate.log.state_file import Bond, StateFileUnusable
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.gauges import counter, gauge

if TYPE_CHECKING:
    from headgate.domain.settings import Settings
    from headgate.runtime.shard_runtime import ShardRuntime

logger = logging.getLogger(__name__)

Execute = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a blocking function outside of the loop."""

LOOK_EVERY_SECONDS = 0.25
RETRY_AFTER_SECONDS = 60.0
FEWEST_AT_STOP = 10_000
"""New records below which a clean stop writes no checkpoint: reading them is quick."""
_SHARE_OF_STATE = 8
"""A new checkpoint needs at least the shard's number of entries divided by this, in new records."""


class CheckpointGivenUp(Exception):
    """The shard failed or was closed meanwhile, or its log could not be synced."""


class CheckpointWriter:
    """Writes one checkpoint of one shard, whose log keeps checkpoints."""

    def __init__(self, runtime: ShardRuntime[Any]) -> None:
        self._runtime = runtime
        self._shard = runtime.shard
        store = runtime.log.checkpoints
        assert store is not None, "the log keeps no checkpoints"
        self._store = store
        self._file = store.new_file()

    async def write(self, execute: Execute) -> None:
        """Write the checkpoint beside other work. Raises OSError, CorruptBatch, CheckpointGivenUp."""
        try:
            await execute(self._file.begin)
            while self._runtime.is_finishing:
                await asyncio.sleep(0)
            self._check()
            position = self._runtime.written_position
            await self._add_parts(execute)
            end = self._runtime.position
            while self._store.durable_offset < end:
                await self._sync()
                self._check()
            bond = self._bond(position)
            await execute(partial(self._file.finish, bond, dict(self._shard.contents())))
        except asyncio.CancelledError:
            self._file.close()  # the node stops; the next start removes the incomplete file
            raise
        except BaseException:
            await execute(self._file.discard)
            raise
        self._is_in_place(bond)

    def write_at_once(self) -> None:
        """Write the checkpoint, blocking. Raises OSError, CorruptBatch, CheckpointGivenUp."""
        position = self._runtime.written_position
        self._store.sync_now()
        try:
            self._file.begin()
            for kind, data in self._shard.image():
                self._file.add(kind, data)
            bond = self._bond(position)
            self._file.finish(bond, dict(self._shard.contents()))
        except BaseException:
            self._file.discard()
            raise
        self._is_in_place(bond)

    async def _add_parts(self, execute: Execute) -> None:
        """Write the image, which has the state of this moment or later ones. What follows is in the log."""
        parts = self._shard.image()
        try:
            while (part := self._next(parts)) is not None:
                self._check()
                await execute(partial(self._file.add, *part))
        finally:
            parts.close()
        self._check()

    def _next(self, parts: Iterator[tuple[str, bytes]]) -> tuple[str, bytes] | None:
        """Return the next part, or None at the end."""
        with self._runtime.watch.step("checkpoint"):
            return next(parts, None)

    def _bond(self, position: int) -> Bond:
        try:
            return self._store.bond(position)
        except StateFileUnusable as reason:
            raise CheckpointGivenUp(str(reason)) from None

    def _is_in_place(self, bond: Bond) -> None:
        self._runtime.checkpoint_position = bond.position
        self._store.log_start_offset = bond.log_start_offset

    def _check(self) -> None:
        if self._runtime.shard is not self._shard or not self._runtime.is_active:
            raise CheckpointGivenUp("the shard failed")

    async def _sync(self) -> None:
        await asyncio.sleep(0)  # records decided in this loop iteration are written at its end
        if not await self._store.sync():
            raise CheckpointGivenUp("the log could not be synced")


class CheckpointRunner:
    """Writes the checkpoints of all shards of a node, one at a time."""

    def __init__(self, runtimes: Sequence[ShardRuntime[Any]], settings: Settings) -> None:
        """Of `runtimes`, use those whose shards have images and whose logs keep checkpoints."""
        self._runtimes = [
            runtime
            for runtime in runtimes
            if isinstance(runtime.shard, Pictured) and runtime.log.checkpoints is not None
        ]
        self._is_enabled: bool = settings["headgate.checkpoint.enable"]
        self._interval_records: int = settings["headgate.checkpoint.interval.records"]
        self._not_before: dict[int, float] = {}
        self._written_at = dict.fromkeys(range(len(self._runtimes)), time.monotonic())
        """When each shard wrote its last checkpoint, or was started, in seconds."""
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self._executor = ThreadPoolExecutor(1, "headgate-checkpoint")

    def start(self) -> None:
        """Start to look for shards whose logs have grown."""
        if self._is_enabled:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop, also during a checkpoint, whose file is then dropped."""
        if self._task is not None:
            self._task.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def write_at_stop(self) -> None:
        """Write the checkpoints that are due at a stop. Everything is written and durable before."""
        if not self._is_enabled:
            return
        for runtime in self._runtimes:
            if runtime.is_active and _is_due(runtime, FEWEST_AT_STOP):
                began = time.perf_counter()
                try:
                    CheckpointWriter(runtime).write_at_once()
                except (OSError, CorruptBatch, CheckpointGivenUp) as problem:
                    _tell_failed(runtime, problem)
                else:
                    _tell_written(runtime, began)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            for number, runtime in enumerate(self._runtimes):
                if time.monotonic() < self._not_before.get(number, 0):
                    continue
                try:
                    if runtime.is_active and _is_due(runtime, self._interval(runtime)):
                        await self._write(number, runtime)
                except (
                    Exception
                ) as problem:  # a failure of one shard must not end the checkpoints of the others
                    self._failed(number, runtime, problem)

    def _interval(self, runtime: ShardRuntime[Any]) -> int:
        held = max(runtime.shard.contents().values(), default=0)
        return int(max(self._interval_records, held // _SHARE_OF_STATE))

    async def _write(self, number: int, runtime: ShardRuntime[Any]) -> None:
        began = time.perf_counter()
        try:
            await CheckpointWriter(runtime).write(self._execute)
        except Exception as problem:
            self._failed(number, runtime, problem)
        else:
            self._written_at[number] = time.monotonic()
            _tell_written(runtime, began)

    def gauges(self) -> Iterator[Metric | None]:
        """Yield the metrics of checkpoints: what a start after a crash would have to read."""
        if not self._is_enabled:
            return
        oldest, records = 0.0, 0
        for number, runtime in enumerate(self._runtimes):
            store = runtime.log.checkpoints
            if store is not None and runtime.is_active:
                behind = store.records_after(runtime.checkpoint_position)
                records += behind
                if behind:
                    oldest = max(oldest, time.monotonic() - self._written_at[number])
            yield None
        yield gauge(
            "headgate_checkpoint_age_seconds",
            "Time since the oldest checkpoint, or the start, of a shard with records after it.",
            [((), oldest)],
        )
        yield gauge(
            "headgate_checkpoint_records_behind",
            "Records after the checkpoints of all shards: what a start has to read.",
            [((), records)],
        )
        yield counter("headgate_checkpoint_failures", "Checkpoints that failed.", [((), self._failures)], ())

    def _failed(self, number: int, runtime: ShardRuntime[Any], problem: Exception) -> None:
        self._failures += 1
        self._not_before[number] = time.monotonic() + RETRY_AFTER_SECONDS
        if isinstance(problem, (OSError, CorruptBatch, CheckpointGivenUp)):
            _tell_failed(runtime, problem)
        else:
            unexpected(Where.CHECKPOINT, "a checkpoint failed", problem, log=runtime.log.name)

    async def _execute(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _is_due(runtime: ShardRuntime[Any], records: int) -> bool:
    """Return whether the log has at least `records` new records since the last usable checkpoint."""
    store = runtime.log.checkpoints
    return store is not None and store.records_after(runtime.checkpoint_position) >= max(records, 1)


def _tell_written(runtime: ShardRuntime[Any], began: float) -> None:
    logger.info(
        "a checkpoint was written",
        extra={
            "log": runtime.log.name,
            "position": runtime.checkpoint_position,
            **runtime.shard.contents(),
            "seconds": round(time.perf_counter() - began, 3),
        },
    )


def _tell_failed(runtime: ShardRuntime[Any], problem: Exception) -> None:
    logger.warning(
        "a checkpoint could not be written",
        extra={"log": runtime.log.name, "error": str(problem)},
    )
