"""One life of the simulated server: the real parts assembled as in the node, on a loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.core.harness import durable_state
from tests.fetched import again
from tests.log.compacting import drive
from tests.simulation.disk import SimulatedSyncer
from tests.simulation.loop import NoEnd, NothingLeft, SimulatedLoop
from tests.simulation.requests import Request, Violation, fetched_one_by_one, is_plain, only, without_offsets

from headgate.core.offsets.commands import (
    CommitOffsets,
    Commits,
    CommitShape,
    FetchesAgain,
    FetchOffsets,
)
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicId, TopicName
from headgate.history.offset_history import OffsetHistory
from headgate.log.batch import iterate_records
from headgate.log.memory_filesystem import PowerCut
from headgate.records import OffsetCommit, OffsetTombstone, decode
from headgate.runtime.checkpoints import CheckpointRunner
from headgate.runtime.compaction import CompactionRunner
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.runtime.state_log import Batches
from headgate.server.coordinator import Coordinator
from headgate.server.erasure import OffsetErasure
from headgate.server.group_surroundings import GroupSurroundings
from headgate.shards.groups import group_shards
from headgate.topics.housekeeping import Housekeeping
from headgate.topics.partition import Partition
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

if TYPE_CHECKING:
    from tests.simulation.world import World

DATA_DIR = Path("/data")
HOUSEKEEPING_SECONDS = 5.0

Snapshot = dict[int, dict[str, Any]]
"""The contents of shards, by shard."""


def watched_runtime(
    life: Life, index: int, partition: Partition, commit: GroupCommit
) -> ShardRuntime[GroupShard]:
    """Return the real runtime, which notifies the life of the start and end of a load."""
    runtime = ShardRuntime(life.kind, life.world.logs.connect(partition, commit), life.world.time)

    def loaded() -> None:
        """Check all contents before any other request."""
        life.world.journal.counts["checkpoints restored"] += runtime.checkpoint_position > 0
        life.world.audit.replayed(index, durable_state(runtime.shard))
        life.loaded(index)

    runtime.seconds = life.world.random.random
    runtime.on_loading = lambda: life.loads(index)
    runtime.on_loaded = loaded
    return runtime


class WatchedErasure(OffsetErasure):
    """The real erasure, which reports its start and its end."""

    def __init__(self, life: Life, topics: Topics, coordinator: Coordinator[GroupShard]) -> None:
        super().__init__(topics, coordinator, lambda delay_ms, ask: life.later(delay_ms / 1000, ask))
        self._audit = life.world.audit

    def _ask(self, name: TopicName) -> None:
        self._audit.erasing(name)
        super()._ask(name)

    def _on_replies(self, name: TopicName, errors: list[Any]) -> None:
        if not any(errors):
            self._audit.erased(name)
        super()._on_replies(name, errors)


class Life:
    """From a start of the server to its end. Only the disk remains afterwards."""

    def __init__(self, world: World, *, is_last: bool = False) -> None:
        self.world = world
        # During the last checks of a shard, nothing may expire that another check found before.
        self.settings = world.plan.settings(expires=not is_last)
        self.is_over = False
        self.end_kind = "failed starts"
        self.snapshot: Snapshot | None = None
        """The contents of all shards, after they were checked."""
        self.begun_at: dict[int, int] = {}
        """The end of each shard's log at its first load; records of timers come after it."""
        self.left_at: dict[int, int] = {}
        """The same at the end of the life: then shards may fail, because the disk is gone."""
        self.loading: set[int] = set(range(world.plan.shards))
        """Shards that do not answer yet."""
        self._is_last = is_last
        self._is_closing = False
        self._fetches: dict[str, FetchOffsets] = {}
        """Repeated fetches of named partitions, by their request."""
        self._commits: dict[str, CommitShape] = {}
        """Repeated commits of few partitions without metadata, by their request without offsets."""
        self._loaded: set[int] = set()
        self._looked_at: Snapshot = {}
        self._loop = SimulatedLoop(
            world.time, world.plan.turn_seconds, world.random, world.plan.slowest_sync_seconds
        )
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.runtimes: list[ShardRuntime[GroupShard]] = []
        self._works: list[asyncio.Task[None]] = []
        """Work beside the server."""
        self.surroundings: GroupSurroundings
        self.kind: ShardKind[GroupShard]

    def run(self) -> None:
        """Run the life."""
        self.world.disk.on_power_cut = lambda: self.end("power cuts")
        self._loop.set_exception_handler(self._on_exception)
        main = self._loop.create_task(self._main())
        try:
            self._loop.run_until_complete(main)
        except NothingLeft:
            self.world.journal.report("nothing is left to happen, and somebody waits")
        except NoEnd:
            self.world.journal.report("there is no end to what happens, and somebody waits")
        except (PowerCut, OSError):
            pass  # the process ends, and the next one tries again
        finally:
            self.is_over = True
            if self.end_kind != "clean stops":
                self.world.disk.cut_power_after(0)
            self._loop.forget_tasks()
            self._loop.close()

    async def _main(self) -> None:
        world = self.world
        topics = Topics.open(world.disk, DATA_DIR, self.settings, world.time.system_time())
        topics._shared.seconds = lambda: world.time.seconds
        world.surroundings.begin(self, topics)
        self.surroundings = surroundings = GroupSurroundings(topics)
        self.kind = group_shards(
            self.settings, lambda: surroundings.new_shard(world.time.steady_time()), surroundings.commands
        )
        topic = topics.by_name(GROUP_OFFSETS_TOPIC)
        if topic is None:
            overrides = {"cleanup.policy": "compact", "segment.bytes": str(world.plan.segment_bytes)}
            wanted = NewTopic(GROUP_OFFSETS_TOPIC, TopicId(b"t" * 16), world.plan.shards, overrides)
            created = topics.create(wanted, world.time.system_time())
            if isinstance(created, Refusal):
                raise OSError(created.message)
            topic = created
        syncer = SimulatedSyncer(self._loop, world.random, world.plan.slowest_sync_seconds)
        commit = GroupCommit(self._loop, lambda seconds: None, syncer)
        self.runtimes = [
            watched_runtime(self, index, topic.partition(index), commit) for index in range(world.plan.shards)
        ]
        self._coordinator = Coordinator(self.kind, self.runtimes)
        if not self._is_last:
            world.started(self)
        history = OffsetHistory(topics, world.time)
        compaction = CompactionRunner(topics, world.time, history.rules_of)
        checkpoints = CheckpointRunner(self._coordinator.runtimes, self.settings)
        starting = self._loop.create_task(self._start(topics, (checkpoints, compaction), history, topic))
        starting.add_done_callback(self._started)
        await self._ended
        if self.end_kind == "clean stops":
            self._is_closing = True
            self._loop.finish_works()
            compaction.close()
            history.close()
            self._coordinator.close()
            checkpoints.stop()
            commit.close()
            checkpoints.write_at_stop()
            topics.close()
            self._note_states()

    async def _start(
        self,
        topics: Topics,
        runners: tuple[CheckpointRunner, CompactionRunner],
        history: OffsetHistory,
        topic: Topic,
    ) -> None:
        """Start as the node does, after its topics are loaded."""
        await self._coordinator.load()
        history.open(topic)
        self.surroundings.keep_telling(self._coordinator)
        self._look_after(Housekeeping(topics), history)
        if not self._is_last:
            WatchedErasure(self, topics, self._coordinator).start()
            for runner in runners:
                runner.start()
            self.world.surroundings.started()

    def _look_after(self, housekeeping: Housekeeping, history: OffsetHistory) -> None:
        drive(housekeeping.round(self.world.time.system_time()))
        drive(history.mark_emptied())
        self.later(HOUSEKEEPING_SECONDS, lambda: self._look_after(housekeeping, history))

    def _started(self, starting: asyncio.Task[None]) -> None:
        if not starting.cancelled() and (failure := starting.exception()) is not None:
            self._judge_exception(failure)
            self.end("failed starts")

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if failure is None:
            self.world.journal.report(context["message"])
        else:
            self._judge_exception(failure, context["message"])

    def _judge_exception(self, failure: BaseException, message: str = "") -> None:
        if isinstance(failure, PowerCut) or (isinstance(failure, OSError) and not message):
            return
        if not self.is_over:
            self.world.journal.report(f"{message} {failure!r}")

    def end(self, kind: str) -> None:
        """End this life soon; from now on the disk is unchanged, unless it is a clean end."""
        if self.is_over or self._ended.done():
            return
        self.end_kind = kind
        self.left_at = {index: one.written_position for index, one in enumerate(self.runtimes)}
        if kind != "clean stops":
            self._note_states()
            self.is_over = True
            self.world.disk.cut_power_after(0)
            self.world.logs.cut_off(self.runtimes, is_crash=kind in ("kills", "power cuts"))
        self._ended.set_result(None)

    def _note_states(self) -> None:
        """Remember the state that the next life must find."""
        for index, runtime in enumerate(self.runtimes):
            keeps_all = self.world.logs.keep_all(runtime, self.end_kind)
            self.world.audit.stopped(index, durable_state(runtime.shard) if keeps_all else None)

    # --- for the world ---

    def later(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Run an action later in this life."""
        self._loop.call_later(delay_seconds, lambda: None if self.is_over else action())

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run some work in this life, beside the server."""
        self._works.append(self._loop.create_task(work))

    def soon(self, action: Callable[[], None]) -> None:
        """Run an action after this turn of the loop."""
        self._loop.call_soon(lambda: None if self.is_over else action())

    def submit(self, request: Request, on_reply: Callable[[Any], None]) -> None:
        """Submit a request to the coordinator; a repeated one by the path of repeated requests."""
        if self._is_closing:
            return  # the life has ended
        command = request.command
        group_id = command.group_id
        if isinstance(command, CommitOffsets) and is_plain(command):
            shape, offsets = without_offsets(command)
            shape = self._commits.setdefault(repr(shape.asked), shape)
            self._coordinator.submit(
                group_id, Commits([shape], [offsets]), lambda result: on_reply(only(result))
            )
        elif isinstance(command, FetchOffsets) and command.topics is not None:
            before = self._fetches.setdefault(repr(command), command)
            if before is command:
                self._coordinator.submit(
                    group_id, command, lambda result: on_reply(fetched_one_by_one(command, result))
                )
            else:
                self._coordinator.submit(
                    group_id,
                    FetchesAgain([again(before)]),
                    lambda results: on_reply(fetched_one_by_one(command, only(results))),
                )
        else:
            self._coordinator.submit(group_id, command, on_reply)

    def submit_command(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command that no client sends."""
        self._coordinator.submit(group_id, command, on_reply)

    def ask_shard(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command to one shard."""
        self.runtimes[shard].submit(command, on_reply)

    def had_loaded(self, shard: int) -> bool:
        """Return whether the shard was loaded before in this life."""
        return shard in self._loaded

    def loads(self, shard: int) -> None:
        """Note that a shard begins to read its log."""
        self.world.audit.loads(shard)
        self.loading.add(shard)

    def loaded(self, shard: int) -> None:
        """Note that a shard has read its log."""
        self.loading.discard(shard)
        self._loaded.add(shard)
        self.begun_at.setdefault(shard, self.runtimes[shard].position)
        if not self.is_over:
            self.world.audit.loaded(shard, self)

    def looked_at(self, shard: int, found: dict[str, Any]) -> None:
        """Note that the contents of a shard were checked."""
        self._looked_at[shard] = found
        if self._is_last:
            check_last_of_each_key(self.world.logs.batches(self.runtimes[shard]), found)
        if self._is_last and len(self._looked_at) == len(self.runtimes):
            self.snapshot = dict(sorted(self._looked_at.items()))
            self.end("last looks")


def check_last_of_each_key(batches: Batches, found: dict[str, Any]) -> None:
    """Check that the last record of every key, whatever the runs, is the current value (R3.13)."""
    last: dict[tuple[str, str, int], int] = {}
    for _, batch in batches:
        for _, record in iterate_records(batch):
            match decode(record.key, record.value):
                case OffsetCommit(group_id=group_id, topic=topic, partition=partition, offset=offset):
                    last[group_id, topic, partition] = offset
                case OffsetTombstone(group_id, topic, partition):
                    last.pop((group_id, topic, partition), None)
    stands = {
        (group_id, topic, partition): stored.offset
        for group_id, offsets in found.items()
        for (topic, partition), stored in offsets.items()
    }
    if last != stands:
        wrong = {key for key in last.keys() | stands.keys() if last.get(key) != stands.get(key)}
        raise Violation(f"the last records of {sorted(wrong)} are not the current values")
