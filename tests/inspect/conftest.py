"""What the tests of inspection share: a directory that is whole, and a copy of it to be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.inspect.support import build


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was closed well. Not to be changed."""
    return build(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "data"))
