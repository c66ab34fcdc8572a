"""Every method of `Admin` names an argument of a wrong type, before it connects to the cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import FunctionType
from typing import Any

import pytest

from headgate.admin import (
    Admin,
    CommittedOffset,
    ConfigChange,
    ConfigResource,
    NewTopic,
    ResourceType,
    ShareAlteration,
    ToEarliest,
    ToOffset,
    TopicPartition,
)
from headgate.admin.checking import checked

FIRST = TopicPartition("flights", 0)
NOBODY = "127.0.0.1:1"
"""Nothing listens there: a call that connects fails in another way."""
UNTYPED: Any = object()


def methods() -> dict[str, FunctionType]:
    """Return the public methods of `Admin`."""
    found = inspect.getmembers(Admin, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_") and name != "close"}


def arguments() -> list[tuple[str, str]]:
    """Return the arguments of all methods that have a type, but those that may be anything."""
    return [
        (name, argument)
        for name, method in methods().items()
        for argument in inspect.signature(method).parameters
        if argument != "self"
    ]


RIGHT: Mapping[str, object] = {
    "group_id": "g",
    "target": ToEarliest(),
    "partition": FIRST,
    "time": 0,
    "topic": "flights",
    "name": "flights",
    "resource": ConfigResource(ResourceType.TOPIC, "flights"),
    "kind": ResourceType.TOPIC,
    "alteration": ShareAlteration.RELEASE,
    "retention_ms": None,
    "group": None,
    "transactional_id": "t",
    "producer_id": 1,
    "producer_epoch": 1,
    **{name: {} for name in ("offsets_to_commit", "targets", "starts", "before", "counts", "values")},
}
"""What the other arguments are meanwhile; those that are missing are lists."""


@pytest.mark.parametrize(("method", "argument"), arguments())
def test_every_argument_is_checked(method: str, argument: str) -> None:
    """What no annotation admits is a TypeError with the name of the argument and the value."""
    needed = [
        one.name
        for one in inspect.signature(getattr(Admin, method)).parameters.values()
        if one.default is one.empty and one.name != "self"
    ]
    given = {name: RIGHT.get(name, []) for name in needed} | {argument: UNTYPED}
    with (
        Admin(NOBODY, timeout_s=1) as admin,
        pytest.raises(TypeError, match=rf"{argument} must be .*not <object"),
    ):
        getattr(admin, method)(**given)


@pytest.mark.parametrize("partition", [1 << 31, -1 << 31, 1 << 70])
@pytest.mark.parametrize(
    "call",
    [
        lambda a, at: a.alter_offsets("g", {at: 1}),
        lambda a, at: a.log_end_offsets([at]),
        lambda a, at: a.pause_partitions("g", [at]),
        lambda a, at: a.describe_producers([at]),
    ],
)
def test_a_partition_of_more_than_32_bits_is_named(
    call: Callable[[Any, object], object], partition: int
) -> None:
    """A ValueError says it before anything is sent."""
    at = TopicPartition("t", partition)
    with (
        Admin(NOBODY, timeout_s=1) as admin,
        pytest.raises(
            ValueError, match=rf"partition of topic t must be from 0 to 2147483647, not {partition}"
        ),
    ):
        call(admin, at)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.describe_group(None), "group_id must be a string, not None"),
        (
            lambda a: a.describe_groups("g"),
            r"several strings, for instance a list, not 'g'; did you mean \['g'\]\?$",
        ),
        (
            lambda a: a.describe_topics("t"),
            r"several strings, for instance a list, or None, not 't'; did you mean \['t'\]\?$",
        ),
        (lambda a: a.list_groups("Stable"), r"^states must be .*did you mean \['Stable'\]\?$"),
        (lambda a: a.describe_groups([b"g"]), "an element of group_ids must be a string, not b'g'"),
        (
            lambda a: a.describe_topics(NewTopic(name="t")),
            r"several strings, for instance a list, or None, not NewTopic\(.*\)$",
        ),
        (
            lambda a: a.create_topics([NewTopic(name="t", partitions=UNTYPED)]),
            "^partitions of an element of new must be an int, not <object",
        ),
        (
            lambda a: a.create_topic("t", configs={"retention.ms": 5}),
            "the value of retention.ms in configs must be a string, not 5",
        ),
        (lambda a: a.delete_topics(ConfigResource(ResourceType.TOPIC, "t")), "topic|names must be several"),
        (
            lambda a: a.alter_configs(ConfigResource("topic", "t"), []),  # type: ignore[arg-type]
            "type of resource must be a ResourceType, for instance ResourceType.* not 'topic'",
        ),
        (
            lambda a: a.alter_configs(RIGHT["resource"], [ConfigChange("a", 5)]),  # type: ignore[arg-type]
            "value of an element of changes must be a string or None, not 5",
        ),
        (
            lambda a: a.alter_share_records("g", FIRST, ShareAlteration.RELEASE, [1]),
            "an element of offsets must be a tuple of 2, not 1",
        ),
        (
            lambda a: a.alter_offsets("g", {FIRST: True}),
            "the value of flights-0 .* must be an int.* not True",
        ),
        (lambda a: a.alter_offsets("g", {("t", True): 1}), r"must be a TopicPartition, .* not \('t', True\)"),
        (lambda a: a.offset_history("g", limit=True), "limit must be an int, not True"),
        (lambda a: a.plan_reset("g", [FIRST], ToOffset(True)), "offset must be an int, not True"),
        (lambda a: a.rewind("g", {}, timeout_s=True), "timeout_s must be a number, not True"),
        (lambda a: a.rewind("g", {}, timeout_s=float("nan")), "timeout_s must be a number, not nan"),
        (lambda a: a.delete_topics(["t" * 1000] * 5 + [5]), "an element of names must be a string, not 5"),
    ],
)
def test_what_is_wrong_inside_is_named(call: Callable[[Any], object], message: str) -> None:
    """An element, a key, a value, a field."""
    with Admin(NOBODY, timeout_s=1) as admin, pytest.raises(TypeError, match=message):
        call(admin)


def test_arguments_that_do_not_fit_are_told_with_the_method() -> None:
    """As Python tells them of any function: one too few, and one of another name."""
    with Admin(NOBODY, timeout_s=1) as admin:
        untyped: Any = admin
        with pytest.raises(
            TypeError, match=r"Admin.plan_reset\(\) missing 1 required positional argument: 'target'"
        ):
            untyped.plan_reset("g", [FIRST])
        with pytest.raises(TypeError, match=r"plan_reset\(\) got an unexpected keyword argument 'targets'"):
            untyped.plan_reset("g", [FIRST], targets=ToEarliest())


def test_a_long_value_is_cut() -> None:
    """A list of fifty thousand partitions is no error message."""
    with Admin(NOBODY) as admin, pytest.raises(TypeError) as raised:
        untyped: Any = admin
        untyped.describe_group([FIRST] * 50_000)
    assert len(str(raised.value)) < 300


@checked
class Echo:
    """Returns what it gets."""

    def partitions(self, given: Iterable[TopicPartition]) -> object:
        """Return them."""
        return given

    def offsets(self, given: Mapping[TopicPartition, int | CommittedOffset | None]) -> object:
        """Return them."""
        return given

    def times(self, *, given: datetime | int | None = None) -> object:
        """Return it."""
        return given


def test_right_arguments_are_passed_on() -> None:
    """Iterables as lists, so that a generator can be read twice; plain tuples as partitions."""
    echo: Any = Echo()
    assert echo.partitions(one for one in [FIRST, ("flights", 1)]) == [FIRST, TopicPartition("flights", 1)]
    assert all(isinstance(one, TopicPartition) for one in echo.partitions([("flights", 1)]))
    assert echo.offsets({("flights", 0): 1}) == {FIRST: 1}
    assert echo.offsets({FIRST: CommittedOffset(3)}) == {FIRST: CommittedOffset(3)}
    assert echo.times() is None
    assert echo.times(given=datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert inspect.signature(Echo.times) == inspect.signature(inspect.unwrap(Echo.times))
