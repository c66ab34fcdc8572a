"""A disk in memory, and a place there for one log."""

from __future__ import annotations

import pytest
from tests.log.support import Place, memory

from headgate.log.filesystem import MemoryFileSystem


@pytest.fixture
def files() -> MemoryFileSystem:
    """An empty data directory in memory."""
    return memory()


@pytest.fixture
def place(files: MemoryFileSystem) -> Place:
    """A place for one log of small segments."""
    return Place(files)
