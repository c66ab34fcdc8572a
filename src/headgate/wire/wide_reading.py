"""Reading wide arrays as columns.

Mostly the structs are alike but for their numbers, and the array is a table of bytes. Where they are not,
because their texts differ or only some have a tagged number, where each ends is found one after the other,
and all else for all of them at once. What is read this way is what is read one by one; what does not read, or
has anything else in it, is left to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.wire.primitives import LONGEST_STRING_BYTES, Refusal, read_varint
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
"""Shorter arrays of structs that are not alike are read one by one: that is as quick."""

NULL: Final = -1
_INT64: Final = np.dtype(">i8")


class WideArray(NamedTuple):
    """An array that may be wide: of so many structs, the first of which stands at `span`."""

    data: bytes
    span: tuple[int, int]
    struct_count: int


def read_wide(
    array: WideArray, first: StructT, fields: Sequence[WideField], mixed: MixedLayout | None
) -> tuple[WideStructs[StructT], int] | None:
    """The structs and where they end; None if they have to be read one by one."""
    alike = _read_alike(array, first, fields)
    if alike is not None:
        start, end = array.span
        return alike, start + array.struct_count * (end - start)
    if mixed is None or array.struct_count < NARROWEST_MIXED:
        return None
    return _read_mixed(array, first, fields, mixed)


def _read_alike(array: WideArray, first: StructT, fields: Sequence[WideField]) -> WideStructs[StructT] | None:
    """Structs of the same bytes but for their numbers."""
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
    """Structs with texts of their own, or of which only some have the last number."""
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
    except (IndexError, Refusal, UnicodeDecodeError):
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
    """Where each struct ends, with a compact length and tagged fields; None if there are several of these.

    One tagged field is taken for the last number: whether it is that is still to be seen.
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
    """Where each struct ends, with a length of two bytes and no tagged fields."""
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
    """Where texts begin and end, and which of them are null."""

    begins: Int64s
    ends: Int64s
    is_null: NDArray[np.bool_]


def _text_spans(data: bytes, lengths_at: Int64s, layout: MixedLayout) -> _TextSpans:
    """The texts whose lengths stand at these places. Raises Refusal for a length that cannot be."""
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
        raise Refusal("has a length that cannot be")
    return _TextSpans(begins, begins + np.maximum(sizes, 0), is_null)


def _texts(data: bytes, spans: _TextSpans, layout: MixedLayout) -> Mapping[str, Sequence[str | None]]:
    """The text of each struct; nothing if all of them are the first one's."""
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
    """Whether these bytes stand at all of these places."""
    if not content or not len(places):
        return True
    rows = _each_place(data, np.dtype(f"V{len(content)}"))[places].view(np.uint8).reshape(len(places), -1)
    return bool((rows == np.frombuffer(content, np.uint8)).all())


def _numbers(data: bytes, dtype: np.dtype[Any], places: Int64s) -> Int64s:
    numbers: Int64s = _each_place(data, dtype)[places].astype(np.int64)
    return numbers


def _each_place(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The value at each place of the data."""
    return np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
