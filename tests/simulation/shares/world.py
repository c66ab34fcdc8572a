"""One seed: the whole node on a simulated disk, in several lives, with members of two share groups.

The node is the real one, with all of its shards and its protocol. Time, disk, syncs and clients are
simulated. A life ends with a power failure, a kill, or cleanly. In the last one nothing fails, and the
members accept what they get, until nothing is left.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.simulation.clock import SimulatedTime
from tests.simulation.disk import SimulatedDisk, SimulatedSyncer
from tests.simulation.journal import Journal
from tests.simulation.loop import SimulatedLoop
from tests.simulation.replays import compared_replays
from tests.simulation.requests import Violation
from tests.simulation.shares.link import Exchange, Server
from tests.simulation.shares.members import Habits, ShareMember
from tests.simulation.shares.model import GroupRules, ShareModel
from tests.simulation.shares.producers import Administrator, PlainProducer, TransactionalProducer
from tests.simulation.shares.records import Records
from tests.simulation.stopwatches import with_stopwatches_of

from headgate.domain.ids import TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log.batch import CorruptBatch
from headgate.log.memory_filesystem import Fault, PowerCut
from headgate.runtime import record_batches, shard_start
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.slices import SliceRunner
from headgate.server import node as node_module
from headgate.server.backlog import Backlog
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.server.request_work import RequestWork
from headgate.topics.topics import NewTopic

DATA_DIR = Path("/data")
TOPIC = ("work", b"w" * 16, 2)
MOST_FAILED_STARTS = 5
CALM_SECONDS = 120.0
"""Time in which everything must be complete when nothing fails."""
LIVES = 4
JUMPS_MS = (-3_600_000, -1000, 1, 60_000, 86_400_000)


class ShareLoop(SimulatedLoop):
    """The simulated loop; what runs in threads runs in it."""

    def _write_to_self(self) -> None:
        """Do nothing: nobody waits in another thread."""


class ShareWorld:
    """A seed's simulation."""

    def __init__(self, seed: int, *, is_calm: bool = False, begins_at_the_end: bool = False) -> None:
        """`is_calm`: nothing fails but clients. `begins_at_the_end`: the groups do."""
        self.random = random = Random(seed)
        self.time = SimulatedTime()
        self.journal = Journal(self.time)
        self.disk = SimulatedDisk(self.time, self.journal.counts)
        self.violation: BaseException | None = None
        self._is_calm = is_calm
        self._begins_at_the_end = begins_at_the_end
        self._records = Records()
        self._habits = Habits(pace_seconds=random.choice((0.02, 0.3)))
        self._latency_seconds = random.choice((0.0, 0.005, 0.05))
        self._slowest_sync_seconds = random.choice((0.0, 0.005, 0.1))
        self._life_seconds = random.choice((2.0, 10.0)) * (1.0 if self._habits.pace_seconds > 0.1 else 0.25)
        self._trouble_seconds = random.choice((0.3, 2.0, 10.0))
        self._snapshot_updates = random.choice((0, 3, 500))
        self._segment_bytes = random.choice((2048, 1 << 20))
        self.models = [
            ShareModel("any", self._rules(is_committed=False), self._records, self.journal.counts),
            ShareModel("committed", self._rules(is_committed=True), self._records, self.journal.counts),
        ]
        self._members = [
            ShareMember(number, model.group_id, TOPIC, self._habits)
            for model in self.models
            for number in range(random.choice((1, 3)))
        ]
        pace = self._habits.pace_seconds
        self._administrator = Administrator(TOPIC, self._records, self.models, self._habits, 5 * pace)
        self._others = [
            PlainProducer(0, TOPIC, self._records, self._habits, 4 * pace),
            TransactionalProducer(TOPIC, self._records, self._habits, 6 * pace),
            self._administrator,
        ]
        self._life = 0
        self._failed_starts = 0

    def _rules(self, *, is_committed: bool) -> GroupRules:
        return GroupRules(self.random.choice((2, 3, 5)), 1.0, is_committed, 100, self._begins_at_the_end)

    def settings(self) -> Settings:
        """Return the broker's settings."""
        return Settings(
            {
                "group.share.min.record.lock.duration.ms": "1000",
                "group.share.assignment.interval.ms": "0",
                "share.coordinator.snapshot.update.records.per.snapshot": str(self._snapshot_updates),
                "share.coordinator.state.topic.segment.bytes": str(self._segment_bytes),
                "share.coordinator.state.topic.prune.interval.ms": "700",
                "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
                "headgate.checkpoint.interval.records": "20",
                "offsets.topic.num.partitions": "1",
            }
        )

    # --- lives ---

    def run(self) -> Journal:
        """Run all lives. Raises Violation, or what went wrong in the server."""
        self.disk.make_directory(DATA_DIR)
        self.disk.sync_directory(DATA_DIR.parent)
        with (
            fitted(self),
            compared_replays(self.journal.counts, lambda told: self.report(Violation(told))),
        ):
            while self._life < LIVES:
                self._live(is_last=self._life == LIVES - 1)
        return self.journal

    def _live(self, *, is_last: bool) -> None:
        self._life += 1
        self.disk.heal()
        loop = ShareLoop(self.time, 0.0002, self.random, self._slowest_sync_seconds)
        loop.set_exception_handler(self._on_exception)
        self._loop = loop
        end = "failed start"
        try:
            end = loop.run_until_complete(self._run(loop, is_last=is_last))
        except (PowerCut, OSError, CorruptBatch):
            self._failed_starts += 1
            if self._failed_starts > MOST_FAILED_STARTS:
                raise
            self._life -= is_last
        finally:
            self._forget(loop)
        if self.violation is not None:
            raise self.violation
        self.journal.counts[end] += 1
        self.journal.trace(f"life {self._life} ends: {end}")
        self._between(end)

    def _forget(self, loop: ShareLoop) -> None:
        """Drop what is pending: it must not run in the next life."""
        self.disk.cut_power_after(0)
        asyncio._set_running_loop(loop)
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert isinstance(coroutine, Coroutine)
            with suppress(BaseException):
                coroutine.throw(asyncio.CancelledError())
            coroutine.close()
        asyncio._set_running_loop(None)
        loop.close()

    def _between(self, end: str) -> None:
        if end in ("kill", "clean stop"):
            self.disk.kill()
        else:
            self.disk.crash(self.random if self.random.random() < 0.7 else None)
        self.time.seconds += self.random.random() * 3
        if self.random.random() < 0.5:
            self.time.set(self.time.system_time() + self.random.choice(JUMPS_MS))
            self.journal.counts["settings of the clock"] += 1

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception") or RuntimeError(context["message"])
        if not isinstance(failure, PowerCut | OSError | asyncio.CancelledError):
            self.report(failure)

    def report(self, problem: BaseException) -> None:
        """Keep the first problem, and end the life."""
        if self.violation is None:
            self.violation = problem
        if self._ended is not None and not self._ended.done():
            self._ended.set_result("violation")

    # --- one life ---

    async def _run(self, loop: ShareLoop, *, is_last: bool) -> str:
        self._ended: asyncio.Future[str] = loop.create_future()
        self.disk.on_power_cut = lambda: self._end("power cut")
        node = BrokerNode(self.disk, DATA_DIR, self.settings(), self.time)
        node.topics._shared.seconds = lambda: self.time.seconds
        await node.start()
        self._prepare(node)
        server = Server(
            node,
            Listener(node),
            self._life,
            self.time,
            self.random,
            self._latency_seconds,
            self,
            self.report,
        )
        self._habits.is_calm = False
        works = [loop.create_task(member.run(server, self._session_ended)) for member in self._members]
        works += [loop.create_task(other.run(server)) for other in self._others]
        works.append(loop.create_task(self._calm() if is_last else self._trouble()))
        for work in works:
            work.add_done_callback(self._look_at)
        end = await self._ended
        server.is_over = True
        if end == "clean stop":
            loop.finish_works()
            node.close()
        return end

    def _look_at(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and (problem := work.exception()) is not None:
            self.report(problem)

    def _end(self, kind: str) -> None:
        if not self._ended.done():
            self._ended.set_result(kind)

    def _prepare(self, node: BrokerNode) -> None:
        """Create the topic and the settings of the groups, unless they are there."""
        name, topic_id, count = TOPIC
        now = node.system_time()
        if node.topics.by_name(TopicName(name)) is None:
            overrides = {"retention.ms": "-1", "segment.bytes": str(self._segment_bytes)}
            node.topics.create(NewTopic(TopicName(name), TopicId(topic_id), count, overrides), now)
        for model in self.models:
            rules = model.rules
            values = {
                "share.auto.offset.reset": "latest" if rules.begins_at_the_end else "earliest",
                "share.delivery.count.limit": str(rules.limit),
                "share.record.lock.duration.ms": str(int(1000 * rules.lock_seconds)),
                "share.partition.max.record.locks": str(rules.most_locks),
                "share.isolation.level": "read_committed" if rules.is_committed else "read_uncommitted",
            }
            node.topics.change_settings([node.topics.group_change(model.group_id, values)], now)

    async def _trouble(self) -> None:
        """Cause faults until the life ends."""
        random, ends_at = self.random, self.time.seconds + self.random.random() * self._life_seconds
        while self.time.seconds < ends_at:
            await asyncio.sleep(random.expovariate(1 / self._trouble_seconds))
            match "none" if self._is_calm else random.choice(("write", "sync", "any", "clock", "none")):
                case "write":
                    self._inject("pwrite")
                case "sync":
                    self._inject("datasync")
                case "any":
                    self._inject(None)
                case "clock":
                    self.time.set(self.time.system_time() + random.choice(JUMPS_MS))
                    self.journal.counts["settings of the clock"] += 1
        self.disk.heal()
        if random.random() < 0.4:
            self.disk.cut_power_after(random.choice((0, 1, 2, 5, 20)), random.choice((0, 1, 61, 500)))
            await asyncio.sleep(10)
        self._end(random.choice(("kill", "power cut", "clean stop")))

    def _inject(self, kind: str | None) -> None:
        times = self.random.choice((1, 1, 3, None))
        code = self.random.choice((errno.EIO, errno.ENOSPC))
        written = self.random.choice((0, 1, 70, 900)) if kind == "pwrite" else 0
        self.disk.inject(Fault(code, kind, self.random.randrange(3), times, written))
        self._loop.call_later(self.random.random() * 2, self.disk.heal)

    async def _calm(self) -> None:
        """Work for a while, then accept everything, and check that nothing is left."""
        await asyncio.sleep(self._life_seconds)
        self._habits.is_calm = True
        ends_at = self.time.seconds + CALM_SECONDS
        while not self._is_all_done():
            await asyncio.sleep(1)
            if self.time.seconds > ends_at:
                raise Violation(f"not complete after {CALM_SECONDS} s: lags {self._administrator.lags}")
        for model in self.models:
            model.check_end()
        self._end("last look")

    def _is_all_done(self) -> bool:
        lags = self._administrator.lags
        return len(lags) == TOPIC[2] * len(self.models) and not any(lags.values())

    # --- exchanges ---

    def _session_ended(self, who: str) -> None:
        for model in self.models:
            model.connection_lost(who, self.time.seconds)

    def arrived(self, exchange: Exchange) -> None:
        """Pass on a request to the model of its group."""
        self.journal.trace(f"{exchange.who} asks {exchange.request}")
        for model in self._of(exchange):
            model.arrived(exchange)

    def answered(self, exchange: Exchange) -> None:
        """Check an answer. Raises Violation."""
        self.journal.trace(f"{exchange.who} is answered {exchange.answer}")
        self.journal.counts["answers"] += 1
        if self.disk.is_off:
            return
        for model in self._of(exchange):
            model.answered(exchange)

    def lost(self, exchange: Exchange) -> None:
        """Note a lost answer."""
        self.journal.counts["lost answers"] += 1
        for model in self._of(exchange):
            model.lost(exchange)

    def _of(self, exchange: Exchange) -> Iterator[ShareModel]:
        group_id = getattr(exchange.request, "group_id", None)
        return (model for model in self.models if group_id in (None, model.group_id))


@contextmanager
def fitted(world: ShareWorld) -> Iterator[None]:
    """Run syncs on the simulated loop, and slices that follow the seed."""
    random = world.random

    def simulated_commit(loop: Any, observe: Any) -> GroupCommit:
        return GroupCommit(loop, observe, SimulatedSyncer(loop, random, world._slowest_sync_seconds))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_module, "GroupCommit", simulated_commit)
        patch.setattr(node_module, "local_runtimes", with_stopwatches_of(random))
        patch.setattr(record_batches, "BATCH_BYTES", random.choice((700, 900_000)))
        patch.setattr(shard_start, "LOAD_SLICE_SECONDS", random.choice((0.01, -1.0)))
        patch.setattr(SliceRunner, "is_slice_over", lambda runner: random.random() < 0.2)
        patch.setattr(SliceRunner, "processor_seconds", lambda runner: 0.0)
        patch.setattr(RequestWork, "seconds", lambda work: random.random())
        patch.setattr(Backlog, "seconds", lambda backlog: random.random())
        logger = logging.getLogger("headgate")
        level, logger.propagate = logger.level, False
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
            logger.propagate = True
