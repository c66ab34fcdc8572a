"""Copy parts of a buffer into one Arrow column, as machine code where numba is installed.

Tests run the same function as plain Python. Without numba, `headgate.spark.arrow` copies with Arrow alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def copy_parts(octets: Any, at: Any, ends: Any, out: Any) -> None:
    """Fill `out` with parts of `octets`: part i begins at `at[i]`, and has `ends[i + 1] - ends[i]` bytes."""
    for row in range(len(at)):
        source = at[row]
        for target in range(ends[row], ends[row + 1]):
            out[target] = octets[source]
            source += 1


def _compiled() -> Callable[..., None] | None:
    try:
        from numba import njit
    except ImportError:
        return None
    compiled: Callable[..., None] = njit(cache=True, nogil=True)(copy_parts)
    return compiled


compiled_copy_parts = _compiled()
"""None without numba."""
