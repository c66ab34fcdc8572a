"""One simulation: all that a seed decides, from the server's first start to the last look at its disk.

Real are the core, the records, the log, the topics, the shard runtime, the group commit and the coordinator;
simulated are the time, the disk, the thread that syncs, the network and the clients. A life of the server
ends with a power cut, a kill, or well; the next one starts on what the disk has kept. The clients and the
models live on.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from tests.simulation.clients import METADATA_LIMIT, Client, Member, Tool
from tests.simulation.disk import SimulatedDisk
from tests.simulation.group_model import GroupModel
from tests.simulation.life import DATA_DIR, Life
from tests.simulation.loop import SimulatedTime
from tests.simulation.offset_model import MemberGroups, OffsetModel, Rules
from tests.simulation.requests import RETRIABLE, OnResult, Request, Violation

from headgate.core.classic.commands import DescribeGroup, JoinGroup, SyncGroup
from headgate.core.offsets import removal
from headgate.core.offsets.commands import CommitOffsets, CommitResult, FetchOffsets, OffsetColumns
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.domain.partitioning import partition_for
from headgate.domain.settings import Settings
from headgate.log import log as log_module
from headgate.log.memory_filesystem import Fault, PowerCut
from headgate.server import checkpoints, shard_runtime, turn_batches
from headgate.server.compaction import CompactionRunner
from headgate.server.slices import SliceRunner

RETENTION_MS = 60_000
OPERATIONS = 700
"""How many requests the clients of one seed make."""
QUICK_SECONDS = 5.0
"""An answer that waits for nobody but the disk comes within this, if the disk works."""
SETTLING_SECONDS = 2.5
"""How long after its last refusal the disk's trouble may still be seen: a late sync, and a reload."""


MOST_FAILED_STARTS = 5
"""So often in a row a start may fail; the disk works from the second one on."""

TROUBLES = (
    "power",
    "kill",
    "stop",
    "write",
    "write",
    "short",
    "sync",
    "sync",
    "any",
    "read",
    "caches",
    "lull",
    "disconnect",
)
"""What the nemesis does to the server, one thing after the other."""


@dataclass
class Plan:
    """What a seed decides at its beginning."""

    shards: int
    batch_bytes: int
    slice_bytes: int
    load_slice_seconds: float
    turn_seconds: float
    slowest_sync_seconds: float
    pace_seconds: float
    latency_seconds: float
    partition_count: int
    trouble_seconds: float
    """How long the nemesis rests, on average."""
    is_durable: bool
    segment_bytes: int
    sweep_interval_ms: int
    longest_session_seconds: float
    tools: int
    members: int
    cleanable_ratio: float
    cleaner_backoff_ms: int
    cleaner_buffer_bytes: int
    delete_retention_ms: int
    keeps_history: bool
    sync_mark_bytes: int
    checkpoint_records: int
    troubles: tuple[str, ...] = TROUBLES

    @classmethod
    def of(cls, random: Random) -> Plan:
        """Draw a plan."""
        return cls(
            shards=random.choice((1, 2, 3)),
            batch_bytes=random.choice((700, 2000, 900_000)),
            slice_bytes=random.choice((500, 800_000)),
            load_slice_seconds=random.choice((0.01, -1.0)),
            turn_seconds=random.choice((0.00001, 0.0002, 0.002)),
            slowest_sync_seconds=random.choice((0.0, 0.005, 0.1)),
            pace_seconds=random.choice((0.005, 0.1, 1.0)),
            latency_seconds=random.choice((0.0, 0.001, 0.05)),
            partition_count=random.choice((3, 20, 300)),
            trouble_seconds=random.choice((0.3, 3.0, 20.0)),
            is_durable=random.random() < 0.9,
            segment_bytes=random.choice((2048, 20_000, 10_000_000)),
            sweep_interval_ms=random.choice((700, 5000)),
            longest_session_seconds=random.choice((1.0, 6.0)),
            tools=random.choice((1, 4, 10)),
            members=random.choice((0, 2, 7)),
            cleanable_ratio=random.choice((0.0, 0.2, 0.5)),
            cleaner_backoff_ms=random.choice((50, 1000, 10_000)),
            cleaner_buffer_bytes=random.choice((4096, 1 << 20)),
            delete_retention_ms=random.choice((0, 2000, RETENTION_MS)),
            keeps_history=random.random() < 0.5,
            sync_mark_bytes=random.choice((1, 1000, 1 << 20)),
            checkpoint_records=random.choice((20, 200, 5000)),
        )

    def settings(self) -> Settings:
        """The broker's settings."""
        return Settings(
            {
                "offsets.retention.minutes": str(RETENTION_MS // 60_000),
                "offsets.retention.check.interval.ms": str(self.sweep_interval_ms),
                "offset.metadata.max.bytes": str(METADATA_LIMIT),
                "group.min.session.timeout.ms": "100",
                "group.initial.rebalance.delay.ms": "300",
                "headgate.checkpoint.interval.records": str(self.checkpoint_records),
                "log.cleaner.min.cleanable.ratio": str(self.cleanable_ratio),
                "log.cleaner.backoff.ms": str(self.cleaner_backoff_ms),
                "log.cleaner.dedupe.buffer.size": str(self.cleaner_buffer_bytes),
                "log.cleaner.delete.retention.ms": str(self.delete_retention_ms),
                "offsets.history.retention.ms": str(2 * RETENTION_MS if self.keeps_history else 0),
                "headgate.durability": "sync" if self.is_durable else "page-cache",
            }
        )


@dataclass
class Outcome:
    """What came of a seed."""

    seed: int
    violation: str | None
    trace_hash: str
    counts: Counter[str] = field(default_factory=Counter)


class World:
    """A seed's simulation. It is the network of the clients, and the judge of every reply."""

    def __init__(self, seed: int, operations: int = OPERATIONS, **circumstances: Any) -> None:
        """`circumstances` are fields of the plan that are not left to the seed."""
        self.seed = seed
        self.random = Random(seed)
        self.plan = plan = replace(Plan.of(self.random), **circumstances)
        self.pace_seconds = plan.pace_seconds
        self.partition_count = plan.partition_count
        self.time = SimulatedTime()
        self.counts: Counter[str] = Counter()
        self.disk = SimulatedDisk(self.time, self.counts)
        self.violation: str | None = None
        self._operations = operations
        self._trace = sha256()
        self._numbers = 0
        self._requests = 0
        self._members = MemberGroups()
        rules = Rules(RETENTION_MS, plan.sweep_interval_ms, METADATA_LIMIT)
        self._shards = [OffsetModel(rules, self._members) for _ in range(plan.shards)]
        simple = [f"simple-{index}" for index in range(self.random.choice((1, 6)))]
        joined = [f"joined-{index}" for index in range(self.random.choice((1, 3)))] if plan.members else []
        self._groups = {group_id: GroupModel(group_id, self._members, RETENTION_MS) for group_id in joined}
        self._group_ids = simple + joined
        self._clients: list[Client] = [Tool(self, simple * 4 + joined) for _ in range(plan.tools)]
        self._clients += [
            Member(self, joined[index % len(joined)], plan.longest_session_seconds)
            for index in range(plan.members)
        ]
        self._outstanding: dict[int, Request] = {}
        self._failing: set[int] = set()
        """Shards that failed and were not loaded again since."""
        self._failed_logs: set[int] = set()
        """Shards whose logs failed in a compaction: they learn of it when they write next."""
        self._failed_starts = 0
        """In a row."""
        self._life: Life | None = None

    # --- the whole of it ---

    def run(self) -> Outcome:
        """Simulate until enough was asked or a promise was broken."""
        self.disk.make_directory(DATA_DIR)
        self.disk.sync_directory(DATA_DIR.parent)
        with self._in_force():
            try:
                while self._requests < self._operations and self.violation is None:
                    self._live(Life(self))
                if self.violation is None:
                    self._look_back()
            except Violation as violation:
                self.report(str(violation))
        self.counts["requests"] = self._requests
        self.counts["expired offsets"] = sum(model.expired for model in self._shards)
        self.counts["unanswered commits kept"] = sum(model.survived for model in self._shards)
        self.counts["unanswered commits undone"] = sum(model.undone for model in self._shards)
        self.counts["static replacements"] = sum(group.replacements for group in self._groups.values())
        self.counts["rebalances"] = sum(group.rebalances for group in self._groups.values())
        return Outcome(self.seed, self.violation, self._trace.hexdigest(), self.counts)

    def _live(self, life: Life) -> None:
        self._life = life
        life.run()
        self._outstanding.clear()
        self._failing.clear()
        self._failed_logs.clear()
        for model in self._shards:
            model.fails()
        for group in self._groups.values():
            group.fails()
        self.trace(f"ended {life.end_kind}")
        self._failed_starts = self._failed_starts + 1 if life.end_kind == "failed starts" else 0
        if self._failed_starts > 1:
            self.disk.heal()
        if self._failed_starts > MOST_FAILED_STARTS:
            raise Violation("the server does not start any more on a disk that works")
        self.counts[life.end_kind] += 1
        if life.end_kind == "power cuts":
            self.disk.crash(self.random if self.random.random() < 0.7 else None)
        else:
            self.disk.kill()
        self.time.seconds += self.random.random() * self.random.choice((5, 5, 5, 2 * RETENTION_MS / 1000))

    def _look_back(self) -> None:
        """After a last crash, all is there that was acknowledged; after one more start, nothing else."""
        if self.plan.is_durable:
            self.disk.crash(self.random)
        first, second = Life(self, is_last=True), Life(self, is_last=True)
        self._live(first)
        self._live(second)
        if first.snapshot is None or second.snapshot is None:
            raise Violation(f"the server did not start on a disk that works: {first.end_kind}")
        if first.snapshot != second.snapshot:
            raise Violation(f"a second start changed {first.snapshot} to {second.snapshot}")

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """The plan's small sizes, and nothing in the server's log that nobody expected."""
        plan, handler = self.plan, _Listener(self)
        logger = logging.getLogger("headgate")
        sizes: list[tuple[Any, str, Any]] = [
            (turn_batches, "BATCH_BYTES", plan.batch_bytes),
            (removal, "SLICE_BYTES", plan.slice_bytes),
            (shard_runtime, "LOAD_SLICE_SECONDS", plan.load_slice_seconds),
            (log_module, "SYNC_MARK_EVERY_BYTES", plan.sync_mark_bytes),
            (SliceRunner, "is_slice_over", lambda runner: self.random.random() < 0.2),
            (CompactionRunner, "_compact", self._counting_compactions()),
            (checkpoints, "FEWEST_AT_STOP", plan.checkpoint_records),
            (checkpoints, "RETRY_AFTER_SECONDS", -1.0),
            (checkpoints, "_tell_written", lambda *given: self.counts.update(["checkpoints"])),
            (shard_runtime.ShardRuntime, "_restore_checkpoint", self._counting_restored()),
        ]
        before = [(module, name, getattr(module, name)) for module, name, _ in sizes]
        level, propagates = logger.level, logger.propagate
        for module, name, value in sizes:
            setattr(module, name, value)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(handler)
        try:
            yield
        finally:
            for module, name, old in before:
                setattr(module, name, old)
            logger.setLevel(level)
            logger.propagate = propagates
            logger.removeHandler(handler)

    def _counting_compactions(self) -> Any:
        compact = CompactionRunner._compact

        async def counting(runner: CompactionRunner, job: Any) -> None:
            self.counts["compactions begun"] += 1
            before = job.partition.log.compacted_to
            await compact(runner, job)
            self.counts["compactions"] += job.partition.log.compacted_to > before
            if job.partition.log.failure is not None:
                self._failed_logs.add(job.partition.index)

        return counting

    def _counting_restored(self) -> Any:
        restore = shard_runtime.ShardRuntime._restore_checkpoint

        async def counting(runtime: Any) -> int | None:
            position = await restore(runtime)
            self.counts["checkpoints restored"] += position is not None
            return position

        return counting

    def report(self, violation: str) -> None:
        """A promise was broken: the first one counts."""
        if self.violation is None:
            self.violation = f"at {self.time.seconds:.6f} s: {violation}"
        if self._life is not None:
            self._life.end("violations")

    def trace(self, line: str) -> None:
        """Take a line into the hash that tells two runs apart."""
        self._trace.update(f"{self.time.seconds!r} {line}\n".encode("utf-8", "surrogatepass"))

    # --- the network ---

    def next_number(self) -> int:
        """A number nobody had before."""
        self._numbers += 1
        return self._numbers

    def later(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Do something later, unless the server's machine is down by then."""
        assert self._life is not None
        self._life.later(delay_seconds, action)

    def send(self, group_id: str, command: Any, on_result: OnResult) -> None:
        """Send a client's request to the server."""
        self.later(self._latency(), lambda: self._arrive(group_id, command, on_result))

    def _latency(self) -> float:
        return self.random.random() ** 2 * self.plan.latency_seconds

    def _arrive(self, group_id: str, command: Any, on_result: OnResult) -> None:
        life = self._life
        assert life is not None
        if self._requests >= self._operations:
            life.end(self._some_end())
            return
        request = self._request(group_id, command, on_result)
        self._shards[request.shard].arrived(request)
        if group_id in self._groups:
            self._groups[group_id].arrived(request)
        if isinstance(command, CommitOffsets) and width_of(command) >= 30:
            self.counts["wide commits"] += 1
        self._outstanding[request.number] = request
        is_inside = False

        def take(result: Any) -> None:
            self._answer(request, result, is_refused_at_the_door=not is_inside)

        # What is answered before `submit` returns was refused without a look at it.
        life.submit(request, take)
        is_inside = True

    def _request(self, group_id: str, command: Any, on_result: OnResult) -> Request:
        self._requests += 1
        shard = partition_for(group_id, self.plan.shards)
        self.trace(f"{self._requests} {group_id} {_text(command)}")
        return Request(
            self._requests, group_id, shard, command, self.time.seconds, self.time.now(), on_result
        )

    def _answer(self, request: Request, result: Any, *, is_refused_at_the_door: bool) -> None:
        life = self._life
        if life is None or life.is_over or self.disk.is_off:
            return  # there is no machine to answer
        self.trace(f"{request.number} -> {_text(result)}")
        try:
            self._judge(request, result, is_refused_at_the_door=is_refused_at_the_door)
        except Violation as violation:
            self.report(str(violation))
            return
        self.later(self._latency(), lambda: request.on_result(result))

    def _judge(self, request: Request, result: Any, *, is_refused_at_the_door: bool) -> None:
        if request.is_answered:
            raise Violation(f"{request} was answered twice, now {result}")
        request.is_answered = True
        self._outstanding.pop(request.number, None)
        model, group = self._shards[request.shard], self._groups.get(request.group_id)
        if isinstance(result, ErrorCode) and result in RETRIABLE:
            self._judge_refusal(request, result)
            if is_refused_at_the_door:
                model.refused_at_the_door(request)
            elif request.shard not in self._failing:
                self.failed(request.shard)
            return
        model.answered(request, result)
        if isinstance(result, CommitResult) and request.command.expected is not None:
            self.counts["conditions held" if result.is_attempted else "conditions failed"] += 1
        if group is not None:
            group.answered(request, result, self.time.seconds)

    def _judge_refusal(self, request: Request, result: ErrorCode) -> None:
        self.counts["retriable errors"] += 1
        if result is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert self._life is not None
            if request.shard not in self._life.loading | self._failing:
                raise Violation(f"{request} was told of a load that is not under way")
        elif request.shard in self._failed_logs:
            self._failed_logs.discard(request.shard)
            self.disk.refused_at = self.time.seconds
        elif self.time.seconds - self.disk.refused_at > SETTLING_SECONDS:
            raise Violation(f"{request} was told {result!r}, and the disk works")

    # --- shards ---

    def failed(self, shard: int) -> None:
        """A shard dropped its memory."""
        self.counts["failed shards"] += 1
        self._failing.add(shard)
        self._shards[shard].fails()
        for group_id, group in self._groups.items():
            if partition_for(group_id, self.plan.shards) == shard:
                group.fails()

    def loads(self, shard: int) -> None:
        """A shard begins to read its log."""
        if self._life is not None and self._life.had_loaded(shard) and shard not in self._failing:
            self.failed(shard)  # nobody waited for anything when it failed
        self._shards[shard].loads()

    def loaded(self, shard: int, life: Life) -> None:
        """A shard has read its log: look at everything it holds, before anybody else does."""
        self._failing.discard(shard)
        since_ms = self.time.now()
        group_ids = [one for one in self._group_ids if partition_for(one, self.plan.shards) == shard]
        found: dict[str, Any] = {}

        def on_found(group_id: str, result: Any) -> None:
            if life.is_over or self.disk.is_off or isinstance(result, ErrorCode):
                return  # it failed again: the next load tells
            found[group_id] = {
                (topic, partition): stored for topic, each in result.topics for partition, stored in each
            }
            if len(found) == len(group_ids):
                self.trace(f"shard {shard} holds {_text(found)}")
                self._judged(lambda: self._shards[shard].loaded(found, since_ms, since_ms))
                life.looked_at(shard, found)

        def on_described(group_id: str, at: float, result: Any) -> None:
            if life.is_over or self.disk.is_off or result in RETRIABLE:
                return
            self._judged(lambda: self._groups[group_id].loaded(result, at))

        at = self.time.seconds
        for group_id in group_ids:
            if group_id in self._groups:
                life.ask_shard(shard, DescribeGroup(GroupId(group_id)), partial(on_described, group_id, at))
        for group_id in group_ids:
            life.ask_shard(shard, FetchOffsets(GroupId(group_id), None), partial(on_found, group_id))
        if not group_ids:
            self._shards[shard].loaded({}, since_ms, since_ms)
            life.looked_at(shard, {})

    def _judged(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as violation:
            self.report(str(violation))

    # --- what happens to the server ---

    def started(self) -> None:
        """The server takes connections."""
        for client in self._clients:
            client.connect()
        self._rest()
        self._look_for_the_forgotten()

    def _rest(self) -> None:
        self.later(self.random.expovariate(1 / self.plan.trouble_seconds), self._make_trouble)

    def _make_trouble(self) -> None:
        random, disk = self.random, self.disk
        kind = random.choice(self.plan.troubles)
        self.trace(f"trouble {kind}")
        match kind:
            case "power" if self.plan.is_durable:
                disk.cut_power_after(
                    random.choice((0, 1, 2, 5, 20)), random.choice((0, 1, 61, 500, 1500, 5000))
                )
            case "power" | "kill" | "stop":
                self._end_life({"power": "kills", "kill": "kills", "stop": "clean stops"}[kind])
                return
            case "write":
                self._inject("pwrite", random.choice((0, 0, 1, 70, 900, 3000)))
            case "short":
                disk.inject(Fault(None, "pwrite", random.randrange(3), 1, random.choice((1, 70, 900))))
                self.counts["short writes"] += 1
            case "sync":
                self._inject("datasync", 0)
            case "any":
                self._inject(None, 0)
            case "read":
                self._inject("pread", 0)
            case "caches":
                # What a failed sync left there is nowhere else, and was acknowledged all the same.
                if self.plan.is_durable:
                    disk.drop_caches()
            case "lull":
                self._lull()
                return
            case _:
                self.counts["lost connections"] += len(self._clients)
                for client in self._clients:
                    if random.random() < 0.5:
                        client.connect()
        self._rest()

    def _inject(self, kind: str | None, written: int) -> None:
        times = self.random.choice((1, 1, 3, None))
        code = self.random.choice((errno.EIO, errno.ENOSPC))
        self.disk.inject(Fault(code, kind, self.random.randrange(3), times, written))
        self.later(self.random.random() * 3, self.disk.heal)

    def _lull(self) -> None:
        """Everybody loses the connection, and comes back after the offsets have expired, or just before."""
        self.counts["lulls"] += 1
        back_seconds = RETENTION_MS / 1000 * self.random.choice((0.3, 0.99, 1.3, 5.0))
        for client in self._clients:
            client.rest(back_seconds)
        self.later(back_seconds * self.random.choice((0.1, 1.0)), self._rest)

    def _some_end(self) -> str:
        return self.random.choice(("power cuts", "kills") if self.plan.is_durable else ("kills",))

    def _end_life(self, kind: str) -> None:
        assert self._life is not None
        self._life.end(kind)

    def _look_for_the_forgotten(self) -> None:
        """Nobody waits for ever while the disk works."""
        now = self.time.seconds
        parked_seconds = QUICK_SECONDS + 4 * self.plan.longest_session_seconds
        for request in self._outstanding.values():
            is_parked = isinstance(request.command, JoinGroup | SyncGroup)
            since = max(request.arrived_at, self.disk.refused_at + SETTLING_SECONDS)
            if now - since > (parked_seconds if is_parked else QUICK_SECONDS):
                self.report(f"{request} was never answered")
                return
        self.later(1.0, self._look_for_the_forgotten)


class _Listener(logging.Handler):
    """What the server logs with a traceback, nobody expected."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and not isinstance(record.exc_info[1], PowerCut):
            self._world.report(f"{record.getMessage()}: {record.exc_info[1]!r}")


def width_of(command: CommitOffsets) -> int:
    """How many partitions a commit has."""
    return sum(len(one.partitions if isinstance(one, OffsetColumns) else one) for _, one in command.topics)


def _text(value: Any) -> str:
    """What a value is, the same in every process."""
    return repr(value)
