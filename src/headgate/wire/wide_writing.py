"""Writing wide arrays from columns: the template is written once, and its bytes are those of every struct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.wire.message import Struct
from headgate.wire.wide import WideField, WideStructs, last_number, struct_like


def parts_of(out: bytearray, structs: WideStructs[Any]) -> Iterator[Sequence[Any]]:
    """What the array is written from, part by part; each is written before the next one is asked for.

    Those that have a number which only some have are one part and the others are another. When both are
    written, their bytes are put in the order of the structs. Texts are written one by one.
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
    """Some of the structs; the template of these has other `fields`."""
    all_columns = {**structs.columns, **columns}
    return WideStructs(
        struct_like(structs.template, fields.items()),
        {name: column[rows] for name, column in all_columns.items()},
    )


def _put_in_order(out: bytearray, start: int, middle: int, is_second: NDArray[np.bool_]) -> None:
    """Structs of two sizes, those of the first from `start` and those of the second from `middle` on."""
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
    """Make the template's bytes, which are `out` from `start` on, those of every struct.

    Raises OverflowError for a number that its field cannot hold.
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
                raise OverflowError(f"{name} holds a number that does not fit")
            rows[:, at : at + dtype.itemsize] = written.view(np.uint8).reshape(len(structs), dtype.itemsize)
    out[start:] = rows.tobytes()
