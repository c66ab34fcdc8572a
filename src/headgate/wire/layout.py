"""The layout of each field on the wire, read from the annotations of the message's class.

The annotation's text after the Python type is

    [[]]kind [versions] [null [versions]] [tag number]

`kind` is a type of the protocol or `struct`; `[]` before it means an array. Versions are in Kafka's notation:
`6+`, `2-4`, `3`; without them, all versions of the struct have the field. `null` lists the versions in which
the field is nullable, by default all. A field with a tag is a tagged field in all its versions.

    group_instance_id: Annotated[str | None, "string 7+ null"] = None
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from headgate.wire.message import Message, Struct

ALL_VERSIONS = range(0x7FFF)
NO_VERSIONS = range(0)

FIXED_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uuid": "16s"}
"""The kinds of fixed size, in the format of the struct module. Values of other kinds follow their length."""


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """The layout of one field, and its default."""

    name: str
    kind: str
    is_array: bool
    struct_type: type[Struct] | None
    versions: range
    null_versions: range
    tag: int | None
    default: Any


@cache
def layout_of(struct_type: type[Struct]) -> tuple[FieldLayout, ...]:
    """Return the layouts of the struct's fields of all versions, in the order on the wire."""
    hints = get_type_hints(struct_type, include_extras=True)
    return tuple(
        _read_field(name, hints[name], default) for name, default in struct_type.FIELD_DEFAULTS.items()
    )


def is_flexible(message_type: type[Message], version: int) -> bool:
    """Tell whether this version has compact lengths and tagged fields."""
    since = message_type.FLEXIBLE_SINCE
    return since is not None and version >= since


def _read_field(name: str, hint: Any, default: Any) -> FieldLayout:
    python_type, text = get_args(hint)
    words = text.split()
    kind = words.pop(0)
    versions, null_versions, tag = ALL_VERSIONS, NO_VERSIONS, None
    if words and words[0][0].isdigit():
        versions = _read_versions(words.pop(0))
    if words and words[0] == "null":
        words.pop(0)
        null_versions = _read_versions(words.pop(0)) if words and words[0][0].isdigit() else versions
    if words:
        word, number = words
        assert word == "tag", text
        tag = int(number)
    struct_type = _struct_in(python_type) if kind.removeprefix("[]") == "struct" else None
    return FieldLayout(
        name,
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        struct_type,
        versions,
        null_versions,
        tag,
        default,
    )


def _read_versions(text: str) -> range:
    first, dash, last = text.partition("-")
    if dash:
        return range(int(first), int(last) + 1)
    if first.endswith("+"):
        return range(int(first[:-1]), ALL_VERSIONS.stop)
    return range(int(first), int(first) + 1)


def _struct_in(python_type: Any) -> type[Struct]:
    """Return the struct in `X`, `X | None`, `list[X]` or `list[X] | None`."""
    if isinstance(python_type, type) and issubclass(python_type, Struct):
        return python_type
    return next(_struct_in(part) for part in get_args(python_type) if part is not type(None))
