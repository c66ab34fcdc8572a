"""The oracle of the codec tests: kio, an independent implementation of Kafka's messages.

A test message is a tree: nested dicts of plain values, by kio's field names. It is converted to kio's message
and to Headgate's, with tables that are independent of each other. In a tree, times are integers in ms, and a
uuid is 16 bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib
import io
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from tests.kio_schema import kio_class

from headgate.wire.message import ZERO_UUID, Message
from headgate.wire.messages import APIS
from headgate.wire.primitives import write_varint

Tree = dict[str, Any]

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
UNKNOWN_TAG = 9999


@dataclasses.dataclass(frozen=True)
class Case:
    """One version of one message."""

    api_key: int
    side: str
    version: int

    def __str__(self) -> str:
        return f"{APIS[self.api_key].module}-{self.side}-{self.version}"

    @property
    def message_type(self) -> type[Message]:
        """Headgate's class of the message."""
        info = APIS[self.api_key]
        module = importlib.import_module(f"headgate.wire.messages.{info.module}")
        message_type: type[Message] = getattr(module, info.name + self.side.title())
        return message_type

    @property
    def kio_type(self) -> Any:
        """kio's class of this version of the message."""
        info = APIS[self.api_key]
        return kio_class(info.module, self.version, self.side)

    @property
    def is_flexible(self) -> bool:
        """Whether the version is flexible according to kio."""
        return bool(self.kio_type.__flexible__)

    def trees(self) -> st.SearchStrategy[Tree]:
        """Generate any message of this version."""
        return trees(self.kio_type)

    def edges(self) -> Iterator[Tree]:
        """Return a minimal message, and a full one with long strings and extreme numbers."""
        yield edge(self.kio_type, _smallest)
        yield edge(self.kio_type, _largest)

    def typical(self) -> Tree:
        """Return a message with two entries in every array and a value in every field."""
        return edge(self.kio_type, _typical)

    def ours(self, tree: Tree) -> Message:
        """Return the tree as Headgate's message."""
        message: Message = to_ours(self.kio_type, importlib.import_module(self.message_type.__module__), tree)
        return message

    def kio_bytes(self, tree: Tree) -> bytes:
        """Return the bytes that kio writes for the tree."""
        with io.BytesIO() as out:
            entity_writer(self.kio_type)(out, to_kio(self.kio_type, tree))
            return out.getvalue()

    def kio_reads(self, data: bytes) -> Any:
        """Return the message that kio reads from all of the data."""
        message, size = entity_reader(self.kio_type)(data, 0)
        assert size == len(data)
        return message

    def bytes_with_unknown_tags(self, tree: Tree, content: bytes) -> bytes:
        """Return the tree as bytes, with an unknown tagged field in every struct."""
        return _write_with_unknown_tag(to_kio(self.kio_type, tree), content)


CASES = [
    Case(api_key, side, version)
    for api_key, info in APIS.items()
    for side in ("request", "response")
    for version in range(info.min_version, info.max_version + 1)
]


@functools.cache
def trees(kio_type: Any) -> st.SearchStrategy[Tree]:
    """Generate trees of one of kio's classes."""
    return st.fixed_dictionaries({field.name: _values(field) for field in dataclasses.fields(kio_type)})


def _values(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    shape = _shape(field)
    values = trees(shape.struct) if shape.struct is not None else PRIMITIVES[shape.kind]
    if shape.is_always_known:
        values = st.integers(0, 1 << 41)
    if shape.is_array:
        values = st.lists(values, max_size=3)
    return st.none() | values if shape.is_nullable else values


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{
        kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        for kind, bits in (*INTEGER_BITS.items(), ("timedelta_i32", 32), ("timedelta_i64", 40))
    },
    # kio represents times as datetime: from 1970, exact for some centuries, None for -1.
    "datetime_i64": st.integers(-1, 1 << 41),
    "error_code": st.sampled_from([int(code.value) for code in ErrorCode]),
    "bool": st.booleans(),
    "string": st.text(max_size=8) | st.text("gé", min_size=100, max_size=140),
    "bytes": st.binary(max_size=20) | st.binary(min_size=120, max_size=140),
    "records": st.binary(max_size=20) | st.binary(min_size=120, max_size=140),
    "uuid": st.binary(min_size=16, max_size=16) | st.just(ZERO_UUID),
}


def edge(kio_type: Any, choose: Callable[[_Shape], Any]) -> Tree:
    """Return a tree in which the shape of each field determines its value."""
    tree: Tree = {}
    for field in dataclasses.fields(kio_type):
        shape = _shape(field)
        value = choose(shape) if shape.struct is None else edge(shape.struct, choose)
        if shape.is_array:
            # More entries than a one-byte compact length allows, where entries are small.
            value = [value] * (
                0 if choose is _smallest else 130 if choose is _largest and not shape.struct else 2
            )
        tree[field.name] = None if shape.is_nullable and choose is _smallest else value
    return tree


def _smallest(shape: _Shape) -> Any:
    if shape.kind in INTEGER_BITS:
        return -(1 << INTEGER_BITS[shape.kind] - 1)
    first_time = 0 if shape.is_always_known else -1
    return {"bool": False, "string": "", "uuid": ZERO_UUID, "datetime_i64": first_time}.get(
        shape.kind, b"" if shape.kind in ("bytes", "records") else 0
    )


def _largest(shape: _Shape) -> Any:
    if shape.kind in INTEGER_BITS:
        return (1 << INTEGER_BITS[shape.kind] - 1) - 1
    return {"bool": True, "string": "long€" * 60, "uuid": b"\xff" * 16, "error_code": 100}.get(
        shape.kind, b"\x00\xff" * 10_000 if shape.kind in ("bytes", "records") else (1 << 31) - 1
    )


def _typical(shape: _Shape) -> Any:
    return {"bool": True, "string": "text", "uuid": bytes(range(16)), "bytes": b"12", "records": b"1234"}.get(
        shape.kind, 77
    )


def to_ours(kio_type: Any, module: types.ModuleType, tree: Tree) -> Any:
    """Return the tree as Headgate's struct of the same name."""
    values = {}
    for field in dataclasses.fields(kio_type):
        shape, value = _shape(field), tree[field.name]
        if shape.struct is not None and value is not None:
            struct = shape.struct
            value = (
                [to_ours(struct, module, each) for each in value]
                if shape.is_array
                else to_ours(struct, module, value)
            )
            if "tag" in field.metadata and to_kio(kio_type, tree) == dataclasses.replace(
                to_kio(kio_type, tree), **{field.name: field.default}
            ):
                value = None if not shape.is_array else []
        values[field.name + ("_ms" if shape.kind in TIMES else "")] = value
    return getattr(module, kio_type.__name__)(**values)


def to_kio(kio_type: Any, tree: Tree) -> Any:
    """Return the tree as kio's message."""
    values = {}
    for field in dataclasses.fields(kio_type):
        shape, value = _shape(field), tree[field.name]
        convert = functools.partial(_value_to_kio, shape)
        if shape.is_array and value is not None:
            value = tuple(map(convert, value))
        elif value is not None:
            value = convert(value)
        values[field.name] = value
    return kio_type(**values)


def _value_to_kio(shape: _Shape, value: Any) -> Any:
    if shape.struct is not None:
        return to_kio(shape.struct, value)
    if shape.kind == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    if shape.kind == "error_code":
        return ErrorCode(value)
    if shape.kind == "datetime_i64":
        return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
    if shape.kind in TIMES:
        return datetime.timedelta(milliseconds=value)
    return value


@dataclasses.dataclass(frozen=True)
class _Shape:
    """The shape of a field according to kio."""

    kind: str
    struct: Any
    is_array: bool
    is_nullable: bool
    is_always_known: bool
    """Whether kio has no None for the time -1."""


@functools.cache
def _shape(field: dataclasses.Field[Any]) -> _Shape:
    kind = field.metadata.get("kafka_type", "struct")
    python_type: Any = field.type
    is_nullable, is_always_known = False, kind == "datetime_i64"
    if typing.get_origin(python_type) is types.UnionType:
        is_always_known = False
        python_type, none = typing.get_args(python_type)
        assert none is types.NoneType
        is_nullable = kind not in ("uuid", "datetime_i64")
    is_array = typing.get_origin(python_type) is tuple
    if is_array:
        python_type = typing.get_args(python_type)[0]
    struct = python_type if kind == "struct" else None
    return _Shape(kind, struct, is_array, is_nullable, is_always_known)


def _write_with_unknown_tag(entity: Any, content: bytes) -> bytes:
    """Write one of kio's structs, and by hand its tagged fields and an unknown one after them."""
    out, tagged = bytearray(), {UNKNOWN_TAG: content}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        encoded = _write_value(type(entity), field, value, content)
        if "tag" not in field.metadata:
            out += encoded
        elif value != field.default:
            tagged[field.metadata["tag"]] = encoded
    out += write_varint(len(tagged))
    for tag in sorted(tagged):
        out += write_varint(tag) + write_varint(len(tagged[tag])) + tagged[tag]
    return bytes(out)


def _write_value(kio_type: Any, field: dataclasses.Field[Any], value: Any, content: bytes) -> bytes:
    from kio.serial._serialize import get_field_writer

    shape = _shape(field)
    if shape.struct is None:
        with io.BytesIO() as out:
            get_field_writer(field, True, False, "tag" in field.metadata and value is not None)(out, value)
            return out.getvalue()
    if shape.is_array:
        if value is None:
            return write_varint(0)
        return write_varint(len(value) + 1) + b"".join(
            _write_with_unknown_tag(item, content) for item in value
        )
    if shape.is_nullable and "tag" not in field.metadata:
        return b"\xff" if value is None else b"\x01" + _write_with_unknown_tag(value, content)
    return _write_with_unknown_tag(value, content)
