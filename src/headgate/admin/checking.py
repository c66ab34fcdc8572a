"""Checks of the types of arguments, by the annotations of the methods of `Admin`.

Without them an argument of a wrong type fails somewhere in the codec, with an error that has neither its name
nor what is expected.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from types import FunctionType, NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from headgate.client.offsets import CommittedOffset
from headgate.client.resource_configs import ConfigChange, ConfigResource
from headgate.client.topics import NewTopic
from headgate.domain.ids import TopicName, TopicPartition

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ClassT = TypeVar("ClassT", bound=type)
Check = Callable[[Any], Any]
"""Return the argument, an iterable one as a list. Raises Mistyped."""

_MADE_BY_CALLERS = (NewTopic, ConfigResource, ConfigChange, CommittedOffset)
"""Values with fields that are checked, too."""
_NAMES = {
    str: "a string",
    int: "an int",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    datetime: "a datetime",
    TopicPartition: "a TopicPartition, for instance TopicPartition('flights', 0)",
}
_EXAMPLE = ", for instance "
_SEVERAL_STRINGS = f"several strings{_EXAMPLE}a list"
_MOST_PARTITION = (1 << 31) - 1
"""Partitions have 32 bits in requests. The broker answers negative ones with an error."""
_MOST_SHOWN = 200
"""Characters of a value in an error."""


class Mistyped(Exception):
    """A value is not what is expected."""

    def __init__(self, value: object, expected: str, where: Sequence[str] = ()) -> None:
        """`where`: from the inside out, such as `an element of`."""
        self.value = value
        self.expected = expected
        self.where = where

    def inside(self, place: str) -> Mistyped:
        """Return the same of a value that is inside of another."""
        return Mistyped(self.value, self.expected, [*self.where, place])

    def text(self, argument: str) -> str:
        """Return the sentence of the error."""
        shown = repr(self.value)
        if len(shown) > _MOST_SHOWN:
            shown = f"{shown[:_MOST_SHOWN]}..."
        hint = ""
        if "TopicPartition" in self.expected and isinstance(self.value, str):
            hint = f"; partitions_of({shown}) returns all partitions of a topic"
        elif _SEVERAL_STRINGS in self.expected and isinstance(self.value, str):
            hint = f"; did you mean [{shown}]?"
        return f"{' '.join([*self.where, argument])} must be {self.expected}, not {shown}{hint}"


def checked(cls: ClassT) -> ClassT:
    """Check the arguments of all public methods of a class when they are called.

    They raise TypeError for an argument that is not what the annotation says. Iterables come as lists.
    """
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _checked(method))
    return cls


def _checked(method: Callable[P, ResultT]) -> Callable[P, ResultT]:
    signature = inspect.signature(method)

    @functools.cache
    def checks() -> list[tuple[str, Check]]:
        hints = get_type_hints(method)
        return [(name, check_of(hints[name])) for name in signature.parameters if name in hints]

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return method(*args, **kwargs)  # fails, too, with an error that has the name of the method
        given = bound.arguments
        for name, check in checks():
            if name in given:
                try:
                    given[name] = check(given[name])
                except Mistyped as problem:
                    raise TypeError(problem.text(name)) from None
        return method(*bound.args, **bound.kwargs)

    return call


@functools.cache
def check_of(hint: Any) -> Check:
    """Return the check of an annotation."""
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(hint, [check_of(part) for part in parts])
    if origin is tuple:
        return _pair(hint, [check_of(part) for part in parts])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(hint, check_of(parts[0]), check_of(parts[1]))
    if origin is Callable or hint is Callable or (origin is not None and "Callable" in str(origin)):
        return _such_that(callable, "a function")
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _elements(hint, check_of(parts[0]))
    if hint is TopicPartition:
        return _topic_partition
    if hint is float:
        return _such_that(
            lambda value: _is_whole(value) or (isinstance(value, float) and value == value), _NAMES[float]
        )
    if hint is int:
        return _such_that(_is_whole, _NAMES[int])
    plain = _such_that(lambda value: isinstance(value, hint), described(hint))
    return _with_fields(hint, plain) if hint in _MADE_BY_CALLERS else plain


def described(hint: Any) -> str:
    """Return in words what an annotation expects."""
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if any(getattr(part, "__name__", "") == "ToEarliest" for part in parts):
            offset = "an offset or " if int in parts else ""
            return f"{offset}a target, for instance ToEarliest()"
        if set(parts) >= {datetime, int}:
            rest = " or None" if NoneType in parts else ""
            return f"a datetime, or an int of milliseconds since the epoch{',' * bool(rest)}{rest}"
        words = [described(part) for part in parts]
        separator = ", or " if any(_EXAMPLE in text for text in words[:-1]) else " or "
        return separator.join(words)
    if origin is tuple:
        return f"a tuple of {len(parts)}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dict"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _SEVERAL_STRINGS if parts[0] is str else _several(parts[0])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"a {hint.__name__}, for instance {hint.__name__}.{next(iter(hint)).name}"
    return _NAMES.get(hint) or f"a {hint.__name__}"


def _several(hint: Any) -> str:
    return f"several, for instance a list, each {described(hint)}"


def _such_that(is_right: Callable[[Any], bool], expected: str) -> Check:
    def check(value: Any) -> Any:
        if not is_right(value):
            raise Mistyped(value, expected)
        return value

    return check


def _is_whole(value: object) -> bool:
    """Tell whether a value is an int, and neither True nor False: nobody means offset 1 or 0 by them."""
    return isinstance(value, int) and not isinstance(value, bool)


def _topic_partition(value: Any) -> TopicPartition:
    """Accept a tuple, too: it is equal to the TopicPartition, and a key of the same dicts.

    Raises ValueError for a partition that no request can have.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, partition = value
        if isinstance(topic, str) and _is_whole(partition):
            if not -_MOST_PARTITION <= partition <= _MOST_PARTITION:
                raise ValueError(
                    f"the partition of topic {topic} must be from 0 to {_MOST_PARTITION}, not {partition}"
                )
            return value if isinstance(value, TopicPartition) else TopicPartition(TopicName(topic), partition)
    raise Mistyped(value, _NAMES[TopicPartition])


def _one_of(hint: Any, checks: Sequence[Check]) -> Check:
    def check(value: Any) -> Any:
        deepest: Mistyped | None = None
        for each in checks:
            try:
                return each(value)
            except Mistyped as problem:
                if problem.where and deepest is None:  # the right kind, with something wrong inside
                    deepest = problem
        raise deepest or Mistyped(value, described(hint))

    return check


def _pair(hint: Any, checks: Sequence[Check]) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(checks):
            raise Mistyped(value, described(hint))
        return tuple(each(part) for each, part in zip(checks, value, strict=True))

    return check


def _elements(hint: Any, element: Check) -> Check:
    def check(values: Any) -> list[Any]:
        # A string has characters, and a tuple with names has fields: neither is meant as several values.
        if isinstance(values, str | bytes) or hasattr(values, "_fields") or not isinstance(values, Iterable):
            raise Mistyped(values, described(hint))
        try:
            return [element(value) for value in values]
        except Mistyped as problem:
            raise problem.inside("an element of") from None

    return check


def _mapping(hint: Any, key: Check, value: Check) -> Check:
    def check(values: Any) -> dict[Any, Any]:
        if not isinstance(values, Mapping):
            raise Mistyped(values, described(hint))
        found = {}
        for name, one in values.items():
            try:
                name = key(name)
            except Mistyped as problem:
                raise problem.inside("a key of") from None
            try:
                found[name] = value(one)
            except Mistyped as problem:
                raise problem.inside(f"the value of {name} in") from None
        return found

    return check


def _with_fields(cls: type, plain: Check) -> Check:
    fields = {name: check_of(hint) for name, hint in get_type_hints(cls).items() if not name.startswith("_")}

    def check(value: Any) -> Any:
        plain(value)
        for name, of_field in fields.items():
            try:
                of_field(getattr(value, name))
            except Mistyped as problem:
                raise problem.inside(f"{name} of") from None
        return value

    return check
