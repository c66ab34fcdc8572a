"""Functions as machine code, by numba where it can be used.

1. numba is optional. Without it, or if it fails, there is no machine code, and callers read with numpy:
   slower, with the same result. A failure is told in a line on standard error, once in a process.
2. A function is compiled for the types of its arguments alone, when it is first asked for: an import or a
   plan does not wait for it, and arguments of other types are refused instead of compiled for.
3. numba keeps machine code on disk: in `NUMBA_CACHE_DIR`, in the package's `__pycache__`, or below the user's
   home. Kept code that cannot be loaded is replaced. Where none can be kept there is no machine code: each
   worker would compile for seconds, in which numpy reads millions of records.
4. `HEADGATE_NUMBA=no` in the environment does without numba.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

SWITCH = "HEADGATE_NUMBA"

OCTETS = "Array(uint8, 1, 'C', readonly=True)"
"""The types of arguments, as numba spells them: bytes; words at all positions, for reading and for writing
(`batch_scan.words_of`); a column for reading; one, or a table, to be filled.
"""
WORDS = "Array(int64, 1, 'A', readonly=True, aligned=False)"
WORDS_TO_FILL = "Array(int64, 1, 'A', aligned=False)"
COLUMN = "Array(int64, 1, 'A', readonly=True)"
COLUMN_TO_FILL = "int64[::1]"
TABLE_TO_FILL = "int64[:, ::1]"


def compiled(
    function: Callable[..., Any], result: str, *arguments: str, calls: tuple[Callable[..., Any], ...] = ()
) -> Callable[..., Any] | None:
    """Return the function as machine code for arguments of these types; None if there can be none.

    `calls` are the functions that it calls.
    """
    if (numba := _numba()) is None:
        return None
    try:
        for called in calls:
            numba.extending.register_jitable(called)
        kernel: Any = numba.njit(cache=True, nogil=True)(function)
        types = f"{result}({', '.join(arguments)})"
        try:
            kernel.compile(types)
        except Exception:
            # What is kept may be damaged. This forgets it: nothing is compiled yet.
            kernel.recompile()
            kernel.compile(types)
        kernel.disable_compile()
    except Exception as problem:
        _warn("numba cannot compile or keep machine code (NUMBA_CACHE_DIR tells it where)", problem)
        return None
    return kernel  # type: ignore[no-any-return]


@cache
def _numba() -> Any:
    """Return the module; None if it is not installed, not wanted, or does not work."""
    if os.environ.get(SWITCH) == "no":
        return None
    try:
        numba = import_module("numba")
        import_module("numba.extending")
    except Exception as problem:  # such as a numpy that is too new, or a library that does not fit
        if not isinstance(problem, ModuleNotFoundError) or problem.name != "numba":
            _warn("numba cannot be used", problem)
        return None
    # With numba's own switch, functions would run as plain Python, much slower than numpy.
    return None if numba.config.DISABLE_JIT else numba


_told: set[str] = set()


def _warn(what: str, problem: Exception) -> None:
    """Print a line, once in a process."""
    if what not in _told:
        _told.add(what)
        why = " ".join(f"{type(problem).__name__}: {problem}".split())
        print(f"headgate: {what}, so numpy reads, which is slower: {why[:300]}", file=sys.stderr)
