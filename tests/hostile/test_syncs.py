"""Syncs by the kernel, for as long as requested, compared with the same syncs by the C library and a thread.

Every sync ends once, with the result of a thread, however many are in flight and whatever is synced: files,
objects that cannot be synced, and unused descriptors.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import pytest
import uvloop
from tests.log.support import append

from headgate.log.filesystem import OsFile, OsFileSystem
from headgate.log.log import Log, LogSettings
from headgate.log.sync import SyncRequest
from headgate.runtime.kernel_queues import MOST_IN_FLIGHT, AsynchronousIo, RingQueue
from headgate.runtime.syncing import KernelSyncer, Syncer, ThreadSyncer

NO_FILE = 1_000_000
"""An unused descriptor."""
STUCK_SECONDS = 30.0
ROUND_SECONDS = 2.0
"""Time until a queue is closed, with syncs in flight, and another one is opened."""

Queue = RingQueue | AsynchronousIo


@pytest.fixture(params=[RingQueue, AsynchronousIo], ids=["ring", "aio"])
def new_queue(request: pytest.FixtureRequest) -> Callable[[], Queue]:
    """Return the type of the queue; skip if the kernel does not support it."""
    made: type[Queue] = request.param
    try:
        made().close()
    except OSError as reason:
        pytest.skip(f"not on this machine: {reason}")
    return made


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("hostile_seconds"))


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    seed = int(request.config.getoption("hostile_seed"))
    print(f"--hostile-seed {seed}")
    return Random(seed)


@pytest.fixture
def descriptors(tmp_path: Path) -> Iterator[list[int]]:
    """Yield the descriptors of eight files, a directory, and an object that cannot be synced."""
    with ExitStack() as stack:
        opened = [os.open(tmp_path / f"file-{index}", os.O_RDWR | os.O_CREAT) for index in range(8)]
        opened += [os.open(tmp_path, os.O_RDONLY), os.open("/dev/null", os.O_RDWR), *os.pipe()]
        for descriptor in opened:
            stack.callback(os.close, descriptor)
        yield [*opened, NO_FILE]


def outcome_of_thread(descriptor: int) -> int:
    """Return 0 or the negative error number of a sync by a thread."""
    try:
        os.fdatasync(descriptor)
    except OSError as failure:
        assert failure.errno is not None
        return -failure.errno
    return 0


class RawQueue:
    """A queue under test: the syncs in flight, and their expected results."""

    def __init__(self, queue: Queue, descriptors: list[int], random: Random) -> None:
        self.queue = queue
        self.ended = 0
        self._descriptors = descriptors
        self._expected = {descriptor: outcome_of_thread(descriptor) for descriptor in descriptors}
        self._in_flight: dict[int, int] = {}
        self._last = 0
        self._random = random
        self._readable = select.epoll()
        self._readable.register(queue.descriptor, select.EPOLLIN)

    def submit(self) -> None:
        """Perhaps write to a file, then submit a sync of it."""
        descriptor = self._random.choice(self._descriptors)
        if self._random.random() < 0.3:
            with suppress(OSError):
                os.pwrite(descriptor, b"x" * self._random.randrange(1, 5000), 0)
        self._last += 1
        try:
            self.queue.submit(descriptor, self._last)
        except OSError as failure:
            if failure.errno not in (errno.EAGAIN, errno.EBUSY):
                self._check(descriptor, -(failure.errno or 0))
        else:
            self._in_flight[self._last] = descriptor

    def attack(self, most_in_flight: int, seconds: float) -> None:
        """Keep up to `most_in_flight` syncs in flight for this time, then wait for all of them."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            target = self._random.randint(1, most_in_flight)
            for _ in range(target - len(self._in_flight)):
                self.submit()
            self.take()
        while self._in_flight:
            self.take()

    def take(self) -> None:
        """Take ended syncs, with or without waiting, and check their results."""
        if self._random.random() < 0.1:
            self._note(self.queue.take(self._random.randint(0, min(len(self._in_flight), MOST_IN_FLIGHT))))
            return
        last = time.monotonic()
        while self._in_flight:
            self._readable.poll(1)
            if self._note(self.queue.take(0)):
                return
            stuck = time.monotonic() - last
            assert stuck < STUCK_SECONDS, f"{len(self._in_flight)} syncs do not end"

    def _note(self, outcomes: list[tuple[int, int]]) -> int:
        for number, result in outcomes:
            self._check(self._in_flight.pop(number), result)
        return len(outcomes)

    def _check(self, descriptor: int, result: int) -> None:
        self.ended += 1
        expected = self._expected[descriptor]
        assert result == expected, f"of {descriptor}: {result}, not {expected}"

    def close(self) -> None:
        self._readable.close()
        self.queue.close()


def test_every_sync_ends_once_with_the_outcome_of_a_thread(
    new_queue: Callable[[], Queue], descriptors: list[int], random: Random, seconds: float
) -> None:
    """One in flight, as many as the kernel accepts, and more than the ring has entries for."""
    end = time.monotonic() + seconds
    ended = 0
    while time.monotonic() < end:
        queue = new_queue()
        attacked = RawQueue(queue, descriptors, random)
        most = [1, 4, MOST_IN_FLIGHT]
        if isinstance(queue, RingQueue):
            most.append(3 * queue.most_outcomes)
        for most_in_flight in most:
            attacked.attack(most_in_flight, min(ROUND_SECONDS, seconds / len(most)))
        attacked.close()
        ended += attacked.ended
    print(f"{ended} syncs ended")
    assert ended > 100


def test_a_ring_closed_in_the_midst_of_its_syncs_harms_no_other(
    descriptors: list[int], random: Random, seconds: float
) -> None:
    """The syncs in flight of one process belong to the kernel, and its descriptors are released."""
    try:
        RingQueue().close()
    except OSError as reason:
        pytest.skip(f"not on this machine: {reason}")
    before = len(list(Path("/proc/self/fd").iterdir()))
    end = time.monotonic() + seconds / 3
    while time.monotonic() < end:
        abandoned = RawQueue(RingQueue(), descriptors, random)
        for _ in range(MOST_IN_FLIGHT):
            abandoned.submit()
        used = RawQueue(RingQueue(), descriptors, random)
        used.attack(MOST_IN_FLIGHT, 0.05)
        abandoned.close()
        used.attack(MOST_IN_FLIGHT, 0.05)
        used.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


class Script:
    """Appends and syncs of some logs, drawn from a seed: the same for every syncer that runs them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = Random(seed)
        settings = LogSettings(segment_bytes=20_000, sync_on_roll=False)
        self.logs = [
            Log.open(OsFileSystem(), directory / f"t-{index}", settings, clean=True)
            for index in range(self._random.randint(1, 90))
        ]
        self.told: list[tuple[int, int | None, int]] = []
        """Every sync in the order of each log: the log, the error number, the durable end of the log."""
        self._under_way: set[int] = set()
        self._ended = asyncio.Event()

    async def run(self, syncer: Syncer, rounds: int) -> None:
        """Run rounds of appends and syncs."""
        for _ in range(rounds):
            for index in self._random.sample(range(len(self.logs)), self._random.randint(1, len(self.logs))):
                self._begin(syncer, index, is_sabotaged=self._random.random() < 0.05)
            while self._under_way:  # continue when all have ended, so that the order is deterministic
                self._ended.clear()
                await asyncio.wait_for(self._ended.wait(), STUCK_SECONDS)

    def _begin(self, syncer: Syncer, index: int, *, is_sabotaged: bool) -> None:
        log = self.logs[index]
        if log.failure is not None:
            log.recover()
        append(log, size=self._random.randint(100, 3000))
        request = log.begin_sync()
        self._under_way.add(index)
        mend = sabotage(request) if is_sabotaged else lambda: None
        syncer.run(request, lambda: self._end(index, request, mend))

    def _end(self, index: int, request: SyncRequest, mend: Callable[[], None]) -> None:
        assert request.has_run
        self._under_way.remove(index)  # fails for a sync that is reported twice
        mend()
        code = None
        try:
            self.logs[index].complete_sync(request)
        except OSError as failure:
            code = failure.errno
        self.told.append((index, code, self.logs[index].durable_offset))
        self._ended.set()

    def leave_some(self, syncer: Syncer) -> list[SyncRequest]:
        """Start syncs whose results are not awaited."""
        requests = []
        for log in self.logs:
            if log.failure is None:
                append(log)
                requests.append(log.begin_sync())
                syncer.run(requests[-1], lambda: pytest.fail("told after the close"))
        return requests

    def close(self) -> None:
        for log in self.logs:
            log.close_files()


def sabotage(request: SyncRequest) -> Callable[[], None]:
    """Replace the last file of a sync by an invalid one; return the function that restores it."""
    file = request.parts[-1][1]
    assert isinstance(file, OsFile)
    descriptor, file._descriptor = file._descriptor, NO_FILE

    def mend() -> None:
        file._descriptor = descriptor

    return mend


def play(new_syncer: Callable[[asyncio.AbstractEventLoop], Syncer], directory: Path, seed: int) -> Script:
    """Run a script with a syncer and return it."""

    async def scenario() -> Script:
        script = Script(directory, seed)
        syncer = new_syncer(asyncio.get_running_loop())
        await script.run(syncer, rounds=30)
        left = script.leave_some(syncer)
        syncer.close()
        assert all(request.has_run and request.error is None for request in left)
        await asyncio.sleep(0)
        script.close()
        return script

    directory.mkdir(parents=True)
    return uvloop.run(scenario())


@pytest.mark.interpreted
def test_logs_synced_by_the_kernel_are_as_logs_synced_by_a_thread(
    new_queue: Callable[[], Queue], tmp_path: Path, random: Random, seconds: float
) -> None:
    """The same appends, rolls and failures: every log has the same syncs with the same results, in order."""
    end = time.monotonic() + seconds
    lives = syncs = failed = 0
    while time.monotonic() < end or lives == 0:
        seed = random.getrandbits(32)
        lives += 1
        by_kernel = play(lambda loop: KernelSyncer(loop, new_queue()), tmp_path / f"kernel-{lives}", seed)
        by_thread = play(ThreadSyncer, tmp_path / f"thread-{lives}", seed)
        for index in range(len(by_kernel.logs)):
            told = [one for one in by_kernel.told if one[0] == index]
            assert told == [one for one in by_thread.told if one[0] == index], f"seed {seed}, log {index}"
        for by in ("kernel", "thread"):
            shutil.rmtree(tmp_path / f"{by}-{lives}")
        syncs += len(by_kernel.told)
        failed += sum(code == errno.EBADF for _, code, _ in by_kernel.told)
    print(f"{lives} lives, {syncs} syncs, {failed} of them failed")
    assert syncs > failed > 0
