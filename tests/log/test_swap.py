"""Atomic replacement of segments: the small file, and the next start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.support import DATA, memory

from headgate.log.filesystem import MemoryFileSystem, read_file
from headgate.log.swap import (
    COMPACTION_NAME,
    CompactionState,
    carry_out,
    decide,
    discard,
    finish,
    load_state,
    prepare,
    save_compacted_to,
)

SUFFIXES = (".index", ".timeindex", ".log")
STATE = CompactionState(1200, (0, 300, 700), (0,))


def name_of(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


@pytest.fixture
def directory(files: MemoryFileSystem) -> Path:
    """A log of four segments, and what is to take the place of three, aside; all durable."""
    directory = DATA / "t-0"
    files.make_directory(directory)
    files.sync_directory(DATA)
    for base in (0, 300, 700, 1200):
        for suffix in SUFFIXES:
            write(files, directory / name_of(base, suffix), f"old {base}{suffix}".encode())
    for suffix in SUFFIXES:
        write(files, directory / (name_of(0, suffix) + ".cleaned"), f"new 0{suffix}".encode())
    files.sync_directory(directory)
    return directory


def write(files: MemoryFileSystem, path: Path, data: bytes) -> None:
    file = files.open(path, create=True)
    file.pwrite(data, 0)
    file.datasync()


def logs(files: MemoryFileSystem, directory: Path) -> dict[str, bytes]:
    return {
        name: read_file(files, directory / name)
        for name in sorted(files.listdir(directory))
        if name != COMPACTION_NAME
    }


OLD = {
    name_of(base, suffix): f"old {base}{suffix}".encode()
    for base in (0, 300, 700, 1200)
    for suffix in SUFFIXES
}
NEW = {name_of(0, suffix): f"new 0{suffix}".encode() for suffix in SUFFIXES} | {
    name_of(1200, suffix): f"old 1200{suffix}".encode() for suffix in SUFFIXES
}


@pytest.mark.parametrize(
    "state", [STATE, CompactionState(), CompactionState(7, (), (1, 2)), CompactionState(0, (5,))]
)
def test_the_file_is_decoded_completely_or_not_at_all(state: CompactionState) -> None:
    """A changed or missing byte makes it invalid."""
    data = state.to_bytes()
    assert CompactionState.from_bytes(data) == state
    for at in range(len(data)):
        assert CompactionState.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
        assert CompactionState.from_bytes(data[:at]) is None
    assert CompactionState.from_bytes(data + b"\n") is None


@pytest.mark.parametrize("crashes", [False, True])
def test_the_next_start_carries_out_a_decided_replacement(
    files: MemoryFileSystem, directory: Path, crashes: bool
) -> None:
    """Repeating it changes nothing."""
    prepare(files, directory, STATE)
    decide(files, directory)
    if crashes:
        files.crash()
    for _ in range(2):
        assert finish(files, directory) == 1200
        assert logs(files, directory) == NEW
        assert load_state(files, directory) == CompactionState(1200)
        files.crash()


def test_an_undecided_replacement_is_discarded(files: MemoryFileSystem, directory: Path) -> None:
    """The old segments stay, and no temporary file is left."""
    save_compacted_to(files, directory, 300)
    prepare(files, directory, STATE)
    files.crash()
    assert finish(files, directory) == 300
    discard(files, directory)
    assert logs(files, directory) == OLD
    files.remove(directory / COMPACTION_NAME)
    assert (load_state(files, directory), finish(files, directory)) == (CompactionState(), 0)


def test_a_replacement_that_only_adds_or_removes_is_finished(
    files: MemoryFileSystem, directory: Path
) -> None:
    """And a longer one prepared before leaves nothing."""
    prepare(files, directory, STATE)
    prepare(files, directory, CompactionState(9, (300, 1200)))
    decide(files, directory)
    assert finish(files, directory) == 9
    assert [name for name in logs(files, directory) if name.endswith(".log")] == [name_of(0), name_of(700)]
    prepare(files, directory, CompactionState(9, (), (0,)))
    decide(files, directory)
    assert finish(files, directory) == 9
    assert logs(files, directory)[name_of(0)] == b"new 0.log"


def test_a_partial_replacement_is_continued() -> None:
    """Files that were renamed or removed already are skipped."""
    files = memory()
    files.make_directory(DATA / "t-0")
    for name in (name_of(0, ".log.cleaned"), name_of(0, ".index"), name_of(300)):
        write(files, DATA / "t-0" / name, b"x")
    carry_out(files, DATA / "t-0", CompactionState(400, (0, 300), (0,)))
    assert sorted(files.listdir(DATA / "t-0")) == [name_of(0, ".index"), name_of(0)]
