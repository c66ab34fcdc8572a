"""The compiler of writers: one writer for each version of a message.

Rules:

1. Consecutive fields of fixed size (a run) are written with one call of `struct`. A run can end with the
   length of a string, of an array or of the tagged fields.
2. Fields that the version does not have are omitted. Tagged fields with their default are omitted too.
3. A value that the version cannot represent raises `UnwritableMessage`, which names the field. Then nothing
   is written. In a request a string of more than 32,767 bytes is one: no node reads it, it only disconnects.
4. Error messages are truncated to `LONGEST_ERROR_MESSAGE` characters, because they can quote a request.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.wire.errors import UnwritableMessage
from headgate.wire.layout import FIXED_FORMATS, FieldLayout, is_flexible, layout_of
from headgate.wire.message import EMPTY, Message, Request, Struct
from headgate.wire.pieces import LONG_BYTES, FrameBuffer
from headgate.wire.primitives import LONGEST_STRING_BYTES, write_varint
from headgate.wire.source import Source
from headgate.wire.wide import WIDE_STRUCTS, WideStructs, leading_fields
from headgate.wire.wide_writing import parts_of, repeat_wide

MessageT = TypeVar("MessageT", bound=Message)
Writer = Callable[[bytearray, MessageT], None]
"""Appends a message to a buffer."""

LONGEST_ERROR_MESSAGE = 1_000
"""In characters. A string on the wire has at most 32,767 bytes."""
TAGGED_FIELDS_NONE = ("x", "")
"""An empty section of tagged fields: a zero byte, which `struct` writes for `x`."""


def compile_writer(message_type: type[MessageT], version: int) -> Writer[MessageT]:
    """Compile the writer of this version."""
    writer: Writer[MessageT] = _WriterSource(message_type, version).compile_writer()
    return writer


def _short(error_message: str | None) -> str | None:
    if error_message is None or len(error_message) <= LONGEST_ERROR_MESSAGE:
        return error_message
    return error_message[: LONGEST_ERROR_MESSAGE - 3] + "..."


def _too_long(size: int) -> OverflowError:
    return OverflowError(f"it has {size} bytes, and no string may have more than {LONGEST_STRING_BYTES}")


class _WriterSource:
    """Generates the source of a writer. Its variables are the buffer `out` and the `message`."""

    def __init__(self, message_type: type[Message], version: int) -> None:
        self.message_type = message_type
        self.version = version
        self.flexible = is_flexible(message_type, version)
        self.source = Source(f"{message_type.__name__} v{version}")
        self.source.namespace.update(
            pack=struct.pack,
            varint=write_varint,
            short=_short,
            unwritable=self._unwritable,
            too_long=_too_long,
            FrameBuffer=FrameBuffer,
            WideStructs=WideStructs,
            parts_of=parts_of,
            repeat_wide=repeat_wide,
            faults=(struct.error, AttributeError, TypeError, UnicodeEncodeError, OverflowError),
        )
        self.out = "out"
        self.run: list[tuple[str, str]] = []
        """Format and expression of each field of fixed size that the source does not write yet."""

    def compile_writer(self) -> Any:
        """Return the function that appends a message of this type to a buffer."""
        source = self.source
        with source.block("def write(out, message):"):
            source.line("start = len(out)")
            with source.block("try:"):
                source.line("pass")
                self._struct(self.message_type, "message")
                self._end_run()
            with source.block("except faults as error:"):
                source.line("del out[start:]")
                source.line("raise unwritable(error) from error")
        return source.compile("write")

    def _unwritable(self, error: Exception) -> UnwritableMessage:
        return UnwritableMessage(f"{self.source.place_of(error)} cannot be written: {error}")

    def _struct(self, struct_type: type[Struct], variable: str) -> None:
        tagged = []
        for field in layout_of(struct_type):
            if self.version not in field.versions:
                continue
            if field.tag is not None:
                tagged.append(field)
                continue
            with self.source.field(field.name):
                self._field(field, f"{variable}.{field.name}")
        if self.flexible:
            self._tagged_fields(tagged, variable)

    def _field(self, field: FieldLayout, value: str) -> None:
        may_be_null = self.version in field.null_versions
        if field.is_array:
            self._array(field, value, may_be_null=may_be_null)
        elif field.kind in FIXED_FORMATS:
            self.run.append((FIXED_FORMATS[field.kind], value))
        elif field.struct_type is not None:
            self._inner_struct(field.struct_type, value, may_be_null=may_be_null)
        else:
            is_prose = field.name.endswith("error_message")
            text = f"short({value})" if is_prose else value
            self._string(field.kind, text, may_be_null=may_be_null)

    def _string(self, kind: str, value: str, *, may_be_null: bool) -> None:
        source = self.source
        content = source.fresh("b")
        encode = ".encode()" if kind == "string" else ""
        if may_be_null:
            source.line(f"{content} = {value}")
            with source.block(f"if {content} is None:"):
                source.line(f"{content} = b''")
                source.line("n = -1")
            with source.block("else:"):
                if encode:
                    source.line(f"{content} = {content}{encode}")
                source.line(f"n = len({content})")
        else:
            source.line(f"{content} = {value}{encode}")
            source.line(f"n = len({content})")
        self._length("h" if kind == "string" else "i", is_string=kind == "string")
        if kind == "records" and self.out == "out":
            with source.block(f"if n >= {LONG_BYTES} and type(out) is FrameBuffer:"):
                source.line(f"out.put_apart({content})")
            with source.block("else:"):
                source.line(f"out += {content}")
        else:
            source.line(f"{self.out} += {content}")

    def _length(self, legacy_format: str, *, is_string: bool = False) -> None:
        """Generate the writing of the run and of the length `n` after it, -1 for null."""
        if not self.flexible:
            self._end_run((legacy_format, "n"))
            return
        run = self.run
        with self.source.block("if n < 127:"):
            self._end_run(("B", "n + 1"))
        self.run = run
        with self.source.block("else:"):
            if is_string and issubclass(self.message_type, Request):
                with self.source.block(f"if n > {LONGEST_STRING_BYTES}:"):
                    self.source.line("raise too_long(n)")
            self._end_run()
            self.source.line(f"{self.out} += varint(n + 1)")

    def _inner_struct(self, struct_type: type[Struct], value: str, *, may_be_null: bool) -> None:
        source = self.source
        variable = source.fresh("m")
        source.line(f"{variable} = {value}")
        if not may_be_null:
            self._struct(struct_type, variable)
            return
        self._end_run()
        with source.block(f"if {variable} is None:"):
            source.line(f"{self.out}.append(255)")
        with source.block("else:"):
            self.run.append(("b", "1"))
            self._struct(struct_type, variable)
            self._end_run()

    def _array(self, field: FieldLayout, value: str, *, may_be_null: bool) -> None:
        source = self.source
        items = source.fresh("items")
        source.line(f"{items} = {value}")
        if may_be_null:
            with source.block(f"if {items} is None:"):
                source.line(f"{items} = ()")
                source.line("n = -1")
            with source.block("else:"):
                source.line(f"n = len({items})")
        else:
            source.line(f"n = len({items})")
        self._length("i")
        if field.kind in FIXED_FORMATS and field.kind != "uuid":
            source.line(f"{self.out} += pack(f'>{{len({items})}}{FIXED_FORMATS[field.kind]}', *{items})")
            return
        if field.struct_type is not None and field.struct_type.__name__ in WIDE_STRUCTS:
            self._wide_array(field.struct_type, items)
            return
        item = source.fresh("m")
        with source.block(f"for {item} in {items}:"):
            if field.struct_type is not None:
                self._struct(field.struct_type, item)
            elif field.kind == "uuid":
                self.run.append(("16s", item))
            else:
                self._string(field.kind, item, may_be_null=False)
            self._end_run()

    def _wide_array(self, struct_type: type[Struct], items: str) -> None:
        """Generate the writing of an array that can be `WideStructs`."""
        source = self.source
        part, item, wide, at = (source.fresh(name) for name in ("part", "m", "wide", "at"))
        fields = source.constant("fields", leading_fields(struct_type, self.version))
        parts = f"parts_of({self.out}, {items}) if type({items}) is WideStructs else ({items},)"
        with source.block(f"for {part} in {parts}:"):
            source.line(f"{wide} = type({part}) is WideStructs")
            source.line(f"{at} = len({self.out})")
            with source.block(f"for {item} in ({part}.template,) if {wide} else {part}:"):
                self._struct(struct_type, item)
                self._end_run()
            with source.block(f"if {wide}:"):
                source.line(f"repeat_wide({self.out}, {at}, {part}, {fields})")

    def _tagged_fields(self, fields: list[FieldLayout], variable: str) -> None:
        if not fields:
            self.run.append(TAGGED_FIELDS_NONE)
            return
        source = self.source
        count, section = source.fresh("count"), source.fresh("section")
        source.line(f"{count} = 0")
        source.line(f"{section} = b''")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            with source.field(field.name), source.block(f"if {self._is_set(field, variable)}:"):
                self._tagged_field(field, f"{variable}.{field.name}", section)
                source.line(f"{count} += 1")
        self._end_run(("B", count))
        source.line(f"{self.out} += {section}")

    def _tagged_field(self, field: FieldLayout, value: str, section: str) -> None:
        """Generate the writing of a tagged field, in a buffer of its own because its size precedes it."""
        source = self.source
        assert field.tag is not None
        outer, self.out = (self.out, self.run), source.fresh("out")
        self.run = []
        source.line(f"{self.out} = bytearray()")
        self._field(field, value)
        self._end_run()
        source.line(f"{section} += varint({field.tag}) + varint(len({self.out})) + {self.out}")
        self.out, self.run = outer

    def _is_set(self, field: FieldLayout, variable: str) -> str:
        value = f"{variable}.{field.name}"
        if field.default is None:
            return f"{value} is not None"
        if field.default is EMPTY:
            return value
        return f"{value} != {field.default!r}"

    def _end_run(self, *more: tuple[str, str]) -> None:
        """Generate the writing of the run and of `more` fields of fixed size after it."""
        run = [*self.run, *more]
        self.run = []
        if not run:
            return
        if len(run) == 1 and run[0][0] in "xB":
            self.source.line(f"{self.out}.append({run[0][1] or 0})")
            return
        pack, _ = self.source.packing("pack", "".join(layout for layout, _ in run))
        values = ", ".join(value for _, value in run if value)
        self.source.line(f"{self.out} += {pack}({values})")
