"""A file system that reads from the disk and keeps all changes in memory.

A check opens a log on it with the server's own code, to learn what the next start would do. Writing bytes
that the file already has, as recovery does, takes no memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from headgate.inspect.reading import open_regular
from headgate.log.filesystem import Lock
from headgate.log.header import Buffer


class OverlayFile:
    """One file, read from the disk until it is changed."""

    def __init__(self, path: Path | None) -> None:
        """`path` is the file on the disk; None for a new file."""
        self._path = path
        self._descriptor = -1
        self._size = path.stat().st_size if path is not None else 0
        self._data: bytearray | None = None if path is not None else bytearray()

    @property
    def descriptor(self) -> None:
        """None: callers must not use the descriptor of the file on the disk."""
        return None

    def pread(self, size: int, position: int) -> bytes:
        size = max(min(size, self._size - position), 0)
        if self._data is not None:
            return bytes(self._data[position : position + size])
        if self._descriptor < 0:
            assert self._path is not None
            self._descriptor = open_regular(self._path)
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
        """Do nothing: memory need not be reserved."""

    def datasync(self) -> None:
        """Do nothing: changes are not written to the disk."""

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """Close the descriptor. Changes are kept."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _kept(self) -> bytearray:
        if self._data is None:
            self._data = bytearray(self.pread(self._size, 0))
        return self._data


class Overlay:
    """The file system. `close` closes all files."""

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

    def is_taken(self, path: Path) -> bool:
        """Return the same: no name of a link is looked for."""
        return self.exists(path)

    def size(self, path: Path) -> int:
        file = self._files.get(path)
        return path.stat().st_size if file is None and path not in self._gone else self.open(path).size()

    def modified_ms(self, path: Path) -> int:
        """Return the time of the file on the disk: changes in memory do not count."""
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
        """Do nothing: changes are not written to the disk."""

    @property
    def syncs_at_once(self) -> int:
        """One: they do nothing."""
        return 1

    def lock(self, path: Path) -> Lock:
        return _never(path)

    def close(self) -> None:
        """Close all descriptors."""
        for file in self._files.values():
            file.close()


def _never(path: Path) -> NoReturn:
    raise AssertionError(f"{path}: a check does not lock a directory")
