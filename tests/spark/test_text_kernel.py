"""Columns of bytes are the same whether machine code copies them or Arrow does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.kernels import WAYS, read_by

from headgate.spark import arrow, text_kernel


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_copies_what_arrow_copies(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any sizes, nulls among them, and of no rows at all."""
    read_by(way, monkeypatch)
    chance = random.Random(seed)
    payload = chance.randbytes(300) + bytes(64)
    count = chance.choice([0, 1, 8, 9, 40])
    at = np.array(sorted(chance.randrange(280) for _ in range(count)), np.int64)
    gaps = np.diff(at, append=300)
    sizes = [chance.choice([-1, 0, chance.randrange(int(gap) + 1)]) for gap in gaps]
    size = np.array(sizes if seed % 2 else np.maximum(sizes, 0), np.int64)
    expected = [
        None if one < 0 else payload[begin : begin + one]
        for begin, one in zip(at.tolist(), size.tolist(), strict=True)
    ]
    column = arrow.binaries(payload, at, size)
    column.validate(full=True)
    assert column.to_pylist() == expected


def test_a_column_too_large_for_its_positions_is_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions have 32 bits."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(text_kernel, "compiled_kernels", lambda: (never, never))
    monkeypatch.setattr(arrow, "_MOST_BYTES", 3)
    column = arrow.binaries(b"abcdef" + bytes(64), np.array([0, 3]), np.array([3, 3]))
    assert column.to_pylist() == [b"abc", b"def"]
