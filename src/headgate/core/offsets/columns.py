"""Links of the offset table's rows. Each leads to the next row of the same group and may be marked."""

from __future__ import annotations

from typing import Any

NONE = -1
"""The link at the end of a chain."""


def flip(link: Any) -> Any:
    """Mark or unmark a link (or many): -1 and above is unmarked, below -1 is marked. Its own inverse."""
    return -3 - link
