"""The reader of wide arrays as columns.

Mostly the structs differ only in their numbers, and the array is a table of bytes with equal rows. Otherwise
(strings differ, or only some structs have a tagged number) the end of each struct is found one by one, and
the values of all structs are read together. The result equals that of reading struct by struct. Malformed
arrays, and structs with other tagged fields, are left to the reader of single structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.wire.primitives import LONGEST_STRING_BYTES, InvalidEncoding, read_varint
from headgate.wire.wide import (
    Int64s,
    MixedLayout,
    SomeNumbers,
    StructT,
    WideField,
    WideStructs,
    last_number,
)

NARROWEST_MIXED: Final = 100
"""The smallest array of differing structs that is read as columns."""

NULL: Final = -1
_INT64: Final = np.dtype(">i8")


class WideArray(NamedTuple):
    """An array that may be wide. `span` is the start and the end of its first struct."""

    data: bytes
    span: tuple[int, int]
    struct_count: int


def read_wide(
    array: WideArray, first: StructT, fields: Sequence[WideField], mixed: MixedLayout | None
) -> tuple[WideStructs[StructT], int] | None:
    """Return the structs and the position after them; None if they must be read struct by struct."""
    alike = _read_alike(array, first, fields)
    if alike is not None:
        start, end = array.span
        return alike, start + array.struct_count * (end - start)
    if mixed is None or array.struct_count < NARROWEST_MIXED:
        return None
    return _read_mixed(array, first, fields, mixed)


def _read_alike(array: WideArray, first: StructT, fields: Sequence[WideField]) -> WideStructs[StructT] | None:
    """Read structs that differ only in their numbers; None if they differ otherwise."""
    data, (start, end), count = array
    width = end - start
    if count * width > len(data) - start:
        return None
    rows = np.frombuffer(data, np.uint8, count * width, start).reshape(count, width)
    shared_from = fields[-1].at + fields[-1].dtype.itemsize
    shared = rows[:, shared_from:]
    last = last_number(first, data[start:end])
    if last is not None:
        fields = (*fields, last)
        shared = rows[:, shared_from : last.at]
    if not (shared == shared[0]).all():
        return None
    columns = {
        name: rows[:, at : at + dtype.itemsize].copy().view(dtype).ravel().astype(np.int64)
        for name, at, dtype in fields
    }
    return WideStructs(first, columns)


def _read_mixed(
    array: WideArray, first: StructT, fields: Sequence[WideField], layout: MixedLayout
) -> tuple[WideStructs[StructT], int] | None:
    """Read structs whose strings differ, or of which only some have the last number."""
    data, (start, _), _ = array
    numbers_size = fields[-1].at + fields[-1].dtype.itemsize
    try:
        found = (_ends_of_legacy if layout.is_legacy else _ends_of_flexible)(array, numbers_size, layout)
        if found is None or found[-1] > len(data):
            return None
        ends = np.array(found)
        starts = np.concatenate(([start], ends[:-1]))
        spans = _text_spans(data, starts + numbers_size, layout)
        texts = _texts(data, spans, layout)
    except (IndexError, InvalidEncoding, UnicodeDecodeError):
        return None
    columns = {name: _numbers(data, dtype, starts + at) for name, at, dtype in fields}
    some = {}
    if layout.last is not None:
        is_there = ends - spans.ends > 1
        places = ends[is_there] - _INT64.itemsize
        if not _all_are(data, places - len(layout.tagged), layout.tagged):
            return None
        if len(places) == len(ends):
            columns[layout.last] = _numbers(data, _INT64, places)
        elif len(places):
            numbers = np.zeros(len(ends), np.int64)
            numbers[is_there] = _numbers(data, _INT64, places)
            some[layout.last] = SomeNumbers(is_there, numbers)
    return WideStructs(first, columns, some, texts), int(ends[-1])


def _ends_of_flexible(array: WideArray, numbers_size: int, layout: MixedLayout) -> list[int] | None:
    """Return the end of each struct of a flexible version; None if one has several tagged fields.

    A single tagged field is assumed to be the last number. The caller checks that.
    """
    data, (at, _), count = array
    has_text, tagged_size = layout.text is not None, len(layout.tagged) + _INT64.itemsize
    ends = []
    for _ in range(count):
        at += numbers_size
        if has_text:
            size = data[at]
            if size > 0x7F:
                size, at = read_varint(data, at)
                at -= 1
            at += size or 1
        tags = data[at]
        if tags == 0:
            at += 1
        elif tags == 1:
            at += tagged_size
        else:
            return None
        ends.append(at)
    return ends


def _ends_of_legacy(array: WideArray, numbers_size: int, layout: MixedLayout) -> list[int]:
    """Return the end of each struct of a version with two-byte lengths and without tagged fields."""
    data, (at, _), count = array
    has_text = layout.text is not None
    ends = []
    for _ in range(count):
        at += numbers_size
        if has_text:
            size = data[at] << 8 | data[at + 1]
            at += 2 + (size if size < 0x8000 else 0)
        ends.append(at)
    return ends


class _TextSpans(NamedTuple):
    """Start and end positions of strings, and which of them are null."""

    begins: Int64s
    ends: Int64s
    is_null: NDArray[np.bool_]


def _text_spans(data: bytes, lengths_at: Int64s, layout: MixedLayout) -> _TextSpans:
    """Return the spans of the strings whose lengths are at these positions. Raises InvalidEncoding."""
    if layout.text is None:
        return _TextSpans(lengths_at, lengths_at, np.zeros(len(lengths_at), np.bool_))
    if layout.is_legacy:
        sizes, begins = _numbers(data, np.dtype(">i2"), lengths_at), lengths_at + 2
    else:
        sizes, begins = _numbers(data, np.dtype("u1"), lengths_at) - 1, lengths_at + 1
        for row in np.flatnonzero(sizes > 0x7E).tolist():
            size, begins[row] = read_varint(data, int(lengths_at[row]))
            sizes[row] = size - 1
    is_null = sizes == NULL
    is_fit = (sizes >= NULL) & (sizes <= LONGEST_STRING_BYTES)
    if not is_fit.all() or (is_null.any() and not layout.may_be_null):
        raise InvalidEncoding("has an invalid length")
    return _TextSpans(begins, begins + np.maximum(sizes, 0), is_null)


def _texts(data: bytes, spans: _TextSpans, layout: MixedLayout) -> Mapping[str, Sequence[str | None]]:
    """Return the string of each struct; nothing if all equal the first one."""
    begins, ends, is_null = spans
    first = None if is_null[0] else data[begins[0] : ends[0]]
    if layout.text is None or (first is None and is_null.all()):
        return {}
    if first is not None and not is_null.any():
        is_first_as_long = (ends - begins == len(first)).all()
        if is_first_as_long and _all_are(data, begins, first):
            return {}
    texts: list[str | None] = [
        data[begin:end].decode() for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    for row in np.flatnonzero(is_null).tolist():
        texts[row] = None
    return {layout.text: texts}


def _all_are(data: bytes, places: Int64s, content: bytes) -> bool:
    """Tell whether `content` is at all of these positions."""
    if not content or not len(places):
        return True
    rows = _each_place(data, np.dtype(f"V{len(content)}"))[places].view(np.uint8).reshape(len(places), -1)
    return bool((rows == np.frombuffer(content, np.uint8)).all())


def _numbers(data: bytes, dtype: np.dtype[Any], places: Int64s) -> Int64s:
    numbers: Int64s = _each_place(data, dtype)[places].astype(np.int64)
    return numbers


def _each_place(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a view of the data with a value at each byte position."""
    return np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
