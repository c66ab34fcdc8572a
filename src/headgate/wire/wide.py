"""Wide arrays: arrays of many structs, as columns of numbers.

A commit or fetch of a thousand partitions is an array of structs. Each struct begins with fields of fixed
size. A few equal bytes or a string follow, and possibly a tagged number at the end. Such an array is read as
columns and written from columns in a few array operations (`wide_reading`, `wide_writing`). Iterating over it
yields the structs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
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
        "AbortedTransaction",
        "OffsetCommitRequestPartition",
        "OffsetCommitResponsePartition",
        "OffsetFetchResponsePartition",
        "OffsetFetchResponsePartitions",
    }
)
"""The structs whose arrays can be wide."""
LAST_NUMBERS: Final = {
    "OffsetCommitRequestPartition": "expected_offset",
    "OffsetCommitResponsePartition": "current_offset",
}
"""The tagged fields (int64) that can be columns if a struct has no tagged field after them."""
NARROWEST_WIDE: Final = 16
"""The smallest array that is read as columns. Smaller ones are read as fast struct by struct."""

_DTYPES: Final = {"b": ">i1", "h": ">i2", "i": ">i4", "q": ">i8"}
_INT64: Final = np.dtype(">i8")


class WideField(NamedTuple):
    """A number in a struct: its name, its position in the struct's bytes, its type."""

    name: str
    at: int
    dtype: np.dtype[Any]


class SomeNumbers(NamedTuple):
    """A number that only some of the structs have. The arrays have an element for each struct."""

    is_there: NDArray[np.bool_]
    numbers: Int64s

    def each(self) -> list[int | None]:
        """Return the number of each struct, None for structs without it."""
        pairs = zip(self.is_there.tolist(), self.numbers.tolist(), strict=True)
        return [number if is_there else None for is_there, number in pairs]


_NO_COLUMNS: Final[Mapping[str, Any]] = MappingProxyType({})


class WideStructs(Sequence[StructT], Generic[StructT]):
    """Structs that equal `template` except for the fields in columns.

    Columns have an element for each struct. `columns` are int64 arrays by field name, at least one. `some`
    are numbers that only some of the structs have. `texts` are strings.
    """

    __slots__ = ("columns", "some", "template", "texts")

    def __init__(
        self,
        template: StructT,
        columns: Mapping[str, Int64s],
        some: Mapping[str, SomeNumbers] = _NO_COLUMNS,
        texts: Mapping[str, Sequence[str | None]] = _NO_COLUMNS,
    ) -> None:
        self.template = template
        self.columns = columns
        self.some = some
        self.texts = texts

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[StructT]:
        values: list[Sequence[Any]] = [column.tolist() for column in self.columns.values()]
        values += [column.each() for column in self.some.values()]
        values += self.texts.values()
        names = [*self.columns, *self.some, *self.texts]
        for row in zip(*values, strict=True):
            yield struct_like(self.template, zip(names, row, strict=True))

    @overload
    def __getitem__(self, index: int) -> StructT: ...
    @overload
    def __getitem__(self, index: slice) -> list[StructT]: ...
    def __getitem__(self, index: int | slice) -> StructT | list[StructT]:
        if isinstance(index, slice):
            return list(self)[index]
        fields: list[tuple[str, Any]] = [(name, int(column[index])) for name, column in self.columns.items()]
        for name, (is_there, numbers) in self.some.items():
            fields.append((name, int(numbers[index]) if is_there[index] else None))
        fields += [(name, column[index]) for name, column in self.texts.items()]
        return struct_like(self.template, fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"WideStructs({list(self)!r})"


def struct_like(template: StructT, fields: Iterable[tuple[str, Any]]) -> StructT:
    """Return a copy of a struct with these fields changed."""
    struct_type = type(template)
    struct = struct_type.__new__(struct_type)
    for name in struct_type.FIELD_DEFAULTS:
        setattr(struct, name, getattr(template, name))
    for name, value in fields:
        setattr(struct, name, value)
    return struct


@cache
def leading_fields(struct_type: type[Struct], version: int) -> tuple[WideField, ...]:
    """Return the numbers at the start of a struct in this version. They can be columns."""
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
    """Return the tagged number at the end of a struct whose bytes are `written`; None if there is none."""
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


class MixedLayout(NamedTuple):
    """The layout of structs after their numbers: at most one string, then tagged fields."""

    text: str | None
    """The name of the string field."""
    may_be_null: bool
    """Whether the string is nullable."""
    is_legacy: bool
    """Whether this version has no tagged fields and two-byte lengths."""
    last: str | None
    """The name of the tagged number, which only some of the structs have."""
    tagged: bytes
    """The start of the tagged fields if that number is the only one."""


@cache
def mixed_layout(struct_type: type[Struct], version: int, is_flexible: bool) -> MixedLayout | None:
    """Return the layout with which structs that differ can be columns; None if this version has none."""
    numbers = {field.name for field in leading_fields(struct_type, version)}
    others = [
        field
        for field in layout_of(struct_type)
        if version in field.versions and field.tag is None and field.name not in numbers
    ]
    if not numbers or len(others) > 1 or any(one.kind != "string" or one.is_array for one in others):
        return None
    last = LAST_NUMBERS.get(struct_type.__name__) if is_flexible else None
    return MixedLayout(
        others[0].name if others else None,
        bool(others) and version in others[0].null_versions,
        not is_flexible,
        last,
        b"" if last is None else b"\x01" + _tag_and_size(struct_type, last),
    )
