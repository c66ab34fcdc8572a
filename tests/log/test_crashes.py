"""Power cuts at every byte of a write and at every change of longer operations.

Each scenario runs repeatedly with the power cut one change later, until it is complete. The reopened log
consists of whole batches between permitted offsets, opens the same way a second time, and accepts appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from tests.log.support import DATA, DIRECTORY, Place, append, batch_at, contents, delete, memory, sync

from headgate.log.batch import read_header
from headgate.log.deletion import DELETED_SUFFIX
from headgate.log.filesystem import MemoryFileSystem, PowerCut
from headgate.log.log import Log, LogSettings, remove_deleted

Crash = Callable[[MemoryFileSystem, int], None]


def kill(files: MemoryFileSystem, changes: int) -> None:
    """The process ends; the machine goes on."""
    files.kill()


def lose_all(files: MemoryFileSystem, changes: int) -> None:
    """The machine ends, and nothing unsynced survives."""
    files.crash()


def lose_some(files: MemoryFileSystem, changes: int) -> None:
    """The machine ends, and some of what was unsynced survives."""
    files.crash(Random(changes))


CRASHES: list[Crash] = [kill, lose_all, lose_some]
THREE_TO_A_SEGMENT = LogSettings(segment_bytes=3 * len(batch_at(0)) + 10, index_interval_bytes=100)


@pytest.fixture(autouse=True, params=["files that grow", "room ahead"])
def has_room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether logs reserve room ahead of what they write: what survives a crash is the same."""
    has_room: bool = request.param == "room ahead"
    if has_room:
        monkeypatch.setattr(
            f"{__name__}.THREE_TO_A_SEGMENT",
            replace(THREE_TO_A_SEGMENT, room_bytes=10_000),
        )
    return has_room


def reopen(place: Place) -> Log:
    """The log after a crash; a second opening finds nothing more to do."""
    log = place.open()
    first = contents(log)
    reports = len(place.reported)
    log = place.open()
    assert contents(log) == first
    assert len(place.reported) == reports, "a second recovery found something to drop"
    return log


def goes_on(log: Log, expected: list[bytes]) -> None:
    """The log takes an append after what it holds, and a sync makes it durable."""
    added = append(log)
    sync(log)
    assert contents(log) == [*expected, added]
    assert log.durable_offset == log.log_end_offset


class Scenario:
    """A log of `count` batches of one record, all synced, in a new file system."""

    def __init__(self, count: int) -> None:
        self.files: MemoryFileSystem = memory()
        self.place = Place(self.files, settings=THREE_TO_A_SEGMENT)
        self.log = self.place.open()
        self.batches = [append(self.log) for _ in range(count)]
        self.unsynced: list[bytes] = []
        if count:
            sync(self.log)

    def run_until_power_cut(self, action: Callable[[Scenario], object], changes: int) -> bool:
        """Run `action` with the power cut after so many changes; whether it got through before."""
        self.files.cut_power_after(changes)
        try:
            action(self)
        except PowerCut:
            return False
        return True


def crashed_anywhere(
    crash: Crash, begin: Callable[[], Scenario], action: Callable[[Scenario], object]
) -> Iterator[tuple[Scenario, bool]]:
    """Scenarios that crashed in the action, each one change later, and whether it had got through."""
    for changes in range(200):
        scenario = begin()
        got_through = scenario.run_until_power_cut(action, changes)
        crash(scenario.files, changes)
        yield scenario, got_through
        if got_through:
            return
    raise AssertionError("the scenario never got through")


class Survive(Random):
    """So many unsynced bytes survive; with `zeros`, the file's new size does too."""

    def __init__(self, survivors: int, zeros: bool) -> None:
        super().__init__()
        self.survivors = survivors
        self.zeros = zeros

    def randint(self, a: int, b: int) -> int:
        return min(self.survivors, b)

    def random(self) -> float:
        return 0.0 if self.zeros else 1.0


@pytest.mark.parametrize("way", ["torn by the process", "torn by the machine", "torn to zeros"])
def test_a_write_torn_at_any_byte_leaves_whole_batches(way: str, has_room: bool) -> None:
    """Of two batches in one write, complete ones survive, and no part of one."""
    two = [batch_at(2), batch_at(3)]
    size = len(two[0])
    for torn_bytes in range(2 * size + 1):
        scenario = Scenario(2)
        scenario.log.settings = replace(THREE_TO_A_SEGMENT, segment_bytes=1 << 20)
        if way == "torn by the process":
            scenario.files.cut_power_after(int(has_room), torn_bytes=torn_bytes)  # it is had before
            with pytest.raises(PowerCut):
                scenario.log.append(b"".join(two), [read_header(batch) for batch in two])
            scenario.files.kill()
        else:
            scenario.log.append(b"".join(two), [read_header(batch) for batch in two])
            scenario.files.crash(Survive(torn_bytes, way == "torn to zeros"))
        log = reopen(scenario.place)
        # The last byte is the header count of a record without headers: a zero all the same.
        grows_whole = way == "torn by the process" and has_room
        whole = (torn_bytes + 1 if way == "torn to zeros" or grows_whole else torn_bytes) // size
        assert contents(log) == scenario.batches + two[:whole]
        if has_room:
            dropped = len(b"".join(two)[whole * size : torn_bytes].rstrip(b"\0"))
        else:
            dropped = (2 * size if way == "torn to zeros" else torn_bytes) - whole * size
        assert [r.dropped_bytes for r in scenario.place.reported] == ([dropped] if dropped else [])
        goes_on(log, scenario.batches + two[:whole])


def test_a_tail_of_zeros_is_dropped_and_reported(has_room: bool) -> None:
    """A file that grew without its contents ends at the last batch, and the report counts the zeros.

    In logs with preallocation they are preallocated space.
    """
    scenario = Scenario(2)
    file = scenario.files.open(DIRECTORY / f"{0:020d}.log")
    file.truncate(file.size() + 5000)
    log = reopen(scenario.place)
    assert contents(log) == scenario.batches
    if has_room:
        assert not scenario.place.reported
        return
    assert [(r.dropped_bytes, r.end_offset) for r in scenario.place.reported] == [(5000, 2)]
    assert "zeros" in scenario.place.reported[0].reason


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_appends_that_roll_survive_a_power_cut_anywhere(crash: Crash, count: int) -> None:
    """Every synced batch remains, and a prefix of the others."""

    def work(scenario: Scenario) -> None:
        for at in range(5):
            append(scenario.log)
            if at % 2:
                sync(scenario.log)

    for scenario, _ in crashed_anywhere(crash, lambda: Scenario(count), work):
        durable = scenario.log.durable_offset
        log = reopen(scenario.place)
        survived = contents(log)
        attempted = scenario.batches + [batch_at(count + at) for at in range(5)]
        assert survived == attempted[: len(survived)]
        assert len(survived) >= durable
        goes_on(log, survived)


def test_a_later_segment_never_outlives_an_earlier_one() -> None:
    """Without syncs, rolls leave a prefix, even if every file loses whole batches only."""
    for survivors in range(4):
        scenario = Scenario(1)
        batches = scenario.batches + [append(scenario.log) for _ in range(8)]
        scenario.files.crash(Survive(survivors * len(batches[0]), zeros=False))
        survived = contents(reopen(scenario.place))
        assert survived == batches[: len(survived)]


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("offset", [1, 3, 4, 9, 10])
def test_deleting_the_head_survives_a_power_cut_anywhere(crash: Crash, offset: int) -> None:
    """The log has the old start or the new one; nothing after the start is lost."""
    for scenario, got_through in crashed_anywhere(
        crash, lambda: Scenario(10), lambda scenario: scenario.log.delete_before(offset)
    ):
        log = reopen(scenario.place)
        assert log.log_start_offset in ((offset,) if got_through else (0, offset))
        assert contents(log) == scenario.batches[log.log_start_offset :]
        goes_on(log, contents(log))


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize(("retention_ms", "start"), [(1006, 3), (0, 10)])
def test_retention_survives_a_power_cut_anywhere(crash: Crash, retention_ms: int, start: int) -> None:
    """Retention either happened or did not, also where it closes the active segment."""
    now = 10_000 if start == 10 else 1002 + retention_ms + 1
    for scenario, got_through in crashed_anywhere(
        crash, lambda: Scenario(10), lambda scenario: scenario.log.apply_retention(now, retention_ms, -1)
    ):
        log = reopen(scenario.place)
        assert log.log_start_offset in ((start,) if got_through else (0, start))
        assert log.log_end_offset == 10
        assert contents(log) == scenario.batches[log.log_start_offset :]
        goes_on(log, contents(log))


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("offset", [0, 2, 3, 8])
def test_truncation_survives_a_power_cut_anywhere(crash: Crash, offset: int) -> None:
    """The truncated tail is removed, or a prefix of it remains."""
    for scenario, got_through in crashed_anywhere(
        crash, lambda: Scenario(10), lambda scenario: scenario.log.truncate(offset)
    ):
        log = reopen(scenario.place)
        survived = contents(log)
        assert survived == scenario.batches[: len(survived)]
        assert len(survived) == offset if got_through else len(survived) >= offset
        goes_on(log, survived)


@pytest.mark.parametrize("crash", CRASHES)
def test_deleting_a_log_survives_a_power_cut_anywhere(crash: Crash) -> None:
    """The log is complete or renamed; a renamed one can be removed."""
    for scenario, got_through in crashed_anywhere(
        crash, lambda: Scenario(7), lambda scenario: delete(scenario.log)
    ):
        log = reopen(scenario.place)
        assert contents(log) in ([], scenario.batches)
        assert not (got_through and contents(log))
        remove_deleted(scenario.files, DATA)
        assert not [name for name in scenario.files.listdir(DATA) if name.endswith(DELETED_SUFFIX)]
        goes_on(log, contents(log))


@pytest.mark.parametrize("crash", CRASHES)
def test_closing_survives_a_power_cut_anywhere(crash: Crash) -> None:
    """An interrupted close loses nothing; a complete one is a clean stop."""

    def begin() -> Scenario:
        scenario = Scenario(5)
        scenario.unsynced = [append(scenario.log), append(scenario.log)]
        return scenario

    for scenario, got_through in crashed_anywhere(crash, begin, lambda scenario: scenario.log.close()):
        survived = contents(scenario.place.open(clean=got_through))
        assert survived[:5] == scenario.batches
        assert survived == (scenario.batches + scenario.unsynced)[: len(survived)]
        assert not got_through or len(survived) == 7
        goes_on(reopen(scenario.place), survived)


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("bad", [1, 4, 7])
def test_recovery_itself_survives_a_power_cut_anywhere(crash: Crash, bad: int) -> None:
    """A log with a bad batch in the middle ends there, however often its recovery is interrupted."""

    def begin() -> Scenario:
        scenario = Scenario(10)
        size = len(batch_at(0))
        file = scenario.files.open(DIRECTORY / f"{bad // 3 * 3:020d}.log")
        file.pwrite(b"\xff", bad % 3 * size + 65)
        file.datasync()
        if scenario.files.exists(DIRECTORY / "headgate.checkpoint"):
            scenario.files.remove(DIRECTORY / "headgate.checkpoint")
            scenario.files.sync_directory(DIRECTORY)
        return scenario

    for scenario, _ in crashed_anywhere(crash, begin, lambda scenario: scenario.place.open()):
        log = reopen(scenario.place)
        assert contents(log) == scenario.batches[:bad]
        goes_on(log, scenario.batches[:bad])
