"""The page of supported APIs and clients is current."""

from __future__ import annotations

from tools.generate_supported import OUTPUT, generated


def test_the_page_is_what_the_registrations_say() -> None:
    """And what the compatibility tests test."""
    assert OUTPUT.read_text() == generated(), "run python -m tools.generate_supported"
