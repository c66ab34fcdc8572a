"""A file system in memory that also keeps the state that a power cut would leave.

It models a disk as pessimistic as the manual pages allow. Written bytes reach the disk only by `datasync` of
their file, names only by `sync_directory` of their directory. A failed `datasync` leaves the unsynced bytes
readable but clean, so that no later sync writes them (Linux drops them exactly so). It is for tests and
simulation; the code above it is the same as on a disk.

    Fault(...)              one operation, or every one from there on, fails: an errno, a torn write
    cut_power_after(n)      the n-th change from now, and all that follow, raise PowerCut
    kill()                  the process ends, the machine runs on: nothing is lost but handles and locks
    crash(random)           the machine restarts: what was not durable is lost, or with `random` a part of it
                            remains (a prefix of the writes, zeros for a tail, a prefix of the renames)
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from headgate.log.header import Buffer


class PowerCut(Exception):
    """The machine is off: raised by every operation until `crash` (or `kill`) begins anew."""


@dataclass(slots=True)
class Fault:
    """A failure of an operation.

    `kind` is a method's name ("pwrite", "datasync", ...), or None for any change; `after` such operations
    succeed, then `times` fail (None: all until `heal`). A failing pwrite writes `written` bytes first; with
    `error` None it returns that count, as a short write does.
    """

    error: int | None = errno.EIO
    kind: str | None = None
    after: int = 0
    times: int | None = 1
    written: int = 0
    path_ends: str = ""


@dataclass(slots=True, eq=False)
class _FileNode:
    data: bytearray = field(default_factory=bytearray)
    disk: bytearray = field(default_factory=bytearray)
    dirty: list[tuple[int, int]] = field(default_factory=list)
    modified_ms: int = 0

    def write(self, data: Buffer, position: int) -> None:
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self._mark_dirty(position, position + len(data))

    def _mark_dirty(self, start: int, end: int) -> None:
        if self.dirty and self.dirty[-1][1] == start:
            self.dirty[-1] = (self.dirty[-1][0], end)
        else:
            self.dirty.append((start, end))

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.dirty = [(start, min(end, size)) for start, end in self.dirty if start < size]

    def to_disk(self, budget: int | None = None) -> None:
        """Copy the dirty bytes to the disk, or the first `budget` of them in the order they were written."""
        for start, end in self.dirty:
            if budget is not None:
                end = min(end, start + budget)
                budget -= end - start
            if len(self.disk) < start:
                self.disk.extend(bytes(start - len(self.disk)))
            self.disk[start:end] = self.data[start:end]
        self.dirty = []

    def sync(self) -> None:
        self.to_disk()
        self._set_disk_size(len(self.data))

    def _set_disk_size(self, size: int) -> None:
        del self.disk[size:]
        self.disk.extend(bytes(size - len(self.disk)))

    def crash(self, random: Random | None) -> None:
        if random is not None and (self.dirty or len(self.data) != len(self.disk)):
            size = len(self.data)
            self.to_disk(random.randint(0, sum(end - start for start, end in self.dirty)))
            if random.random() < 0.5:
                # The new size became durable, some of the contents did not: zeros replace them.
                self._set_disk_size(size)
        self.data = bytearray(self.disk)
        self.dirty = []

    def drop_caches(self) -> None:
        kept = [(start, bytes(self.data[start:end])) for start, end in self.dirty]
        size = len(self.data)
        self.data = bytearray(self.disk[:size]).ljust(size, b"\0")
        for start, written in kept:
            self.data[start : start + len(written)] = written


_Change = dict[str, "_FileNode | _DirectoryNode | None"]


@dataclass(slots=True, eq=False)
class _DirectoryNode:
    entries: dict[str, _FileNode | _DirectoryNode] = field(default_factory=dict)
    disk: dict[str, _FileNode | _DirectoryNode] = field(default_factory=dict)
    pending: list[_Change] = field(default_factory=list)

    def change(self, change: _Change) -> None:
        _apply(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.disk = dict(self.entries)
        self.pending = []

    def crash(self, random: Random | None) -> None:
        survivors = self.pending[: random.randint(0, len(self.pending))] if random is not None else []
        for change in survivors:
            _apply(self.disk, change)
        self.entries = dict(self.disk)
        self.pending = []
        for node in self.entries.values():
            node.crash(random)


def _apply(entries: dict[str, _FileNode | _DirectoryNode], change: _Change) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class MemoryFile:
    """An open file of a MemoryFileSystem. It becomes invalid when the process ends."""

    __slots__ = ("_files", "_generation", "_node", "_path")

    def __init__(self, files: MemoryFileSystem, path: Path, node: _FileNode) -> None:
        self._files = files
        self._path = path
        self._node: _FileNode | None = node
        self._generation = files.generation

    @property
    def descriptor(self) -> None:
        """None: it is not a file of the operating system."""
        return None

    def _live(self) -> _FileNode:
        if self._node is None or self._generation != self._files.generation:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        return self._node

    def pread(self, size: int, position: int) -> bytes:
        node = self._live()
        self._files.pass_reading("pread", self._path)
        return bytes(node.data[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> int:
        node = self._live()
        fault = self._files.pass_change("pwrite", self._path)
        if fault is None:
            self._files.written_bytes += len(data)
            node.write(data, position)
            node.modified_ms = self._files.now_ms()
            return len(data)
        written = min(fault.written, len(data))
        node.write(memoryview(data)[:written], position)
        if fault.error is None:
            return written
        raise self._files.failure(fault, self._path)

    def truncate(self, size: int) -> None:
        node = self._live()
        self._files.fail_or_pass("truncate", self._path)
        node.truncate(size)
        node.modified_ms = self._files.now_ms()

    def reserve(self, size: int, position: int) -> None:
        node = self._live()
        self._files.fail_or_pass("reserve", self._path)
        if len(node.data) < position + size:
            node.truncate(position + size)

    def datasync(self) -> None:
        node = self._live()
        fault = self._files.pass_change("datasync", self._path)
        if fault is not None:
            node.dirty = []
            raise self._files.failure(fault, self._path)
        node.sync()

    def size(self) -> int:
        return len(self._live().data)

    def close(self) -> None:
        self._node = None


class MemoryLock:
    """A lock held in a MemoryFileSystem."""

    __slots__ = ("_locked", "_path")

    def __init__(self, locked: set[Path], path: Path) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class MemoryFileSystem:
    """A FileSystem in memory, with faults.

    `operations` counts all changes requested, `written_bytes` the bytes written to files.
    """

    def __init__(self) -> None:
        self.operations = 0
        self.written_bytes = 0
        self.generation = 0
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        """The system clock, in ms, for modification times."""
        self._root = _DirectoryNode()
        self._faults: list[Fault] = []
        self._power_cut_at: int | None = None
        self._torn_bytes = 0
        self._locked: set[Path] = set()

    # Faults.

    def inject(self, fault: Fault) -> None:
        """Add a fault. If several match an operation, the first injected one applies."""
        self._faults.append(fault)

    def heal(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def cut_power_after(self, operations: int, torn_bytes: int = 0) -> None:
        """Cut the power at the change after `operations` more; a write at that moment is torn."""
        self._power_cut_at = self.operations + operations
        self._torn_bytes = torn_bytes

    @property
    def has_power(self) -> bool:
        """Whether no operation has been refused yet because the power is off."""
        return self._power_cut_at is None or self.operations <= self._power_cut_at

    def kill(self) -> None:
        """End the process while the machine runs on: everything written stays, synced or not."""
        self._power_cut_at = None
        self._faults.clear()
        self._locked = set()
        self.generation += 1

    def crash(self, random: Random | None = None) -> None:
        """Restart the machine. Without `random` everything not durable is lost, otherwise a part of it."""
        self.kill()
        self._root.crash(random)

    def drop_caches(self) -> None:
        """Read clean pages from the disk again: bytes that a failed sync lost become visible as lost."""
        stack: list[_FileNode | _DirectoryNode] = [self._root]
        while stack:
            node = stack.pop()
            if isinstance(node, _DirectoryNode):
                stack.extend(node.entries.values())
            else:
                node.drop_caches()

    def pass_change(self, kind: str, path: Path) -> Fault | None:
        """Count one change; return the fault that applies to it, if any."""
        at = self.operations
        self.operations += 1
        if self._power_cut_at is not None and at >= self._power_cut_at:
            if kind == "pwrite" and at == self._power_cut_at:
                return Fault(error=-1, written=self._torn_bytes)
            raise PowerCut(f"the power is off ({kind} {path})")
        return self._matching(kind, path, is_change=True)

    def pass_reading(self, kind: str, path: Path) -> None:
        """Let a read happen, or fail it; only a fault of its own kind applies to it."""
        if self._power_cut_at is not None and self.operations > self._power_cut_at:
            raise PowerCut(f"the power is off ({kind} {path})")
        if self._faults and (fault := self._matching(kind, path, is_change=False)) is not None:
            raise self.failure(fault, path)

    def fail_or_pass(self, kind: str, path: Path) -> None:
        """Let a change happen, or raise its fault."""
        fault = self.pass_change(kind, path)
        if fault is not None:
            raise self.failure(fault, path)

    def failure(self, fault: Fault, path: Path) -> Exception:
        """Return the exception of a failing operation."""
        if fault.error == -1:
            return PowerCut(f"the power failed ({path})")
        code = fault.error if fault.error is not None else errno.EIO
        return OSError(code, os.strerror(code), str(path))

    def _matching(self, kind: str, path: Path, *, is_change: bool) -> Fault | None:
        for fault in self._faults:
            if (fault.kind or (kind if is_change else None)) != kind or not path.name.endswith(
                fault.path_ends
            ):
                continue
            if fault.after > 0:
                fault.after -= 1
                return None
            if fault.times is not None:
                fault.times -= 1
                if fault.times == 0:
                    self._faults.remove(fault)
            return fault
        return None

    # The tree.

    def _find(self, path: Path) -> _FileNode | _DirectoryNode | None:
        node: _FileNode | _DirectoryNode | None = self._root
        for name in path.parts:
            if not isinstance(node, _DirectoryNode):
                return None
            if name != "/":
                node = node.entries.get(name)
        return node

    def _directory(self, path: Path) -> _DirectoryNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if not isinstance(node, _DirectoryNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return node

    def _file(self, path: Path) -> _FileNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if isinstance(node, _DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return node

    def open(self, path: Path, *, create: bool = False) -> MemoryFile:
        if create and self._find(path) is None:
            directory = self._directory(path.parent)
            self.fail_or_pass("open", path)
            directory.change({path.name: _FileNode()})
        return MemoryFile(self, path, self._file(path))

    def exists(self, path: Path) -> bool:
        return self._find(path) is not None

    def is_taken(self, path: Path) -> bool:
        """Return the same: there are no links."""
        return self.exists(path)

    def size(self, path: Path) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: Path) -> int:
        return self._file(path).modified_ms

    def listdir(self, path: Path) -> list[str]:
        return list(self._directory(path).entries)

    def make_directory(self, path: Path) -> None:
        if self._find(path) is None:
            parent = self._directory(path.parent)
            self.fail_or_pass("make_directory", path)
            parent.change({path.name: _DirectoryNode()})

    def remove(self, path: Path) -> None:
        self._file(path)
        self.fail_or_pass("remove", path)
        self._directory(path.parent).change({path.name: None})

    def remove_directory(self, path: Path) -> None:
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self.fail_or_pass("remove_directory", path)
        self._directory(path.parent).change({path.name: None})

    def rename(self, source: Path, target: Path) -> None:
        node = self._find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        parent = self._directory(target.parent)
        self.fail_or_pass("rename", source)
        if source.parent == target.parent:
            parent.change({source.name: None, target.name: node})
        else:
            parent.change({target.name: node})
            self._directory(source.parent).change({source.name: None})

    def sync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        self.fail_or_pass("sync_directory", path)
        directory.sync()

    @property
    def syncs_at_once(self) -> int:
        """One: a test repeats the order of all changes."""
        return 1

    def lock(self, path: Path) -> MemoryLock:
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        self._locked.add(path)
        return MemoryLock(self._locked, path)
