"""The order in which seeds are tried until one detects a fault."""

from __future__ import annotations

from collections.abc import Collection


def seeds_to_try(first: int, most: int) -> Collection[int]:
    """Return `first`, which is known to detect the fault, and then all others from 1 to `most`.

    A change of the server or of the simulation gives seeds another meaning; then another detects it.
    """
    return dict.fromkeys((first, *range(1, most + 1)))
