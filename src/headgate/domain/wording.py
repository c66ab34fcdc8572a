"""Words for numbers in messages."""

from __future__ import annotations


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun, such as `1 topic`, `2,000 topics`; `several` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"
