"""Fixtures of the runtime's tests."""

from __future__ import annotations

import pytest

from headgate.core.offsets import image, pending_image


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a checkpoint of a few offsets take several parts."""
    monkeypatch.setattr(pending_image, "_OFFSETS_A_PART", 4)
    monkeypatch.setattr(image, "_ROWS_A_PART", 4)
    monkeypatch.setattr(image, "_ROWS_A_PART_WITH_TEXTS", 4)
