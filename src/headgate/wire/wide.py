"""Wide arrays: structs that differ in their first numbers only, and in one at their end, kept as columns.

A commit or fetch of a thousand partitions is an array of structs that begin with fields of fixed size and go
on with the same few bytes each. It is read as columns of numbers and written from them, in a few array
operations; whoever wants the structs themselves iterates over it as over any list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from headgate.wire.layout import FIXED_FORMATS, layout_of
from headgate.wire.message import Struct
from headgate.wire.primitives import write_varint

StructT = TypeVar("StructT", bound=Struct)
Int64s = NDArray[np.int64]

WIDE_STRUCTS: Final = frozenset(
    {
        "OffsetCommitRequestPartition",
        "OffsetCommitResponsePartition",
        "OffsetFetchResponsePartition",
        "OffsetFetchResponsePartitions",
    }
)
"""The structs whose arrays may be wide."""
LAST_NUMBERS: Final = {
    "OffsetCommitRequestPartition": "expected_offset",
    "OffsetCommitResponsePartition": "current_offset",
}
"""The tagged fields (int64) that may be columns where a struct has no tagged field behind them."""
NARROWEST_WIDE: Final = 16
"""Shorter arrays are read one by one: that is as quick."""

_DTYPES: Final = {"b": ">i1", "h": ">i2", "i": ">i4", "q": ">i8"}
_INT64: Final = np.dtype(">i8")


class WideField(NamedTuple):
    """A field of fixed size at the beginning of a struct: its name, its place, its type."""

    name: str
    at: int
    dtype: np.dtype[Any]


class WideStructs(Sequence[StructT], Generic[StructT]):
    """Structs like `template` but for the fields in `columns`: int64 arrays of one length, by name."""

    __slots__ = ("columns", "template")

    def __init__(self, template: StructT, columns: Mapping[str, Int64s]) -> None:
        self.template = template
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[StructT]:
        numbers = [column.tolist() for column in self.columns.values()]
        for row in zip(*numbers, strict=True):
            yield self._struct(row)

    @overload
    def __getitem__(self, index: int) -> StructT: ...
    @overload
    def __getitem__(self, index: slice) -> list[StructT]: ...
    def __getitem__(self, index: int | slice) -> StructT | list[StructT]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._struct(tuple(int(column[index]) for column in self.columns.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"WideStructs({list(self)!r})"

    def _struct(self, row: Sequence[int]) -> StructT:
        struct_type = type(self.template)
        struct = struct_type.__new__(struct_type)
        for name in struct_type.FIELD_DEFAULTS:
            setattr(struct, name, getattr(self.template, name))
        for name, value in zip(self.columns, row, strict=True):
            setattr(struct, name, value)
        return struct


class WideParts(Sequence[StructT], Generic[StructT]):
    """Structs one after the other, some of them in columns: not all are alike, but long stretches are."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Sequence[StructT]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[StructT]:
        for part in self.parts:
            yield from part

    @overload
    def __getitem__(self, index: int) -> StructT: ...
    @overload
    def __getitem__(self, index: slice) -> list[StructT]: ...
    def __getitem__(self, index: int | slice) -> StructT | list[StructT]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"WideParts({self.parts!r})"


@cache
def leading_fields(struct_type: type[Struct], version: int) -> tuple[WideField, ...]:
    """The numbers at the beginning of a struct in this version: those that may be columns."""
    fields: list[WideField] = []
    at = 0
    for field in layout_of(struct_type):
        if version not in field.versions:
            continue
        layout = FIXED_FORMATS.get(field.kind)
        if layout not in _DTYPES or field.is_array or field.tag is not None:
            break
        dtype = np.dtype(_DTYPES[layout])
        fields.append(WideField(field.name, at, dtype))
        at += dtype.itemsize
    return tuple(fields)


def last_number(struct: Struct, written: bytes) -> WideField | None:
    """The tagged number at the very end of a struct that was written so; None if there is none."""
    name = LAST_NUMBERS.get(type(struct).__name__)
    if name is None or getattr(struct, name) is None:
        return None
    head = _tag_and_size(type(struct), name)
    at = len(written) - _INT64.itemsize
    return WideField(name, at, _INT64) if written[at - len(head) : at] == head else None


@cache
def _tag_and_size(struct_type: type[Struct], name: str) -> bytes:
    (tag,) = (field.tag for field in layout_of(struct_type) if field.name == name)
    assert tag is not None
    return write_varint(tag) + write_varint(_INT64.itemsize)


def read_wide(
    data: bytes, span: tuple[int, int], count: int, first: StructT, fields: Sequence[WideField]
) -> WideStructs[StructT] | None:
    """The array of `count` structs, the first of which stands at `span`; None if they are not alike."""
    start, end = span
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
            rows[:, at : at + dtype.itemsize] = written.view(np.uint8).reshape(len(structs), -1)
    out[start:] = rows.tobytes()
