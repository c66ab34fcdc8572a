"""Copy parts of a buffer into one Arrow column, as machine code where numba is installed.

Tests run the same function as plain Python. Without numba, `headgate.spark.arrow` copies with Arrow alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from headgate.log import machine_code
from headgate.log.batch_scan import WORD_BYTES

Kernels = tuple[Callable[..., int], Callable[..., None]]
"""`place_parts` and `copy_parts`."""

_ENDS = "Array(int32, 1, 'C', readonly=True)"
_ENDS_TO_FILL = "int32[::1]"


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


@cache
def compiled_kernels() -> Kernels | None:
    """Return both functions as machine code; None without numba."""
    read = machine_code.COLUMN
    place = machine_code.compiled(place_parts, "int64", read, _ENDS_TO_FILL)
    copy = machine_code.compiled(
        copy_parts, "void", machine_code.WORDS, read, _ENDS, machine_code.WORDS_TO_FILL
    )
    return None if place is None or copy is None else (place, copy)
