"""Checkpoints: whatever becomes of them, a start leads where the log alone leads, and mostly sooner."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from crc32c import crc32c

from headgate.core.offsets import image
from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from headgate.core.shard import GroupShard
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, MemberId, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.log import state_file
from headgate.log.compaction import CompactionOrder, compact
from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.log.state_file import STATE_NAME
from headgate.records.run_completeness import RunCompleteness
from headgate.server import checkpoints
from headgate.server.checkpoints import CheckpointGivenUp, CheckpointWriter
from headgate.server.clock import Clock
from headgate.server.group_commit import GroupCommit
from headgate.server.node import BrokerNode
from headgate.server.shard_runtime import ShardRuntime
from headgate.topics.topics import NewTopic, Topics

# A power cut ends the thread that syncs: there is no machine for it to run on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

DATA_DIR = Path("/data")
PARTITION_DIR = DATA_DIR / f"{GROUP_OFFSETS_TOPIC}-0"
STATE_FILE = PARTITION_DIR / STATE_NAME
TOPIC = TopicName("t")
Offsets = dict[tuple[str, int], int]
"""By group and partition."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of a few offsets takes several parts."""
    monkeypatch.setattr(image, "_ROWS_A_PART", 4)


class Life:
    """One life of a shard; what was acknowledged in it is in `offsets`."""

    def __init__(self, files: MemoryFileSystem, offsets: Offsets, topic_id: bytes = b"t" * 16) -> None:
        clock = Clock()
        self.offsets = offsets
        self.topics = Topics.open(files, DATA_DIR, Settings(), clock.now())
        topic = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        if topic is None:
            overrides = {"cleanup.policy": "compact", "segment.bytes": "1024"}
            self.topics.create(NewTopic(GROUP_OFFSETS_TOPIC, TopicId(topic_id), 2, overrides), clock.now())
            topic = self.topics.by_name(GROUP_OFFSETS_TOPIC)
        assert topic is not None
        self.partition = topic.partition(0)
        self.group_commit = GroupCommit(asyncio.get_running_loop(), lambda seconds: None)
        self.runtime = ShardRuntime(lambda: GroupShard(Settings()), self.partition, self.group_commit, clock)

    async def submit(self, command: Any) -> Any:
        reply = asyncio.get_running_loop().create_future()
        self.runtime.submit(command, lambda result: None if reply.done() else reply.set_result(result))
        return await asyncio.wait_for(reply, 30)

    async def commit(self, group: str, partition: int, offset: int) -> None:
        """Commit, and remember what was acknowledged."""
        wanted = [OffsetToCommit(partition, offset, -1, "")]
        await self.submit(CommitOffsets(GroupId(group), [(TOPIC, wanted)], MemberId(""), -1))
        self.offsets[group, partition] = offset

    async def delete(self, group: str, partition: int) -> None:
        """Delete an offset."""
        await self.submit(DeleteOffsets(GroupId(group), [(TOPIC, [partition])]))
        self.offsets.pop((group, partition), None)

    async def fill(self, first: int = 0, count: int = 12) -> None:
        """Some offsets of some groups."""
        for number in range(first, first + count):
            await self.commit(f"g{number % 5}", number % 7, number)

    async def write(self, execute: Callable[[Callable[[], None]], Awaitable[None]] | None = None) -> None:
        """Write a checkpoint."""
        await CheckpointWriter(self.runtime).write(self.group_commit, execute or at_once)

    def held(self) -> Offsets:
        """All offsets the shard holds."""
        table = self.runtime.shard.offsets
        return {
            (group, partition): stored.offset
            for group in table.group_ids()
            for _, partition, stored in table.offsets_of(group)
        }

    def end(self) -> None:
        """Stop the threads; what the disk does not have is lost."""
        with suppress(PowerCut, OSError):
            self.group_commit.close()


async def at_once(work: Callable[[], None]) -> None:
    work()


def new_disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    return files


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


async def begin(files: MemoryFileSystem, offsets: Offsets | None = None) -> Life:
    life = Life(files, {} if offsets is None else offsets)
    await life.runtime.load()
    return life


async def check_next_life(files: MemoryFileSystem, offsets: Offsets, *, uses: bool | None = None) -> None:
    """A new process holds these offsets, having used the checkpoint or not, and goes on to work."""
    life = await begin(files, dict(offsets))
    assert life.held() == offsets
    if uses is not None:
        assert (life.runtime.checkpoint_position > 0) == uses
    await life.commit("later", 0, 5)
    assert life.held() == life.offsets
    life.end()


def bytes_of(files: MemoryFileSystem, path: Path = STATE_FILE) -> bytes:
    file = files.open(path)
    return file.pread(file.size(), 0)


def put_bytes(files: MemoryFileSystem, data: bytes, path: Path = STATE_FILE) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)


# --- what it is for ---


def test_a_start_uses_the_checkpoint_and_what_the_log_holds_beyond_it() -> None:
    """Offsets from before it, from after it, and deleted after it: all as they were."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        await life.fill(first=6, count=9)
        await life.delete("g0", 0)
        life.end()
        files.crash()
        await check_next_life(files, life.offsets, uses=True)

    run(scenario)


def test_commits_go_on_while_a_checkpoint_is_written() -> None:
    """Between any two of its parts something is committed or deleted, and nothing of it is lost or undone."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill(count=30)
        number = 100

        async def busily(work: Callable[[], None]) -> None:
            nonlocal number
            work()
            number += 1
            await life.commit(f"g{number % 6}", number % 9, number)
            await life.delete(f"g{number % 4}", number % 7)

        await life.write(busily)
        assert number > 105
        life.end()
        files.crash()
        await check_next_life(files, life.offsets, uses=True)

    run(scenario)


def test_a_checkpoint_reaches_no_further_than_the_log_is_durable() -> None:
    """What was committed meanwhile and not synced is waited for before the checkpoint is put in place."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        seen: list[int] = []
        finish = state_file.StateFileWriter.finish

        def watch(writer: Any, bond: Any, contents: Any) -> None:
            seen.append(bond.end_offset)
            assert unsynced[0] <= bond.end_offset <= life.partition.log.durable_offset
            finish(writer, bond, contents)

        unsynced = [0]

        async def and_commit(work: Callable[[], None]) -> None:
            work()
            if not seen:
                wanted = [OffsetToCommit(1, 77, -1, "")]
                command = CommitOffsets(GroupId("g1"), [(TOPIC, wanted)], MemberId(""), -1)
                life.runtime.submit(command, lambda result: None)
                unsynced[0] = life.runtime.position

        with patch.object(state_file.StateFileWriter, "finish", watch):
            await life.write(and_commit)
        assert len(seen) == 1
        life.end()

    run(scenario)


# --- crashes and failing disks ---


@pytest.mark.parametrize("kind", ["plain", "random", "killed"])
def test_a_crash_at_any_change_of_a_checkpoint_leaves_what_was_acknowledged(kind: str) -> None:
    """The first checkpoint and the one after it, with commits in between: old, new or none, all is there."""

    async def scenario() -> None:
        cuts = 0
        for changes in range(200):
            files = new_disk()
            life = await begin(files)
            await life.fill()
            await life.write()
            await life.fill(first=3, count=5)
            await life.delete("g1", 1)
            files.cut_power_after(changes, torn_bytes=changes * 7 % 50)
            is_cut = False
            try:
                await life.write()
            except (PowerCut, CheckpointGivenUp):
                is_cut = True
            life.end()
            if kind == "killed":
                files.kill()
            else:
                files.crash(Random(changes) if kind == "random" else None)
            await check_next_life(files, life.offsets, uses=True)
            if not is_cut:
                break
            cuts += 1
        else:
            pytest.fail("the checkpoint never came to its end")
        assert cuts > 8

    run(scenario)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_refuses_a_checkpoint_costs_nothing_else(error: int) -> None:
    """At whatever change it refuses: commits go on, the old checkpoint stays, the next one succeeds."""

    async def scenario() -> None:
        refusals = 0
        for changes in range(200):
            files = new_disk()
            life = await begin(files)
            await life.fill()
            await life.write()
            await life.fill(first=3, count=5)
            files.inject(Fault(error, after=changes, written=11))
            try:
                await life.write()
            except OSError:
                refusals += 1
                files.heal()
                assert life.runtime.is_active
                await life.fill(first=8, count=3)
                names = files.listdir(PARTITION_DIR)
                assert STATE_NAME in names
                await life.write()
            else:
                break
            life.end()
            files.crash()
            await check_next_life(files, life.offsets, uses=True)
        assert refusals > 8

    run(scenario)


def test_a_shard_that_fails_meanwhile_gets_no_checkpoint() -> None:
    """A write of the log that fails in the midst of it: the checkpoint is given up, the old one stays."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        before = bytes_of(files)
        await life.fill(first=3)

        async def fail(work: Callable[[], None]) -> None:
            work()
            if life.runtime.is_active:
                files.inject(Fault(errno.EIO, "pwrite", path_ends=".log"))
                command = CommitOffsets(
                    GroupId("g"), [(TOPIC, [OffsetToCommit(0, 1, -1, "")])], MemberId(""), -1
                )
                life.runtime.submit(command, lambda result: None)
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        with pytest.raises(CheckpointGivenUp):
            await life.write(fail)
        assert bytes_of(files) == before
        life.end()

    run(scenario)


# --- never trusted over the log ---


def _newer_format(files: MemoryFileSystem, life: Life) -> None:
    put_bytes(files, bytes_of(files).replace(b"headgate shard 1", b"headgate shard 2", 1))


def _rewritten(change: Callable[[dict[str, Any]], None]) -> Callable[[MemoryFileSystem, Life], None]:
    """Change the footer, with a right checksum."""

    def rewrite(files: MemoryFileSystem, life: Life) -> None:
        data = bytes_of(files)
        size, _, mark = state_file._TAIL.unpack(data[-state_file._TAIL.size :])
        at = len(data) - state_file._TAIL.size - size
        footer = json.loads(data[at : at + size])
        change(footer)
        text = json.dumps(footer).encode()
        tail = state_file._TAIL.pack(len(text), crc32c(text), mark)
        put_bytes(files, data[:at] + text + tail)

    return rewrite


def _cut(files: MemoryFileSystem, life: Life) -> None:
    put_bytes(files, bytes_of(files)[:-40])


def _empty(files: MemoryFileSystem, life: Life) -> None:
    put_bytes(files, b"")


def _without_names(footer: dict[str, Any]) -> None:
    footer["sections"] = [one for one in footer["sections"] if one[0] != image.GROUPS]


USELESS: dict[str, Callable[[MemoryFileSystem, Life], None]] = {
    "of a newer format": _newer_format,
    "cut off": _cut,
    "empty": _empty,
    "of another topic": _rewritten(lambda footer: footer["bond"].update(topic_id="00" * 16)),
    "of another partition": _rewritten(lambda footer: footer["bond"].update(partition=1)),
    "of another machine": _rewritten(lambda footer: footer.update(byte_order="middle")),
    "of a log that starts elsewhere": _rewritten(lambda footer: footer["bond"].update(log_start_offset=2)),
    "of a longer log": _rewritten(lambda footer: footer["bond"].update(end_offset=10_000)),
    "of a log with another batch": _rewritten(
        lambda footer: footer["bond"].update(last_batch=[*footer["bond"]["last_batch"][:2], 1])
    ),
    "with a footer that is none": _rewritten(lambda footer: footer.clear()),
    "that lacks a part": _rewritten(_without_names),
}


@pytest.mark.parametrize("useless", USELESS.values(), ids=USELESS.keys())
def test_a_checkpoint_of_no_use_is_ignored_and_said_to_be(
    useless: Callable[[MemoryFileSystem, Life], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The whole log is read, a line says why, and the next checkpoint takes its place."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        await life.fill(first=4, count=3)
        life.end()
        files.kill()
        useless(files, life)
        with caplog.at_level(logging.WARNING):
            again = await begin(files, dict(life.offsets))
        assert "a checkpoint cannot be used" in caplog.text
        assert again.held() == life.offsets
        assert again.runtime.checkpoint_position == 0
        await again.write()
        again.end()
        files.kill()
        await check_next_life(files, life.offsets, uses=True)

    run(scenario)


def test_a_checkpoint_with_a_byte_changed_is_found_out() -> None:
    """Bytes all over it: the offsets are right, by the log if need be."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        life.end()
        files.kill()
        good = bytes_of(files)
        for at in range(0, len(good), 29):
            put_bytes(files, good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
            again = await begin(files)
            assert again.held() == life.offsets, at
            assert again.runtime.checkpoint_position == 0, at
            again.end()
            files.kill()

    run(scenario)


def test_a_log_that_was_cut_back_behind_a_checkpoint_is_right() -> None:
    """The end of the log is lost, other records take its place, until it is longer than it was."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        offsets, end = dict(life.offsets), life.partition.log.log_end_offset
        await life.fill(first=40, count=3)
        await life.write()
        life.partition.log.truncate(end)
        life.end()
        files.kill()
        again = await begin(files, offsets)
        assert again.held() == offsets
        await again.fill(first=80, count=6)
        again.end()
        files.kill()
        await check_next_life(files, again.offsets, uses=False)

    run(scenario)


def test_records_deleted_from_the_log_do_not_come_back() -> None:
    """What DeleteRecords took from the log's beginning is not in the checkpoint's power to restore."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        for number in range(20):
            await life.commit("g", number, number)
        await life.write()
        life.partition.log.delete_before(10)
        life.end()
        files.kill()
        left = {place: offset for place, offset in life.offsets.items() if offset >= 10}
        await check_next_life(files, left, uses=False)

    run(scenario)


async def _compact(life: Life) -> None:
    """Compact all closed segments; tombstones go as soon as they may."""
    log = life.partition.log
    steps = compact(
        log,
        CompactionOrder(
            now_ms=Clock().now() + 10**9,
            delete_retention_ms=0,
            not_beyond=log.segments.closed[-1].next_offset,
            new_completeness=RunCompleteness,
        ),
    )
    for work in steps:
        if work is not None:
            work()


def test_offsets_deleted_before_the_tombstone_was_compacted_away_stay_deleted() -> None:
    """The checkpoint has them, the log knows nothing of them any more: the log is right."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        await life.delete("g1", 1)
        await life.delete("g2", 2)
        for number in range(60):
            await life.commit("other", 0, number)
        await _compact(life)
        for number in range(60):
            await life.commit("other", 0, number)
        await _compact(life)
        life.end()
        files.kill()
        await check_next_life(files, life.offsets, uses=False)

    run(scenario)


def test_a_checkpoint_outlives_the_compaction_of_what_lies_before_it() -> None:
    """Segments below its position are rewritten: it stands for the same, and is used."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        for number in range(60):
            await life.commit("other", 0, number)
        await life.delete("g1", 1)
        await life.write()
        await _compact(life)
        assert life.partition.log.compacted_to > 0
        await life.fill(first=2, count=3)
        life.end()
        files.kill()
        await check_next_life(files, life.offsets, uses=True)

    run(scenario)


# --- when it is written ---


def _node(files: MemoryFileSystem, **given: str) -> BrokerNode:
    settings = Settings({name.replace("_", "."): value for name, value in given.items()})
    return BrokerNode(files, DATA_DIR, settings, Clock())


async def _commit_to(node: BrokerNode, count: int) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    for number in range(count):
        command = CommitOffsets(
            GroupId("g"), [(TOPIC, [OffsetToCommit(number, number, -1, "")])], MemberId(""), -1
        )
        last = number == count - 1
        node.coordinator.submit(GroupId("g"), command, done.set_result if last else lambda result: None)
    await asyncio.wait_for(done, 30)


async def _fetch_from(node: BrokerNode) -> int:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.coordinator.submit(GroupId("g"), FetchOffsets(GroupId("g"), None), done.set_result)
    fetched = await asyncio.wait_for(done, 30)
    return sum(len(partitions) for _, partitions in fetched.topics)


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_a_log_that_grew_gets_a_checkpoint_in_the_background(
    is_enabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many records as the setting says, unasked; and never where it is switched off."""
    monkeypatch.setattr(checkpoints, "LOOK_EVERY_SECONDS", 0.01)

    async def scenario() -> None:
        files = new_disk()
        given = {
            "headgate_checkpoint_interval_records": "50",
            "headgate_checkpoint_enable": is_enabled,
            "offsets_topic_num_partitions": "1",
        }
        node = _node(files, **given)
        await node.start()
        await _commit_to(node, 49)
        await asyncio.sleep(0.1)
        assert not files.exists(STATE_FILE)
        await _commit_to(node, 60)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if files.exists(STATE_FILE):
                break
        assert files.exists(STATE_FILE) == (is_enabled == "true")
        node.close()
        files.crash()
        again = _node(files, **given)
        await again.start()
        assert await _fetch_from(again) == 60
        again.close()

    run(scenario)


def test_a_clean_stop_leaves_a_checkpoint_if_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough records since the last one: the next start has nothing of the log to read. Else none."""
    monkeypatch.setattr(checkpoints, "FEWEST_AT_STOP", 20)

    async def scenario() -> None:
        for count, durability in ((19, "sync"), (20, "sync"), (20, "page-cache")):
            files = new_disk()
            node = _node(files, headgate_durability=durability)
            await node.start()
            await _commit_to(node, count)
            node.close()
            assert files.exists(STATE_FILE) == (count == 20)
            files.crash()
            again = _node(files)
            await again.start()
            assert await _fetch_from(again) == count
            if count == 20:
                (runtime,) = again.coordinator.runtimes
                assert runtime.checkpoint_position == runtime.position == 20
            again.close()

    run(scenario)


def test_a_compaction_past_the_checkpoint_calls_for_a_new_one() -> None:
    """What is of no use any more counts as not written."""

    async def scenario() -> None:
        files = new_disk()
        life = await begin(files)
        await life.fill()
        await life.write()
        for number in range(60):
            await life.commit("other", 0, number)
        assert not checkpoints._is_due(life.runtime, 70)
        await _compact(life)
        assert life.partition.log.compacted_to > life.runtime.checkpoint_position
        assert checkpoints._is_due(life.runtime, 70)
        await life.write()
        assert not checkpoints._is_due(life.runtime, 70)
        life.end()

    run(scenario)
