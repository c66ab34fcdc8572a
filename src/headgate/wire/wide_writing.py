"""The writer of wide arrays: it encodes the template once, repeats its bytes, and puts in the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.wire.message import Struct
from headgate.wire.wide import WideField, WideStructs, last_number, struct_like


def parts_of(out: bytearray, structs: WideStructs[Any]) -> Iterator[Sequence[Any]]:
    """Yield the parts of the array to be written. The caller writes each part before it takes the next one.

    If only some structs have a number, these are one part and the others another part. After both are
    written, their bytes are put in the order of the structs. Structs with strings of their own are written
    one by one.
    """
    if structs.texts or len(structs.some) > 1:
        yield list(structs)
        return
    if not structs.some:
        yield structs
        return
    ((name, some),) = structs.some.items()
    start = len(out)
    yield _part(structs, ~some.is_there, {name: None}, {})
    middle = len(out)
    yield _part(structs, some.is_there, {name: 0}, {name: some.numbers})
    _put_in_order(out, start, middle, some.is_there)


def _part(
    structs: WideStructs[Any],
    rows: NDArray[np.bool_],
    fields: dict[str, int | None],
    columns: dict[str, NDArray[np.int64]],
) -> WideStructs[Struct]:
    """Return the structs of `rows`, with `fields` changed in the template."""
    all_columns = {**structs.columns, **columns}
    return WideStructs(
        struct_like(structs.template, fields.items()),
        {name: column[rows] for name, column in all_columns.items()},
    )


def _put_in_order(out: bytearray, start: int, middle: int, is_second: NDArray[np.bool_]) -> None:
    """Put structs of two sizes in order: those of one size are at `start`, of the other at `middle`."""
    counts = (int(np.count_nonzero(~is_second)), int(np.count_nonzero(is_second)))
    if not all(counts):
        return
    written = np.frombuffer(bytes(out[start:]), np.uint8)
    parts = written[: middle - start], written[middle - start :]
    sizes = [len(part) // count for part, count in zip(parts, counts, strict=True)]
    ends = np.cumsum(np.where(is_second, sizes[1], sizes[0]))
    ordered = np.empty(len(written), np.uint8)
    for part, size, rows in zip(parts, sizes, (~is_second, is_second), strict=True):
        one = np.dtype(f"V{size}")
        places = np.ndarray((len(ordered) - size + 1,), one, ordered, strides=(1,))
        places[ends[rows] - size] = part.view(one)
    out[start:] = ordered.tobytes()


def repeat_wide(out: bytearray, start: int, structs: WideStructs[Any], fields: Sequence[WideField]) -> None:
    """Repeat the template's bytes, which are `out` from `start` on, for every struct, with its numbers.

    Raises OverflowError for a number that does not fit into its field.
    """
    template = np.frombuffer(bytes(out[start:]), np.uint8)
    last = last_number(structs.template, bytes(out[start:]))
    if last is not None:
        fields = (*fields, last)
    rows = np.empty((len(structs), len(template)), np.uint8)
    rows[:] = template
    for name, at, dtype in fields:
        column = structs.columns.get(name)
        if column is not None:
            written = column.astype(dtype)
            if not (written == column).all():
                raise OverflowError(f"{name} has a number that does not fit")
            rows[:, at : at + dtype.itemsize] = written.view(np.uint8).reshape(len(structs), dtype.itemsize)
    out[start:] = rows.tobytes()
