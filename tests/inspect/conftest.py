"""Fixtures of the inspection tests: an undamaged data directory, and a copy of it to be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.inspect.support import build


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a data directory that was closed cleanly. Tests must not change it."""
    return build(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, which tests can change."""
    return Path(shutil.copytree(whole, tmp_path / "data"))
