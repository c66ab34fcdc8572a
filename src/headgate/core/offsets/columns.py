"""The links of the offset table's rows: each leads to the next row of the same group, and may be marked."""

from __future__ import annotations

from typing import Any

NONE = -1
"""The link that ends a chain."""


def flip(link: Any) -> Any:
    """Mark or unmark a link (or many): -1 and up is unmarked, below is marked. Its own inverse."""
    return -3 - link
