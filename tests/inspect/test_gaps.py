"""Gaps are normal where compaction removed records, and damage everywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.inspect.damage import batch_positions, crash, flip
from tests.inspect.support import NOW, OFFSETS, commit_of, coordinator_batch, errors, notes, open_topics

from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.log.filesystem import OsFileSystem
from headgate.log.swap import COMPACTION_NAME, CompactionState, decide, prepare, save_compacted_to


@pytest.fixture
def compacted(data_dir: Path) -> Path:
    """Build a coordinator's log of many segments; compaction removed a batch of the second and the third."""
    topics = open_topics(data_dir)
    offsets = topics.by_name(GROUP_OFFSETS_TOPIC)
    assert offsets is not None
    topics.set_overrides(offsets, {**offsets.overrides, "segment.bytes": "1024"}, NOW)
    for number in range(56):
        offsets.partition(0).append_internal([coordinator_batch(commit_of(number, number))])
    topics.close()
    logs = sorted((data_dir / OFFSETS).glob("*.log"))
    assert len(logs) > 5
    for path in logs[1:3]:
        take_out(path, 1)
    save_compacted_to(OsFileSystem(), data_dir / OFFSETS, int(logs[3].stem))
    return data_dir


def take_out(path: Path, which: int) -> None:
    """Remove a batch from a segment, and the segment's indexes."""
    positions = batch_positions(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: positions[which]] + whole[positions[which + 1] :])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()


def test_gaps_are_normal_only_below_the_compacted_offset(compacted: Path) -> None:
    """Above the offset up to which the log was compacted, no record may be missing."""
    assert errors(compacted) == []
    logs = sorted((compacted / OFFSETS).glob("*.log"))
    take_out(logs[4], 1)
    take_out(logs[-1], 1)
    assert [error.file for error in errors(compacted)] == [
        f"{OFFSETS}/{logs[4].name}",
        f"{OFFSETS}/{logs[-1].name}",
    ]


def test_missing_segments_above_the_compacted_offset_are_found(compacted: Path) -> None:
    """Also in the coordinator's log."""
    gone = sorted((compacted / OFFSETS).glob("*.log"))[4]
    for suffix in (".log", ".index", ".timeindex"):
        gone.with_suffix(suffix).unlink()
    (error,) = errors(compacted)
    assert f"starts after the expected offset {int(gone.stem)}" in error.what


def test_a_flipped_byte_in_the_file_of_compaction_is_found(compacted: Path) -> None:
    """For every byte of the file."""
    path = compacted / OFFSETS / COMPACTION_NAME
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        flip(path, at)
        assert any(error.file == f"{OFFSETS}/{COMPACTION_NAME}" for error in errors(compacted)), at
        path.write_bytes(whole)


def test_an_interrupted_compaction_is_checked_like_the_next_start_finishes_it(compacted: Path) -> None:
    """If it was decided, the new files count, even with temporary names. If not, they are only noted."""
    crash(compacted)
    directory = compacted / OFFSETS
    bases = [int(path.stem) for path in sorted(directory.glob("*.log"))]
    kept, removed = directory / f"{bases[3]:020d}.log", directory / f"{bases[4]:020d}.log"
    aside = kept.with_name(kept.name + ".cleaned")
    aside.write_bytes(kept.read_bytes() + removed.read_bytes())
    assert errors(compacted) == []
    assert any(note.file == f"{OFFSETS}/{aside.name}" for note in notes(compacted))

    files = OsFileSystem()
    prepare(files, directory, CompactionState(bases[5], (bases[3], bases[4]), (bases[3],)))
    decide(files, directory)
    removed.unlink()
    assert errors(compacted) == []
    noted = {note.file for note in notes(compacted)}
    assert f"{OFFSETS}/{COMPACTION_NAME}" in noted
    assert f"{OFFSETS}/{aside.name}" not in noted
    flip(aside, 70)
    assert [error.file for error in errors(compacted)] == [f"{OFFSETS}/{aside.name}"]
