"""Traces of a crash are notes; faults that no crash can cause are errors."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.inspect.damage import FIELDS, LAST, MIDDLE, batch_positions, crash, flip
from tests.inspect.support import FLIGHTS, OFFSETS, errors, notes, open_topics, produce

from headgate.inspect.reading import Break, LogFile, find_whole_batch, is_room, walk
from headgate.log.damage import RecordsMissing
from headgate.log.filesystem import OsFileSystem
from headgate.log.header import HEADER_BYTES
from headgate.log.log import Log, LogSettings, Recovery


def dropped_at_start(data_dir: Path) -> list[Recovery]:
    """Return what the next start drops from the log of flights-0, by starting."""
    dropped: list[Recovery] = []
    files = OsFileSystem()
    log = Log.open(files, data_dir / FLIGHTS, LogSettings(), clean=False, on_truncated=dropped.append)
    log.close_files()
    return dropped


@pytest.mark.parametrize("left", [8, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, -1])
def test_a_tail_torn_by_a_crash_is_noted_with_the_bytes_to_be_truncated(data_dir: Path, left: int) -> None:
    """For any length of the last batch, recovery truncates as many bytes as the note says."""
    crash(data_dir)
    (data_dir / FLIGHTS / "headgate.synced").unlink()  # no sync had reached it
    path = data_dir / LAST
    last = batch_positions(path)[-1]
    size = path.stat().st_size
    os.truncate(path, last + left if left > 0 else size + left)
    assert errors(data_dir) == []
    (note,) = [note for note in notes(data_dir) if note.file == LAST]
    assert note.position == last
    foretold = re.search(r"truncates these (\d+) bytes", note.next_step)
    assert foretold is not None
    assert [recovery.dropped_bytes for recovery in dropped_at_start(data_dir)] == [int(foretold[1])]
    assert not [note for note in notes(data_dir) if note.file == LAST]


def test_reserved_space_after_a_crash_is_no_tail(data_dir: Path) -> None:
    """Zeros after the last batch are reserved space. A cleanly closed log has none."""
    with (data_dir / LAST).open("ab") as log:
        log.write(bytes(5000))
    (error,) = errors(data_dir)
    assert error.file == LAST
    assert "zeros" in error.what
    crash(data_dir)
    assert errors(data_dir) == []
    assert not [note for note in notes(data_dir) if note.file == LAST]


def test_reserved_space_behind_a_damaged_batch_is_no_damage(data_dir: Path) -> None:
    """A running server has it at the end of each log, and moves it with each write."""
    crash(data_dir)
    flip(data_dir / LAST, batch_positions(data_dir / LAST)[-3] + FIELDS["records"])
    before = errors(data_dir)
    assert before
    with (data_dir / LAST).open("ab") as log:
        log.write(bytes(5000))
    assert [(each.file, each.position) for each in errors(data_dir)] == [
        (each.file, each.position) for each in before
    ]


def test_writes_during_the_check_are_not_seen(data_dir: Path) -> None:
    """A file is read as it was when it was opened. An incomplete write would look like damage."""
    path = data_dir / LAST
    there = path.read_bytes()
    last = batch_positions(path)[-1]
    path.write_bytes(there + bytes(5000))
    with LogFile(path) as file:
        path.write_bytes(there + there[last:] + there[last:] + bytes(3000))
        *batches, end = list(walk(file))
        assert batches[-1].position == last
        assert isinstance(end, Break)
        assert end.position == len(there)
        assert is_room(file, end)
        assert find_whole_batch(file, end.position, 0) is None


def test_zeros_below_the_sync_mark_are_damage(data_dir: Path) -> None:
    """The log was synced up to the mark, so the zeros are no reserved space."""
    crash(data_dir)
    path = data_dir / LAST
    last = batch_positions(path)[-1]
    data = path.read_bytes()
    path.write_bytes(data[:last] + bytes(len(data) - last))
    (error,) = errors(data_dir)
    assert (error.file, error.position) == (LAST, last)
    assert "does not open this log" in error.next_step
    with pytest.raises(RecordsMissing):
        dropped_at_start(data_dir)


@pytest.mark.parametrize("tail", [bytes(300) + b"\xff" * 200, b"\xff" * 500, b"garbage " * 60])
def test_a_tail_of_any_bytes_is_noted_after_a_crash(data_dir: Path, tail: bytes) -> None:
    """Of an interrupted write, the end can be on the disk without the start."""
    crash(data_dir)
    with (data_dir / LAST).open("ab") as log:
        log.write(tail)
    assert errors(data_dir) == []
    assert any(note.file == LAST and "truncates these" in note.next_step for note in notes(data_dir))


@pytest.mark.parametrize("has_mark", [True, False])
@pytest.mark.parametrize("at", ["crc", "records", "length", "base offset"])
def test_a_bad_batch_before_whole_ones_is_damage_even_after_a_crash(
    data_dir: Path, at: str, has_mark: bool
) -> None:
    """A crash tears only the end. Below the sync mark the log is not opened; above it batches are lost."""
    crash(data_dir)
    if not has_mark:
        (data_dir / FLIGHTS / "headgate.synced").unlink()
    positions = batch_positions(data_dir / LAST)
    flip(data_dir / LAST, positions[-3] + FIELDS[at])
    found = [error for error in errors(data_dir) if error.file == LAST]
    assert found[0].position == positions[-3]
    if has_mark:
        assert "does not open this log" in found[0].next_step
        with pytest.raises(RecordsMissing):
            dropped_at_start(data_dir)
        return
    foretold = re.search(r"at offset (\d+) and drops (\d+) bytes", found[0].next_step)
    assert foretold is not None
    (recovery,) = dropped_at_start(data_dir)
    assert (recovery.end_offset, recovery.dropped_bytes) == (int(foretold[1]), int(foretold[2]))


def test_damage_in_a_closed_segment_is_damage_even_after_a_crash(data_dir: Path) -> None:
    """A closed segment was synced, so no crash can tear it."""
    crash(data_dir)
    os.truncate(data_dir / MIDDLE, batch_positions(data_dir / MIDDLE)[-1] + 20)
    assert MIDDLE in {error.file for error in errors(data_dir)}


def test_an_index_that_the_next_start_rebuilds_is_only_noted(data_dir: Path) -> None:
    """After a crash the whole last segment is read. Below the recovery point indexes are used."""
    crash(data_dir)
    flip(data_dir / FLIGHTS / f"{195:020d}.index", 3)
    assert errors(data_dir) == []
    assert any(note.file.endswith(".index") for note in notes(data_dir))
    flip(data_dir / FLIGHTS / f"{99:020d}.index", 3)
    assert [error.file for error in errors(data_dir)] == [f"{FLIGHTS}/{99:020d}.index"]


def test_a_crash_leaves_notes_only(data_dir: Path) -> None:
    """The index of an earlier clean stop lags behind the log, and the new epoch can be without records."""
    crash(data_dir)
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    produce(flights, 80, 5)
    produce(flights, 3, 1, partition=1)
    flights.partition(0).log.close_files()
    flights.partition(1).log.close_files()
    assert errors(data_dir) == []
    assert [note.file for note in notes(data_dir)] == ["clean-shutdown", OFFSETS]


def test_synced_records_that_are_missing_are_found(data_dir: Path) -> None:
    """A crash does not remove synced bytes, so a log that ends before the mark lost records."""
    crash(data_dir)
    path = data_dir / LAST
    os.truncate(path, batch_positions(path)[-1])
    assert f"{FLIGHTS}/headgate.synced" in {error.file for error in errors(data_dir)}
