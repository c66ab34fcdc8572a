"""What every message is made of: `Struct`, and the `Request` and `Response` at the top of a message.

A message class describes itself, one line a field:

    committed_leader_epoch: Annotated[int, "int32 6+"] = -1

The annotation says what Python sees, its text how the wire carries it (`layout.py` reads that text), the
value what the field is when a version does not have it or nobody set it. One class serves all versions.

Rules:

* keyword arguments only; every field has a default, where `EMPTY` and `FRESH` make a new list or struct;
* plain values: times are integers of milliseconds, ids of topics 16 bytes, error codes integers;
* a struct that is carried as a tagged field is None when it was not sent.

These are not dataclasses because the whole set is wanted at start: the standard decorator compiles methods
at once, 0.1 s for all classes. Here `__init__` is compiled when the first message of the class is
made; type checkers see keyword-only dataclasses all the same.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, Generic, TypeVar, dataclass_transform, get_type_hints

EMPTY: Final[list[Any]] = []
"""The default of every list field: each message gets a new list. Never filled."""

FRESH: Final[Any] = object()
"""The default of a struct that must be there: each message gets a new one."""

ZERO_UUID: Final = bytes(16)
"""Kafka's "no id"."""


def _first_init(self: Struct, *positional: Any, **values: Any) -> None:
    """Every class's `__init__` until the first message of the class is made: puts the compiled one there."""
    message_type = type(self)
    message_type.__init__ = _compile_init(message_type)  # type: ignore[method-assign]
    message_type.__init__(self, *positional, **values)


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Turns annotated defaults into slots."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> StructType:
        defaults = {
            field: namespace.pop(field)
            for field, annotation in namespace.get("__annotations__", {}).items()
            if not annotation.startswith("ClassVar")
        }
        namespace |= {"__slots__": tuple(defaults), "FIELD_DEFAULTS": defaults, "__init__": _first_init}
        return super().__new__(cls, name, bases, namespace)


class Struct(metaclass=StructType):
    """A part of a message: its fields, by name, with their defaults."""

    FIELD_DEFAULTS: ClassVar[dict[str, Any]]
    """Every field in the order of the wire, with its default."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELD_DEFAULTS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELD_DEFAULTS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """What a frame carries behind its header."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    """The first and the last version described."""
    FLEXIBLE_SINCE: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None: no version has them."""


class Response(Message):
    """An answer to a request."""


ResponseT = TypeVar("ResponseT", bound=Response)


class Request(Message, Generic[ResponseT]):
    """A question, and by its parameter the type of the answer."""

    @classmethod
    def response_type(cls) -> type[ResponseT]:
        """The type of the answer."""
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
