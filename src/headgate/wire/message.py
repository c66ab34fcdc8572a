"""The base classes of messages: `Struct`, `Request` and `Response`.

A message class has one line for each field:

    committed_leader_epoch: Annotated[int, "int32 6+"] = -1

The annotation has the Python type and a text that describes the field on the wire (see `layout.py`). The
value is the default, for versions without the field and for messages where it was not set. One class
describes all versions.

Rules:

* Arguments are keyword arguments. Every field has a default; `EMPTY` makes a new list, `FRESH` a new struct.
* Values are plain: times are integers in ms, topic ids 16 bytes, error codes integers.
* A struct in a tagged field is None if it was not sent.

These classes are no dataclasses, because all of them are needed at start-up and the standard decorator
compiles their methods immediately, which takes 0.1 s. Here `__init__` is compiled when the first instance of
the class is created. For type checkers they are keyword-only dataclasses.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, Generic, TypeVar, dataclass_transform, get_type_hints

EMPTY: Final[list[Any]] = []
"""The default of list fields: each message gets a new list. This list stays empty."""

FRESH: Final[Any] = object()
"""The default of struct fields that are not nullable: each message gets a new struct."""

ZERO_UUID: Final = bytes(16)
"""Kafka's uuid for "no id"."""


def _first_init(self: Struct, *positional: Any, **values: Any) -> None:
    """Replace the class's `__init__` by a compiled one at the first call, and call it."""
    message_type = type(self)
    message_type.__init__ = _compile_init(message_type)  # type: ignore[method-assign]
    message_type.__init__(self, *positional, **values)


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """The metaclass that makes slots of annotated fields and keeps their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> StructType:
        defaults = {
            field: namespace.pop(field)
            for field, annotation in namespace.get("__annotations__", {}).items()
            if not annotation.startswith("ClassVar")
        }
        namespace |= {"__slots__": tuple(defaults), "FIELD_DEFAULTS": defaults, "__init__": _first_init}
        return super().__new__(cls, name, bases, namespace)


class Struct(metaclass=StructType):
    """A message or a part of one. Structs are mutable, and equal if their class and all fields are equal."""

    FIELD_DEFAULTS: ClassVar[dict[str, Any]]
    """The default of every field, in the order on the wire."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELD_DEFAULTS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELD_DEFAULTS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """The content of a frame after its header."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    """The first and the last version of the message."""
    FLEXIBLE_SINCE: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None if no version has them."""


class Response(Message):
    """A response to a request."""


ResponseT = TypeVar("ResponseT", bound=Response)


class Request(Message, Generic[ResponseT]):
    """A request. Its type parameter is the type of the response."""

    @classmethod
    def response_type(cls) -> type[ResponseT]:
        """Return the type of the response."""
        name = cls.__name__.removesuffix("Request") + "Response"
        response_type: type[ResponseT] = getattr(sys.modules[cls.__module__], name)
        return response_type


def _compile_init(message_type: type[Struct]) -> Any:
    defaults = message_type.FIELD_DEFAULTS
    parameters = "".join(f", {name}=_{name}" for name in defaults)
    namespace: dict[str, Any] = {f"_{name}": default for name, default in defaults.items()}
    namespace.update(EMPTY=EMPTY, FRESH=FRESH)
    lines = [f"def __init__(self, *{parameters}):" if defaults else "def __init__(self): pass"]
    for name, default in defaults.items():
        value = name
        if default is EMPTY:
            value = f"[] if {name} is EMPTY else {name}"
        elif default is FRESH:
            namespace[f"new_{name}"] = get_type_hints(message_type)[name]
            value = f"new_{name}() if {name} is FRESH else {name}"
        lines.append(f" self.{name} = {value}")
    exec("\n".join(lines), namespace)
    return namespace["__init__"]
