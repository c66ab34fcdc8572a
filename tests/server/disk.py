"""A disk in memory, with an empty data directory that survives a crash."""

from __future__ import annotations

from pathlib import Path

from headgate.log.memory_filesystem import MemoryFileSystem

DATA_DIR = Path("/data")


def new_disk() -> MemoryFileSystem:
    """Return a file system with an empty data directory at DATA_DIR."""
    files = MemoryFileSystem()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    return files
