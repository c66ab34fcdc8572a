"""The file-system port: all that the log asks of a disk, and the real disk behind it.

Rules: positions are explicit (`pread`, `pwrite`), so readers and the writer share one descriptor; nothing is
durable before `datasync` (contents) and `sync_directory` (names: what was created, renamed, removed); every
failure is an OSError. The twin without a disk, which can fail, tear and lose, is `MemoryFileSystem`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, Final, Protocol

from headgate.log.memory_filesystem import Fault, MemoryFileSystem, PowerCut

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.header import Buffer

__all__ = [
    "Fault",
    "File",
    "FileSystem",
    "Lock",
    "MemoryFileSystem",
    "OsFileSystem",
    "OsLock",
    "PowerCut",
    "read_file",
    "read_or_nothing",
    "replace_file",
    "write_fully",
]


class File(Protocol):
    """One open file."""

    @property
    def descriptor(self) -> int | None:
        """The operating system's number for the open file; None for one that is not the system's."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int:
        """Write at `position`, growing the file; the number of bytes written may be short."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or grow it with zeros, to `size` bytes."""
        ...

    def reserve(self, size: int, position: int) -> None:
        """Have room on the disk for `size` bytes from `position`; where the file ends before, it grows.

        What nobody wrote reads as zeros. Raises OSError where there is no such room, or no way to have it.
        """
        ...

    def datasync(self) -> None:
        """Return when contents and size are on the disk. After a failure, what was unsynced may be lost."""
        ...

    def size(self) -> int:
        """The size in bytes."""
        ...

    def close(self) -> None:
        """Give the descriptor back. Closing twice is harmless."""
        ...


class Lock(Protocol):
    """A lock held on a path."""

    def release(self) -> None:
        """Let go of it. Releasing twice is harmless."""
        ...


class FileSystem(Protocol):
    """A tree of files and directories. Missing paths raise FileNotFoundError."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading and writing; with `create`, an empty file where there is none."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether a file or directory is there."""
        ...

    def size(self, path: Path) -> int:
        """The size of a file in bytes."""
        ...

    def modified_ms(self, path: Path) -> int:
        """When the contents of a file changed last, in ms since the epoch by the system's clock."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """The names in a directory, in any order."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make one directory; its parent must exist. Harmless where it is there already."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory, or the link to one."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Move in one step, over a file at `target`."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are on the disk as they are now."""
        ...

    def lock(self, path: Path) -> Lock:
        """Hold a file, made if need be, against every other process. BlockingIOError: somebody has it."""
        ...


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def pwrite(self, data: Buffer, position: int) -> int:
        return os.pwrite(self._descriptor, data, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int, position: int) -> None:
        if not hasattr(os, "posix_fallocate"):  # as on macOS
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        os.posix_fallocate(self._descriptor, position, size)

    def datasync(self) -> None:
        os.fdatasync(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        # A closed descriptor's number is soon somebody else's: never use it again.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsLock:
    """A lock of the operating system, gone with the process that holds it."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_at(self, path: Path) -> bool:
        """Whether the file that is held is still the one at `path`: it may be removed all the same."""
        try:
            there, held = path.stat(), os.fstat(self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # nobody can tell
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFileSystem:
    """The disk."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def listdir(self, path: Path) -> list[str]:
        return [entry.name for entry in path.iterdir()]

    def make_directory(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        if path.is_symlink():
            path.unlink()
        else:
            path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> OsLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return OsLock(descriptor)


_ASIDE_SUFFIX: Final = ".tmp"


def write_fully(file: File, data: Buffer, position: int) -> None:
    """Write all of `data`, or raise the OSError that says why the rest did not fit."""
    written = file.pwrite(data, position)
    while written < len(data):
        # A short write is how a filling disk begins; writing on is how it names its reason.
        more = file.pwrite(memoryview(data)[written:], position + written)
        if more == 0:
            raise OSError(errno.EIO, "the disk takes no more, and gives no reason")
        written += more


def read_file(files: FileSystem, path: Path) -> bytes:
    """A small file, whole. Raises FileNotFoundError."""
    file = files.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def read_or_nothing(files: FileSystem, path: Path) -> bytes:
    """A small file, whole; nothing where there is none. Raises OSError."""
    try:
        return read_file(files, path)
    except FileNotFoundError:
        return b""


def replace_file(files: FileSystem, path: Path, data: Buffer) -> None:
    """Make `data` the whole of a small file, durably: after a crash the old or the new one is there."""
    aside = path.with_name(path.name + _ASIDE_SUFFIX)
    file = files.open(aside, create=True)
    try:
        file.truncate(0)
        write_fully(file, data, 0)
        file.datasync()
    finally:
        file.close()
    files.rename(aside, path)
    files.sync_directory(path.parent)
