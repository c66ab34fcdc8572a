"""Power cuts and disk errors at every change of a compaction: the log is the old or the new one, never
a mix.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest
from tests.log.compacting import NOW, advance, all_records, compacted, order, put, put_run, replayed
from tests.log.support import Place, contents, memory, sync

from headgate.log.compaction import compact
from headgate.log.filesystem import Fault, MemoryFileSystem, PowerCut
from headgate.log.log import Log, LogSettings
from headgate.log.swap import CompactionState

SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=150)


def scenario() -> tuple[MemoryFileSystem, Place, Log]:
    """A log with replaced keys, tombstones, a torn run, and a whole one over several segments; all synced."""
    files = memory()
    place = Place(files, settings=SETTINGS)
    log = place.open()
    for at in range(12):
        put(log, [(f"k{at % 4}", f"v{at}")])
    put(log, [("k1", None), ("k2", None)])
    put_run(log, [("k0", "torn"), ("k3", "torn")], batches=1, whole=False)
    put_run(log, [(f"r{at % 7}", f"{at}") for at in range(14)], batches=7)
    put(log, [("k2", "again")])
    for at in range(6):
        put(log, [("k3", f"w{at}")])
    sync(log)
    return files, place, log


def crash(files: MemoryFileSystem, kind: str, seed: int) -> None:
    """End the process, or the machine with nothing or some of what was not durable."""
    if kind == "kill":
        files.kill()
    else:
        files.crash(Random(seed) if kind == "lose some" else None)


def reopened(place: Place) -> Log:
    """The log after a crash; a second opening finds nothing more to do, and nothing lies around."""
    place.open()
    log = place.open()
    names = place.files.listdir(place.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".tmp"))]
    assert not place.reported, "recovery dropped something"
    return log


@pytest.mark.parametrize("kind", ["kill", "lose all", "lose some"])
def test_a_power_cut_at_any_change_leaves_the_old_log_or_the_new(kind: str) -> None:
    """The state is the same after every crash, and the next compaction finishes the work."""
    _, _, log = scenario()
    state, end = replayed(log), log.log_end_offset
    compacted(log)
    outcome = contents(log)
    for changes in range(500):
        files, place, log = scenario()
        before = contents(log)
        files.cut_power_after(changes, torn_bytes=changes % 90)
        got_through = False
        try:
            compacted(log)
            got_through = True
        except PowerCut:
            pass
        crash(files, kind, changes)
        log = reopened(place)
        assert replayed(log) == state, changes
        assert (log.log_start_offset, log.log_end_offset) == (0, end)
        assert set(all_records(log)) <= set(range(end))
        if not got_through and log.compacted_to == 0:
            assert contents(log) == before
        put(log, [("later", "1")])
        sync(log)
        compacted(log, not_beyond=end)
        assert contents(log)[:-1] == outcome
        assert replayed(log) == {**state, "later": "1"}
        if got_through:
            assert changes > 30
            return
    raise AssertionError("the compaction never got through")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_change_loses_nothing(error: int) -> None:
    """If the outcome is unknown the log fails and is recovered; otherwise it continues."""
    _, _, log = scenario()
    state = replayed(log)
    outcomes = set()
    for changes in range(500):
        files, place, log = scenario()
        files.inject(Fault(error, after=changes, written=17))
        got_through = False
        try:
            compacted(log)
            got_through = True
        except OSError:
            pass
        files.heal()
        has_failed = log.failure is not None
        outcomes.add(has_failed)
        if has_failed:
            log.recover()
        assert replayed(log) == state, changes
        put(log, [("later", "1")])
        sync(log)
        compacted(log)
        assert replayed(log) == {**state, "later": "1"}
        assert replayed(reopened(place)) == {**state, "later": "1"}
        if got_through:
            assert outcomes == {True, False}
            return
    raise AssertionError("the compaction never got through")


def test_power_cuts_over_many_compactions_never_lose_a_record() -> None:
    """Random writes, compactions and crashes end with the written state."""
    for seed in range(60):
        random = Random(seed)
        files = memory()
        place = Place(files, settings=LogSettings(random.choice([150, 400, 1500]), index_interval_bytes=100))
        log = place.open()
        state: dict[str, str] = {}
        now = NOW
        for _ in range(8):
            for _ in range(random.randint(1, 12)):
                key, value = f"k{random.randint(0, 5)}", random.choice([None, f"v{random.random()}"])
                put(log, [(key, value)], codec=random.randint(0, 4))
                state.pop(key, None)
                if value is not None:
                    state[key] = value
            sync(log)
            now += random.randint(0, 150)
            files.cut_power_after(random.randint(0, 80), torn_bytes=random.randint(0, 100))
            try:
                compacted(log, now=now, table_bytes=random.choice([0, 1 << 16]))
            except PowerCut:
                crash(files, random.choice(["kill", "lose all", "lose some"]), seed)
                log = reopened(place)
            else:
                files.kill()
                log = reopened(place)
            assert replayed(log) == state, seed


@pytest.mark.parametrize("ending", ["goes on", "is killed", "crashes"])
def test_an_abandoned_compaction_is_done_or_not(ending: str) -> None:
    """Also between its decision and the replacement: the log continues, a restart agrees, the next one
    finishes it.
    """
    _, _, log = scenario()
    state, end = replayed(log), log.log_end_offset
    for patience in range(1, 2000):
        files, place, log = scenario()
        steps = compact(log, order(log))
        try:
            for _ in range(patience):
                advance(steps)
        except StopIteration:
            assert patience > 50
            return
        steps.close()
        if ending != "goes on":
            files.kill()
            if ending == "crashes":
                files.crash()
            log = reopened(place)
        assert replayed(log) == state
        put(log, [("later", "1")])
        sync(log)
        steps = compact(log, order(log, not_beyond=end))
        with suppress(StopIteration):
            for _ in range(patience % 60):
                advance(steps)
        steps.close()
        compacted(log, not_beyond=end)
        assert replayed(log) == {**state, "later": "1"}
        assert len(all_records(log)) < 20
        files.crash()
        assert replayed(reopened(place)) == {**state, "later": "1"}
    raise AssertionError("the compaction never ended")


def test_a_damaged_decision_of_a_compaction_is_ignored() -> None:
    """With one flipped bit the log counts as never compacted."""
    data = CompactionState(1200, (0, 300, 700), (0,)).to_bytes()
    assert CompactionState.from_bytes(data) == CompactionState(1200, (0, 300, 700), (0,))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        assert CompactionState.from_bytes(bytes(broken)) is None


def test_compacted_to_is_reduced_when_records_are_lost() -> None:
    """New records after the damage are compacted like any others."""
    _, place, log = scenario()
    compacted(log)
    compacted_to = log.compacted_to
    log.close()
    file = place.files.open(place.directory / f"{0:020d}.log")
    file.truncate(150)
    for name in ("headgate.checkpoint", "headgate.synced"):
        place.files.remove(place.directory / name)
    log = place.open()
    end = log.log_end_offset
    assert log.compacted_to == end < compacted_to
    survivors = contents(log)
    again = place.open()
    assert contents(again) == survivors, "gaps of a compacted segment were taken for damage"
    put(again, [("k", "1")])
    assert place.open().compacted_to == end
