"""A disk to try things out on: it shows what the real one holds, and keeps every change to itself.

With it a check has the server's own code open a log, and sees what the next start would do. Bytes written
that are there already, as recovery writes some again, cost nothing; other changes are kept in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from headgate.log.filesystem import Lock
from headgate.log.header import Buffer


class OverlayFile:
    """One file, read from the disk as far as nothing was changed."""

    def __init__(self, path: Path | None) -> None:
        """`path` is where it is on the disk; None for a file that is new."""
        self._path = path
        self._descriptor = -1
        self._size = path.stat().st_size if path is not None else 0
        self._data: bytearray | None = None if path is not None else bytearray()

    @property
    def descriptor(self) -> None:
        """Nobody else may touch it."""
        return None

    def pread(self, size: int, position: int) -> bytes:
        size = max(min(size, self._size - position), 0)
        if self._data is not None:
            return bytes(self._data[position : position + size])
        if self._descriptor < 0:
            assert self._path is not None
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._descriptor, size, position)

    def pwrite(self, data: Buffer, position: int) -> int:
        end = position + len(data)
        if end > self._size or self.pread(len(data), position) != bytes(data):
            kept = self._kept()
            kept.extend(bytes(max(end - len(kept), 0)))
            kept[position:end] = data
            self._size = len(kept)
        return len(data)

    def truncate(self, size: int) -> None:
        if size > self._size:
            kept = self._kept()
            kept.extend(bytes(size - len(kept)))
        elif self._data is not None:
            del self._data[size:]
        self._size = size

    def reserve(self, size: int, position: int) -> None:
        """There is room."""

    def datasync(self) -> None:
        """There is nothing to make durable."""

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """Give the descriptor back; what was changed is kept."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _kept(self) -> bytearray:
        if self._data is None:
            self._data = bytearray(self.pread(self._size, 0))
        return self._data


class Overlay:
    """The disk below, and what was changed above it. `close` gives back what it holds open."""

    def __init__(self) -> None:
        self._files: dict[Path, OverlayFile] = {}
        self._gone: set[Path] = set()
        self._made: set[Path] = set()

    def open(self, path: Path, *, create: bool = False) -> OverlayFile:
        file = self._files.get(path)
        if file is None:
            if path not in self._gone and path.exists():
                file = OverlayFile(path)
            elif create:
                file = OverlayFile(None)
            else:
                raise FileNotFoundError(2, "No such file or directory", str(path))
            self._files[path] = file
        return file

    def exists(self, path: Path) -> bool:
        return path in self._files or path in self._made or (path not in self._gone and path.exists())

    def size(self, path: Path) -> int:
        file = self._files.get(path)
        return path.stat().st_size if file is None and path not in self._gone else self.open(path).size()

    def modified_ms(self, path: Path) -> int:
        """What was changed here counts as changed by nobody yet."""
        return path.stat().st_mtime_ns // 1_000_000

    def listdir(self, path: Path) -> list[str]:
        there = {entry.name for entry in path.iterdir()} if path.exists() else set()
        there -= {one.name for one in self._gone if one.parent == path}
        return sorted(there | {one.name for one in (*self._files, *self._made) if one.parent == path})

    def make_directory(self, path: Path) -> None:
        self._made.add(path)

    def remove(self, path: Path) -> None:
        self.open(path).close()
        del self._files[path]
        self._gone.add(path)

    def remove_directory(self, path: Path) -> None:
        self._made.discard(path)
        self._gone.add(path)

    def rename(self, source: Path, target: Path) -> None:
        file = self.open(source)
        del self._files[source]
        self._gone.add(source)
        self._files[target] = file

    def sync_directory(self, path: Path) -> None:
        """There is nothing to make durable."""

    def lock(self, path: Path) -> Lock:
        return _never(path)

    def close(self) -> None:
        """Give every descriptor back."""
        for file in self._files.values():
            file.close()


def _never(path: Path) -> NoReturn:
    raise AssertionError(f"{path} is not locked by who only looks")
