"""The logs of the shards on other machines (`tests.runtime.memory_log`), and the faults of such logs.

They are part of a simulation whose plan has `has_remote_logs`. Everything else is on the server's own disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from tests.runtime.memory_log import Broker, MemoryLog
from tests.simulation.clock import SimulatedTime
from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Journal
from tests.simulation.local_logs import GroupRuntime

from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.state_log import Batches
from headgate.topics.partition import Partition

if TYPE_CHECKING:
    from tests.simulation.life import Life

FAULTS = ("refuse", "refuse", "fence", "fence", "compact", "compact")
LOOK_AGAIN_SECONDS = 0.05


class RemoteLogs:
    """The brokers of one simulation, one for each shard. They outlast the lives of the server."""

    def __init__(
        self, seed: int, shards: int, time: SimulatedTime, disk: SimulatedDisk, journal: Journal
    ) -> None:
        self._random = random = Random(f"remote logs of {seed}")
        self._time = time
        self._disk = disk
        self._journal = journal
        slowest_seconds = random.choice((0.001, 0.05))
        self._compacts = random.random() < 0.7
        self._brokers = [Broker(random, slowest_seconds, compacts=self._compacts) for _ in range(shards)]
        self.interleave(random.choice((0.0, 0.3)))

    def interleave(self, probability: float) -> None:
        """Let batches of other writers arrive between ours with this probability."""
        for broker in self._brokers:
            broker.interleaves = probability

    def connect(self, partition: Partition, commit: GroupCommit) -> MemoryLog:
        """Return the log of a shard, for one life of the server. It can be reached."""
        broker = self._brokers[partition.index]
        broker.refuses = False
        if broker.writer is not None:
            broker.writer.die()  # it is of an earlier life
        return MemoryLog(broker, f"remote-{partition.index}")

    def batches(self, runtime: GroupRuntime) -> Batches:
        """Return the stored batches of a shard, without markers."""
        return [one for one in _log_of(runtime).broker.batches if not one[0].is_control]

    def keep_all(self, runtime: GroupRuntime, end_kind: str) -> bool:
        """Return whether all that the shard has decided is certainly stored."""
        return runtime.is_active and runtime.position == _log_of(runtime).durable_position

    def cut_off(self, runtimes: Sequence[GroupRuntime], *, is_crash: bool) -> None:
        """End the connections. After a crash some of the batches in flight are lost."""
        for runtime in runtimes:
            log = _log_of(runtime)
            if is_crash:
                log.die()
            else:
                log.release()

    # --- faults ---

    def heal(self) -> None:
        """End the faults: every log can be reached. A node that claimed a log for a while still loses it."""
        for broker in self._brokers:
            self._heal(broker)

    def make_trouble(self, kind: str, life: Life) -> None:
        """Cause a fault in the log of one shard."""
        runtime = self._random.choice(life.runtimes)
        broker = _log_of(runtime).broker
        match kind:
            case "refuse":
                self._journal.counts["unreachable logs"] += 1
                broker.refuses = True
                self._errors_are_explained()
                life.later(self._random.random() * 2, lambda: self._heal(broker))
            case "fence":
                life.run_beside(self._fence(runtime))
            case "compact" if self._compacts:
                self._journal.counts["records compacted by others"] += broker.compact()

    def _heal(self, broker: Broker) -> None:
        broker.refuses = False
        self._errors_are_explained()

    async def _fence(self, runtime: GroupRuntime) -> None:
        """Let another node claim a log; after a while this node claims it again."""
        log = _log_of(runtime)
        with suppress(OSError):
            await MemoryLog(log.broker, "another node").claim()
            self._journal.counts["fenced logs"] += 1
        self._errors_are_explained()
        await asyncio.sleep(self._random.random())
        while not (log.broker.writer is log and runtime.is_active):
            if runtime.is_fenced:
                with suppress(OSError):
                    await runtime.load_again()
            self._errors_are_explained()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def _errors_are_explained(self) -> None:
        """Note that requests may be refused now, as after an error of the disk."""
        self._disk.refused_at = self._time.seconds


def _log_of(runtime: GroupRuntime) -> MemoryLog:
    assert isinstance(runtime.log, MemoryLog)
    return runtime.log
