"""The file-system port: the disk and the implementation in memory agree, and the latter loses what a disk may
lose.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from headgate.log.filesystem import (
    Fault,
    FileSystem,
    MemoryFileSystem,
    OsFileSystem,
    PowerCut,
    read_file,
    replace_file,
    write_fully,
)


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, Path]:
    """A file system and a directory in it."""
    if request.param == "disk":
        return OsFileSystem(), tmp_path
    files = MemoryFileSystem()
    files.make_directory(Path("/data"))
    return files, Path("/data")


@pytest.fixture
def files() -> MemoryFileSystem:
    """A twin with a file `/f` that durably holds `durable`."""
    files = MemoryFileSystem()
    file = files.open(Path("/f"), create=True)
    file.pwrite(b"durable", 0)
    file.datasync()
    files.sync_directory(Path("/"))
    return files


def test_written_bytes_are_read(place: tuple[FileSystem, Path]) -> None:
    """Positions are explicit; a write past the end leaves zeros; a read past it is short."""
    files, directory = place
    file = files.open(directory / "a", create=True)
    assert file.pwrite(b"hello", 3) == 5
    assert file.pwrite(memoryview(b"HE"), 3) == 2
    assert file.size() == files.size(directory / "a") == 8
    assert file.pread(100, 0) == b"\0\0\0HEllo"
    assert file.pread(2, 7) == b"o" and file.pread(2, 8) == b""
    file.truncate(4)
    file.truncate(6)
    file.datasync()
    file.close()
    file.close()
    assert read_file(files, directory / "a") == b"\0\0\0H\0\0"


def test_names_are_created_renamed_and_removed(place: tuple[FileSystem, Path]) -> None:
    """Directories and files."""
    files, directory = place
    files.make_directory(directory / "d")
    files.make_directory(directory / "d")
    for name in ("a", "b"):
        file = files.open(directory / "d" / name, create=True)
        write_fully(file, name.encode(), 0)
        file.close()
    assert sorted(files.listdir(directory / "d")) == ["a", "b"]
    files.rename(directory / "d" / "a", directory / "d" / "b")
    files.rename(directory / "d", directory / "e")
    files.sync_directory(directory)
    assert files.listdir(directory) == ["e"] and not files.exists(directory / "d")
    assert read_file(files, directory / "e" / "b") == b"a"
    with pytest.raises(OSError) as refusal:
        files.remove_directory(directory / "e")
    assert refusal.value.errno == errno.ENOTEMPTY
    files.remove(directory / "e" / "b")
    files.remove_directory(directory / "e")
    assert files.listdir(directory) == []


@pytest.mark.parametrize(
    "act",
    [
        lambda files, path: files.open(path),
        lambda files, path: files.open(path / "below", create=True),
        lambda files, path: files.size(path),
        lambda files, path: files.listdir(path),
        lambda files, path: files.remove(path),
        lambda files, path: files.remove_directory(path),
        lambda files, path: files.rename(path, path.with_name("other")),
        lambda files, path: files.make_directory(path / "below"),
        lambda files, path: files.sync_directory(path),
        lambda files, path: read_file(files, path),
    ],
)
def test_a_missing_path_is_not_found(place: tuple[FileSystem, Path], act: object) -> None:
    """Every operation raises FileNotFoundError."""
    files, directory = place
    assert callable(act)
    with pytest.raises(FileNotFoundError):
        act(files, directory / "missing")


def test_a_closed_file_raises(place: tuple[FileSystem, Path]) -> None:
    """It never accesses another file."""
    files, directory = place
    file = files.open(directory / "a", create=True)
    file.close()
    with pytest.raises(OSError) as refusal:
        file.pwrite(b"x", 0)
    assert refusal.value.errno == errno.EBADF


def test_a_lock_is_held_by_one(place: tuple[FileSystem, Path]) -> None:
    """A second lock on a path is refused until the first is released."""
    files, directory = place
    lock = files.lock(directory / "lock")
    with pytest.raises(BlockingIOError):
        files.lock(directory / "lock")
    lock.release()
    lock.release()
    files.lock(directory / "lock").release()


def test_a_lock_holds_against_another_process(tmp_path: Path) -> None:
    """Another process cannot take the lock, and can when it is released."""
    attempt = [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from headgate.log.filesystem import OsFileSystem\n"
        "try: OsFileSystem().lock(Path(sys.argv[1]))\n"
        "except BlockingIOError: sys.exit(7)",
        str(tmp_path / "lock"),
    ]
    lock = OsFileSystem().lock(tmp_path / "lock")
    assert subprocess.run(attempt, timeout=60).returncode == 7
    lock.release()
    assert subprocess.run(attempt, timeout=60).returncode == 0


def test_replacing_a_file_leaves_no_temporary_file(place: tuple[FileSystem, Path]) -> None:
    """It has exactly the new contents, also if they are shorter."""
    files, directory = place
    for data in (b"a long first version", b"short"):
        replace_file(files, directory / "f", data)
        assert read_file(files, directory / "f") == data
        assert files.listdir(directory) == ["f"]


def test_a_replaced_file_is_old_or_new_after_a_power_cut_anywhere(files: MemoryFileSystem) -> None:
    """Nothing else is possible, whatever survives."""
    for changes in range(20):
        for random in (None, Random(changes), Random(changes + 100)):
            replace_file(files, Path("/f"), b"durable")
            files.cut_power_after(changes, torn_bytes=2)
            try:
                replace_file(files, Path("/f"), b"changed")
                got_through = True
            except PowerCut:
                got_through = False
            files.crash(random)
            found = read_file(files, Path("/f"))
            assert found == b"changed" if got_through else found in (b"durable", b"changed")


def test_a_short_write_is_continued_and_a_write_without_effect_raises(files: MemoryFileSystem) -> None:
    """All bytes are written in as many writes as necessary."""
    file = files.open(Path("/f"))
    files.inject(Fault(None, "pwrite", written=2, times=3))
    write_fully(file, b"abcdefgh", 0)
    assert file.pread(100, 0) == b"abcdefgh"
    files.inject(Fault(None, "pwrite", written=0, times=None))
    with pytest.raises(OSError, match="a write had no effect"):
        write_fully(file, b"abc", 0)


def test_a_crash_loses_unsynced_changes(files: MemoryFileSystem) -> None:
    """Writes, truncations, new names, renames and removals; handles and locks become invalid."""
    file = files.open(Path("/f"))
    file.pwrite(b"changed!", 0)
    file.truncate(3)
    files.open(Path("/new"), create=True).datasync()
    files.rename(Path("/f"), Path("/g"))
    files.lock(Path("/lock"))
    files.crash()
    assert files.listdir(Path("/")) == ["f"]
    assert read_file(files, Path("/f")) == b"durable"
    files.lock(Path("/lock"))
    with pytest.raises(OSError) as refusal:
        file.pread(1, 0)
    assert refusal.value.errno == errno.EBADF


def test_a_crash_keeps_synced_changes(files: MemoryFileSystem) -> None:
    """Contents by the sync of their file, and names by that of their directory."""
    file = files.open(Path("/f"))
    file.pwrite(b"changed!", 0)
    file.datasync()
    files.rename(Path("/f"), Path("/g"))
    files.sync_directory(Path("/"))
    files.crash()
    assert files.listdir(Path("/")) == ["g"]
    assert read_file(files, Path("/g")) == b"changed!"


def test_a_killed_process_loses_nothing_it_wrote(files: MemoryFileSystem) -> None:
    """Contents and names remain, still unsynced; handles and locks become invalid."""
    file = files.open(Path("/f"))
    file.truncate(0)
    file.pwrite(b"new", 0)
    files.lock(Path("/lock"))
    files.kill()
    assert read_file(files, Path("/f")) == b"new"
    files.lock(Path("/lock"))
    with pytest.raises(OSError) as refusal:
        file.pread(1, 0)
    assert refusal.value.errno == errno.EBADF
    files.crash()
    assert read_file(files, Path("/f")) == b"durable"


def test_a_random_crash_keeps_prefixes(files: MemoryFileSystem) -> None:
    """Unsynced bytes survive as prefixes, sometimes with zeros up to the new size."""
    outcomes = set()
    for seed in range(200):
        replace_file(files, Path("/f"), b"durable")
        files.open(Path("/f")).pwrite(b"+abc", 7)
        files.crash(Random(seed))
        outcomes.add(read_file(files, Path("/f")))
    prefixes = {b"durable+abc"[:size] for size in range(7, 12)}
    assert outcomes == prefixes | {prefix.ljust(11, b"\0") for prefix in prefixes}


def test_a_failed_sync_leaves_pages_that_no_later_sync_writes(files: MemoryFileSystem) -> None:
    """They can be read until the cache is dropped, and are not on disk after the next sync."""
    file = files.open(Path("/f"))
    file.pwrite(b"+lost", 7)
    files.inject(Fault(errno.EIO, "datasync"))
    with pytest.raises(OSError, match="Input/output"):
        file.datasync()
    assert file.pread(100, 0) == b"durable+lost"
    file.pwrite(b"+kept", 12)
    file.datasync()
    files.drop_caches()
    assert file.pread(100, 0) == b"durable\0\0\0\0\0+kept"
    file.pwrite(b"+anew", 7)
    file.datasync()
    files.crash()
    assert read_file(files, Path("/f")) == b"durable+anew+kept"


def test_faults_apply_by_kind_count_and_path(files: MemoryFileSystem) -> None:
    """Reads fail only if the fault names them."""
    file = files.open(Path("/f"))
    files.inject(Fault(errno.ENOSPC, "pwrite", after=1, times=2, path_ends="f"))
    file.truncate(7)
    assert file.pwrite(b"x", 0) == 1
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.pwrite(b"x", 0)
    assert file.pwrite(b"x", 0) == 1
    files.inject(Fault(errno.EIO))
    assert file.pread(1, 0) == b"x"
    with pytest.raises(OSError, match="Input/output"):
        files.open(Path("/other"), create=True)
    files.inject(Fault(errno.EIO, "pread", times=None))
    with pytest.raises(OSError, match="Input/output"):
        file.pread(1, 0)
    files.heal()
    assert file.pread(1, 0) == b"x"


def test_after_the_power_is_cut_nothing_works(files: MemoryFileSystem) -> None:
    """The write at that moment is torn, and every later operation raises until the restart."""
    file = files.open(Path("/f"))
    files.cut_power_after(1, torn_bytes=3)
    file.truncate(0)
    with pytest.raises(PowerCut):
        file.pwrite(b"abcdef", 0)
    for operation in (lambda: file.pread(1, 0), file.datasync, lambda: files.remove(Path("/f"))):
        with pytest.raises(PowerCut):
            operation()
    files.kill()
    assert read_file(files, Path("/f")) == b"abc"
