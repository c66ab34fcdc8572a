"""The file-system port: all operations the log needs, and the real disk as one implementation.

Positions are explicit (`pread`, `pwrite`), so readers and the writer share one descriptor. Nothing is durable
before `datasync` (contents) and `sync_directory` (created, renamed and removed names). Every failure is an
OSError. `MemoryFileSystem` is an implementation without a disk, with failures, torn writes and power cuts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
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
        """The file descriptor; None for a file that is not the operating system's."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int:
        """Write at `position`, growing the file; return the number of bytes written, which may be short."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros, to `size` bytes."""
        ...

    def reserve(self, size: int, position: int) -> None:
        """Allocate disk space for `size` bytes from `position`; the file grows to that end if it is shorter.

        Bytes never written read as zeros. Raises OSError if there is no space, or no way to allocate it.
        """
        ...

    def datasync(self) -> None:
        """Return when contents and size are on the disk. After a failure, unsynced bytes may be lost."""
        ...

    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def close(self) -> None:
        """Close the descriptor; does nothing if it is closed."""
        ...


class Lock(Protocol):
    """A lock held on a path."""

    def release(self) -> None:
        """Release the lock; does nothing if it is released."""
        ...


class FileSystem(Protocol):
    """A tree of files and directories. Missing paths raise FileNotFoundError."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading and writing; with `create`, create an empty file if there is none."""
        ...

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory exists. One behind a link exists if the link leads to it."""
        ...

    def is_taken(self, path: Path) -> bool:
        """Return whether a directory has this name, also if it is that of a link that leads nowhere."""
        ...

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        ...

    def modified_ms(self, path: Path) -> int:
        """Return when the contents of a file changed last, in ms since the epoch by the system clock."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, in any order."""
        ...

    def make_directory(self, path: Path) -> None:
        """Create one directory; its parent must exist. Does nothing if it exists."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory, or the link to one."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Move atomically, replacing a file at `target`."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return when the current names in a directory are on the disk."""
        ...

    @property
    def syncs_at_once(self) -> int:
        """How many syncs of different files are worth being run together."""
        ...

    def lock(self, path: Path) -> Lock:
        """Lock a file, created if missing, against all other processes. BlockingIOError: another has the
        lock.
        """
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
        # The number of a closed descriptor may be reused: never use it again.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def space_of(directory: Path) -> tuple[int, int]:
    """Return the bytes of the file system of a directory, and those that this process can still write; -1:
    unknown.
    """
    try:
        found = os.statvfs(directory)
    except OSError:
        return -1, -1
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def is_file_at(descriptor: int, path: Path) -> bool:
    """Return whether the file of a descriptor is the one at `path`."""
    try:
        there, held = path.stat(), os.fstat(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # unknown
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


class OsLock:
    """A lock of the operating system, released when its process ends."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_at(self, path: Path) -> bool:
        """Return whether the locked file is still the one at `path`: a locked file can be removed."""
        return is_file_at(self._descriptor, path)

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

    def is_taken(self, path: Path) -> bool:
        return os.path.lexists(path)

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

    @property
    def syncs_at_once(self) -> int:
        """Each takes two descriptors for a moment: a part of those that the process may have."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(1, min(limit // _DESCRIPTORS_A_SYNC, _MOST_SYNCS_AT_ONCE))

    def lock(self, path: Path) -> OsLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return OsLock(descriptor)


_MOST_SYNCS_AT_ONCE: Final = 32
"""A journal makes the names and sizes of many files durable in one write."""
_DESCRIPTORS_A_SYNC: Final = 64
"""How many descriptors a process may have for each sync that it runs at the same time."""
LARGEST_BYTES: Final = 1 << 28
"""Maximum size of an index, a snapshot and the like, which are read whole. A longer file is damaged."""
_ASIDE_SUFFIX: Final = ".tmp"


def write_fully(file: File, data: Buffer, position: int) -> None:
    """Write all of `data`, or raise the OSError that explains why it did not fit."""
    written = file.pwrite(data, position)
    while written < len(data):
        # A disk that becomes full writes less than asked; the next write then raises the reason.
        more = file.pwrite(memoryview(data)[written:], position + written)
        if more == 0:
            raise OSError(errno.EIO, "a write had no effect and reported no error")
        written += more


def read_file(files: FileSystem, path: Path, at_most: int = LARGEST_BYTES) -> bytes:
    """Return the contents of a small file, or its first `at_most` bytes. Raises FileNotFoundError."""
    file = files.open(path)
    try:
        return file.pread(min(file.size(), at_most), 0)
    finally:
        file.close()


def read_or_nothing(files: FileSystem, path: Path) -> bytes:
    """Return the contents of a small file; no bytes if it is missing. Raises OSError."""
    try:
        return read_file(files, path)
    except FileNotFoundError:
        return b""


def replace_file(files: FileSystem, path: Path, data: Buffer) -> None:
    """Replace the contents of a small file, durably and atomically: a crash leaves the old or the new
    ones.
    """
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
