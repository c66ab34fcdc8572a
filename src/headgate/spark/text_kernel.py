"""Copy parts of a buffer into one Arrow column, as machine code where numba is installed.

Tests run the same function as plain Python. Without numba, `headgate.spark.arrow` copies with Arrow alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.log.batch_scan import WORD_BYTES


def place_parts(size: Any, ends: Any) -> int:
    """Fill `ends`, which has a row more than `size`, with where parts of these sizes end if one follows the
    other; sizes below 0 count as 0. Return the number of sizes below 0.
    """
    missing = 0
    end = 0
    ends[0] = 0
    for row in range(len(size)):
        if size[row] < 0:
            missing += 1
        else:
            end += size[row]
        ends[row + 1] = end
    return missing


def copy_parts(words: Any, at: Any, ends: Any, out: Any) -> None:
    """Copy parts of a buffer: part i begins at `at[i]`, and has `ends[i + 1] - ends[i]` bytes.

    `words` and `out` are those of the two buffers (`batch_scan.words_of`). Whole words are copied, so both
    buffers have a word more than the parts.
    """
    for row in range(len(at)):
        source = at[row]
        for target in range(ends[row], ends[row + 1], WORD_BYTES):
            out[target] = words[source]
            source += WORD_BYTES


def _compiled(function: Callable[..., Any]) -> Callable[..., Any] | None:
    try:
        from numba import njit
    except ImportError:
        return None
    compiled: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    return compiled


compiled_place_parts: Callable[..., Any] | None
compiled_copy_parts: Callable[..., Any] | None
"""None without numba. They are made when first used: to import numba takes longer than a small read."""

_SOURCES: dict[str, Callable[..., Any]] = {
    "compiled_place_parts": place_parts,
    "compiled_copy_parts": copy_parts,
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = compiled = _compiled(_SOURCES[name])
    return compiled
