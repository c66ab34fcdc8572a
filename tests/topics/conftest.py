"""A fresh disk for every test."""

from __future__ import annotations

import pytest
from tests.topics.disk import Disk


@pytest.fixture
def disk() -> Disk:
    return Disk()
