"""The three ways of the functions that numba compiles: numpy instead of them, plain Python, machine code.

Plain Python here refuses what machine code does not check: an index outside of its array, below 0 too, and a
number that its place cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from headgate.log import record_kernel
from headgate.spark import commit_kernel, text_kernel

NUMPY, PLAIN, MACHINE_CODE = WAYS = ("numpy", "plain Python", "machine code")


class Checked:
    """An array that checks its indexes, and whether a number fits into it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: int) -> Any:
        assert 0 <= at < len(self.array), f"index {at} of {len(self.array)}"
        return self.array.item(at)

    def __setitem__(self, at: int | tuple[int, int], value: int) -> None:
        places = at if isinstance(at, tuple) else (at,)
        assert all(0 <= place < size for place, size in zip(places, self.array.shape, strict=True)), at
        self.array[at] = value
        assert self.array[at] == value, f"{value} does not fit into {self.array.dtype}"


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that runs on checked ones."""

    def run(*arrays: np.ndarray[Any, Any]) -> Any:
        return function(*map(Checked, arrays))

    return run


def read_by(way: str, patch: pytest.MonkeyPatch) -> None:
    """Read records by this way until the patch is undone; skip the test where numba is missing."""
    if way == MACHINE_CODE:
        if find_spec("numba") is None:
            pytest.skip("numba is not installed: pip install '.[spark-fast]'")
        assert record_kernel.compiled_find_fields() is not None
        assert commit_kernel.compiled_find_commits() is not None
        assert text_kernel.compiled_kernels() is not None
        return
    plain = way == PLAIN
    fields, commits = checked(record_kernel.find_fields), checked(commit_kernel.find_commits)
    texts = checked(text_kernel.place_parts), checked(text_kernel.copy_parts)
    patch.setattr(record_kernel, "compiled_find_fields", lambda: fields if plain else None)
    patch.setattr(commit_kernel, "compiled_find_commits", lambda: commits if plain else None)
    patch.setattr(text_kernel, "compiled_kernels", lambda: texts if plain else None)
