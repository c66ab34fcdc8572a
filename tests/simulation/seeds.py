"""The order in which seeds are tried until one detects a fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import pytest


def seeds_to_try(first: int, most: int) -> Collection[int]:
    """Return `first`, which is known to detect the fault, and then all others from 1 to `most`.

    A change of the server or of the simulation gives seeds another meaning; then another detects it.
    """
    return dict.fromkeys((first, *range(1, most + 1)))


def check_that_it_is_noticed(
    break_the_server: Callable[[pytest.MonkeyPatch], None],
    seeds: Iterable[int],
    has_violation: Callable[[int], bool],
) -> None:
    """Check that one of the seeds detects a fault, and finds nothing without it."""
    with pytest.MonkeyPatch.context() as patch:
        break_the_server(patch)
        noticing = next((seed for seed in seeds if has_violation(seed)), None)
    assert noticing is not None
    assert not has_violation(noticing), noticing
