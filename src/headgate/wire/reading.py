"""The compiler of readers: one reader for each version of a message.

Rules:

1. Consecutive fields of fixed size (a run) are read with one call of `struct`. A run can end with the length
   of a string, of an array or of the tagged fields.
2. Every length is checked against the bytes left before it is used.
3. Unknown tagged fields are skipped. Bytes after the message are ignored.
4. Invalid bytes always raise `MalformedMessage`, which names the field.
5. The number of elements in all arrays of a request is limited: an element of two bytes takes up to a hundred
   in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headgate.wire.errors import MalformedMessage
from headgate.wire.layout import FIXED_FORMATS, FieldLayout, is_flexible, layout_of
from headgate.wire.message import EMPTY, FRESH, Message, Request, Struct
from headgate.wire.primitives import (
    LONGEST_STRING_BYTES,
    InvalidEncoding,
    bad_length,
    read_varint,
    skip_tagged_fields,
    too_long,
    too_many,
)
from headgate.wire.source import Source
from headgate.wire.wide import NARROWEST_WIDE, WIDE_STRUCTS, leading_fields, mixed_layout
from headgate.wire.wide_reading import WideArray, read_wide

MOST_ELEMENTS: Final = 1_500_000
"""Elements of all arrays of one request, those within elements included, each by its weight: more than a
million partitions, or a hundred thousand topics.
"""
_FEWER_ELEMENTS: Final = {
    "AlterConfigsRequest": 300_000,
    "CreateTopicsRequest": 200_000,
    "DeleteTopicsRequest": 100_000,
    "DescribeLogDirsRequest": 500_000,
    "DescribeTopicPartitionsRequest": 200_000,
    "JoinGroupRequest": 1_000,
    "LeaveGroupRequest": 100_000,
    "OffsetForLeaderEpochRequest": 500_000,
    "ShareGroupHeartbeatRequest": 100_000,
    "SyncGroupRequest": 100_000,
    "TxnOffsetCommitRequest": 400_000,
}
"""Requests of which a part is handled in one step: the protocols of a member, the members of a group, the
topics of a subscription, what an administrator changes, and partitions that are looked at one by one.
"""
_WEIGHT_OF_TEXT: Final = 5
_WEIGHT_WITH_ARRAYS: Final = 10
"""Of an element that has arrays of its own, such as a topic with partitions: it costs as much as many of its
partitions, also if it has none.
"""
_TINY: Final = ("int8", "bool")
"""Kinds of elements that are not counted: acknowledgements have a type for each of millions of records, and
memory has each of these values once.
"""

MessageT = TypeVar("MessageT", bound=Message)
Reader = Callable[[bytes, int], MessageT]
"""Reads the message at a position of the data."""


def _weight(field: FieldLayout) -> int:
    """Return as how many elements one element of an array counts."""
    if field.struct_type is None:
        return _WEIGHT_OF_TEXT if field.kind == "string" else 1
    has_arrays = any(one.is_array and one.kind not in _TINY for one in layout_of(field.struct_type))
    return _WEIGHT_WITH_ARRAYS if has_arrays else 1


def compile_reader(message_type: type[MessageT], version: int) -> Reader[MessageT]:
    """Compile the reader of this version."""
    reader: Reader[MessageT] = ReaderSource(message_type, version).compile_reader()
    return reader


class ReaderSource:
    """Generates the source of a reader: its variables are `data`, its `size`, and the position `at`."""

    def __init__(self, message_type: type[Message], version: int) -> None:
        self.message_type = message_type
        self.version = version
        self.flexible = is_flexible(message_type, version)
        self.most_elements: int | None = None
        """How many elements all arrays may have together; None: any number, in responses."""
        if issubclass(message_type, Request):
            self.most_elements = _FEWER_ELEMENTS.get(message_type.__name__, MOST_ELEMENTS)
        self.source = Source(f"{message_type.__name__} v{version}")
        self.source.namespace.update(
            new=object.__new__,
            unpack_from=struct.unpack_from,
            varint=read_varint,
            skip_tagged_fields=skip_tagged_fields,
            bad_length=bad_length,
            too_long=too_long,
            too_many=too_many,
            read_wide=read_wide,
            WideArray=WideArray,
            malformed=self._malformed,
            InvalidEncoding=InvalidEncoding,
            faults=(IndexError, struct.error, UnicodeDecodeError, InvalidEncoding),
        )
        self.run: list[tuple[str, str]] = []
        """Format and variable of each field of fixed size that the source does not read yet."""

    def compile_reader(self) -> Any:
        """Return the function that reads a message of this type from the bytes at a position."""
        source = self.source
        with source.block("def read(data, at):"):
            source.line("size = len(data)")
            if self.most_elements is not None:
                source.line(f"room = {self.most_elements}")
            with source.block("try:"):
                message = self._struct(self.message_type)
                self._end_run()
                source.line(f"return {message}")
            with source.block("except faults as error:"):
                source.line("raise malformed(error) from None")
        return source.compile("read")

    def _malformed(self, error: Exception) -> MalformedMessage:
        if isinstance(error, InvalidEncoding):
            reason = str(error)
        elif isinstance(error, UnicodeDecodeError):
            reason = "is not UTF-8"
        else:
            reason = "is truncated"
        return MalformedMessage(f"{self.source.place_of(error)} {reason}")

    def _struct(self, struct_type: type[Struct]) -> str:
        """Generate the reading of a struct. Return the variable that holds it."""
        source = self.source
        variable = source.fresh("m")
        source.line(f"{variable} = new({source.constant('type', struct_type)})")
        tagged = []
        for field in layout_of(struct_type):
            if self.version in field.versions and field.tag is None:
                with source.field(field.name):
                    self._field(field, f"{variable}.{field.name}")
                continue
            source.line(f"{variable}.{field.name} = {self._default(field)}")
            if self.version in field.versions:
                tagged.append(field)
        if self.flexible:
            self._tagged_fields(tagged, variable)
        return variable

    def _field(self, field: FieldLayout, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.kind in FIXED_FORMATS:
            self.run.append((FIXED_FORMATS[field.kind], target))
        elif field.struct_type is not None:
            self._inner_struct(field, target)
        else:
            self._length("h" if field.kind == "string" else "i")
            self._content(field.kind, target, may_be_null=self.version in field.null_versions)

    def _length(self, legacy_format: str) -> None:
        """End the run with a length. The variable `n` is then the length, -1 for null."""
        if not self.flexible:
            self._end_run((legacy_format, "n"))
            return
        self._end_run(("B", "n"))
        with self.source.block("if n > 127:"):
            self.source.line("n, at = varint(data, at - 1)")
        self.source.line("n -= 1")

    def _content(self, kind: str, target: str, *, may_be_null: bool) -> None:
        source = self.source
        if may_be_null:
            with source.block("if n == -1:"):
                source.line(f"{target} = None")
            with source.block("else:"):
                self._content(kind, target, may_be_null=False)
            return
        source.line("end = at + n")
        with source.block("if end < at or end > size:"):
            source.line("raise bad_length(n, size - at)")
        if kind == "string" and self.flexible:
            with source.block(f"if n > {LONGEST_STRING_BYTES}:"):
                source.line("raise too_long(n)")
        source.line(f"{target} = data[at:end]{'.decode()' if kind == 'string' else ''}")
        source.line("at = end")

    def _inner_struct(self, field: FieldLayout, target: str) -> None:
        assert field.struct_type is not None
        source = self.source
        if self.version not in field.null_versions:
            source.line(f"{target} = {self._struct(field.struct_type)}")
            return
        self._end_run(("b", "n"))
        with source.block("if n < 0:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            variable = self._struct(field.struct_type)
            self._end_run()
            source.line(f"{target} = {variable}")

    def _array(self, field: FieldLayout, target: str) -> None:
        source = self.source
        self._length("i")
        if self.version in field.null_versions:
            with source.block("if n == -1:"):
                source.line(f"{target} = None")
            with source.block("else:"):
                self._elements(field, target)
        else:
            self._elements(field, target)

    def _elements(self, field: FieldLayout, target: str) -> None:
        source = self.source
        width = struct.calcsize(">" + FIXED_FORMATS.get(field.kind, "x"))
        with source.block(f"if n < 0 or n{f' * {width}' if width > 1 else ''} > size - at:"):
            source.line("raise bad_length(n, size - at)")
        if self.most_elements is not None and field.kind not in _TINY:
            weight = _weight(field)
            source.line("room -= n" if weight == 1 else f"room -= n * {weight}")
            with source.block("if room < 0:"):
                source.line(f"raise too_many({self.most_elements})")
        if field.kind in FIXED_FORMATS and field.kind != "uuid":
            source.line(f"{target} = list(unpack_from(f'>{{n}}{FIXED_FORMATS[field.kind]}', data, at))")
            source.line(f"at += n * {width}" if width > 1 else "at += n")
            return
        items = source.fresh("items")
        source.line(f"{target} = {items} = []")
        wide = field.struct_type if self._may_be_wide(field.struct_type) else None
        if wide is not None:
            start, count = source.fresh("start"), source.fresh("count")
            source.line(f"{start}, {count} = at, n")
        with source.block("for _ in range(n):"):
            if field.struct_type is not None:
                variable = self._struct(field.struct_type)
            elif field.kind == "uuid":
                variable = "item"
                self.run.append(("16s", variable))
            else:
                variable = "item"
                self._length("h" if field.kind == "string" else "i")
                self._content(field.kind, variable, may_be_null=False)
            self._end_run()
            source.line(f"{items}.append({variable})")
            if wide is not None:
                with source.block(f"if {count} >= {NARROWEST_WIDE}:"):
                    self._read_wide(wide, target, f"WideArray(data, ({start}, at), {count}), {variable}")
                    source.line(f"{count} = 0")

    def _read_wide(self, struct_type: type[Struct], target: str, array_and_first: str) -> None:
        """Generate the reading of the whole array as columns, and the exit from the loop if that succeeds."""
        source = self.source
        fields = source.constant("fields", leading_fields(struct_type, self.version))
        mixed = source.constant("mixed", mixed_layout(struct_type, self.version, self.flexible))
        wide = source.fresh("wide")
        source.line(f"{wide} = read_wide({array_and_first}, {fields}, {mixed})")
        with source.block(f"if {wide} is not None:"):
            source.line(f"{target}, at = {wide}")
            source.line("break")

    def _may_be_wide(self, struct_type: type[Struct] | None) -> bool:
        """Tell whether an array of these structs can be read as columns."""
        if struct_type is None or struct_type.__name__ not in WIDE_STRUCTS:
            return False
        return bool(leading_fields(struct_type, self.version))

    def _tagged_fields(self, fields: list[FieldLayout], variable: str) -> None:
        source = self.source
        self._end_run(("B", "n"))
        with source.block("if n:"):
            if not fields:
                source.line("at = skip_tagged_fields(data, at, n)")
                return
            with source.block("if n > 127:"):
                source.line("n, at = varint(data, at - 1)")
            tag, tag_end = source.fresh("tag"), source.fresh("end")
            with source.block("for _ in range(n):"):
                source.line(f"{tag}, at = varint(data, at)")
                source.line("n, at = varint(data, at)")
                source.line(f"{tag_end} = at + n")
                with source.block(f"if {tag_end} > size:"):
                    source.line("raise bad_length(n, size - at)")
                for field in fields:
                    with source.field(field.name), source.block(f"if {tag} == {field.tag}:"):
                        self._field(field, f"{variable}.{field.name}")
                        self._end_run()
                        with source.block(f"if at != {tag_end}:"):
                            source.line("raise InvalidEncoding('has another size than its tag says')")
                source.line(f"at = {tag_end}")

    def _end_run(self, *more: tuple[str, str]) -> None:
        """Generate the reading of the run and of `more` fields of fixed size after it."""
        run = [*self.run, *more]
        self.run = []
        if not run:
            return
        if run == [("B", "n")]:
            self.source.line("n = data[at]")
            self.source.line("at += 1")
            return
        unpack, size = self.source.packing("unpack_from", "".join(layout for layout, _ in run))
        targets = ", ".join(target for _, target in run)
        self.source.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(data, at)")
        self.source.line(f"at += {size}")

    def _default(self, field: FieldLayout) -> str:
        if field.default is EMPTY:
            return "[]"
        if field.default is FRESH:
            assert field.struct_type is not None
            return f"{self.source.constant('type', field.struct_type)}()"
        return repr(field.default)
