"""A disk in memory, with an empty data directory that would survive a crash."""

from __future__ import annotations

from pathlib import Path

from headgate.log.memory_filesystem import MemoryFileSystem

DATA_DIR = Path("/data")


def new_disk() -> MemoryFileSystem:
    """An empty data directory at DATA_DIR."""
    files = MemoryFileSystem()
    files.make_directory(DATA_DIR)
    files.sync_directory(DATA_DIR.parent)
    return files
