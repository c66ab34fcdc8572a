"""Checks of arguments of `Admin` that Python would accept but that are surely mistakes."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from headgate.client.offsets import CommittedOffset
from headgate.client.security import Security
from headgate.domain.ids import Millis, TopicName, TopicPartition
from headgate.domain.times import as_datetime, millis


def _partition(each: object) -> TopicPartition:
    match each:
        case (str(topic), int(partition)):
            return TopicPartition(TopicName(topic), partition)
    raise TypeError(
        f"a TopicPartition is expected, for instance TopicPartition('flights', 0), not {each!r}; "
        "partitions_of('flights') returns all partitions of a topic"
    )


def bootstrap(servers: object) -> str:
    """Return the addresses. Raises TypeError for anything but a string, such as a list or a port."""
    if not isinstance(servers, str):
        raise TypeError(
            f"bootstrap_servers must be a string, as '127.0.0.1:9092,127.0.0.1:9093', not {servers!r}"
        )
    return servers


def text(name: str, value: object) -> str:
    """Return a text. Raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")
    return value


def secured(security: object) -> Security:
    """Return how connections are secured. Raises TypeError for what is no dict, and SecurityProblem."""
    if isinstance(security, Security):
        return security
    if not isinstance(security, Mapping):
        expected = "a dict with properties of TLS and SASL, for instance {'security.protocol': 'SSL'}"
        raise TypeError(f"security must be {expected}, not {security!r}")
    return Security.of(security)


def seconds(name: str, value: object) -> float:
    """Return a time limit. Raises TypeError for anything but a number, ValueError for one up to 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be more than 0 seconds, and finite, not {value!r}")
    return value


def wait_seconds(name: str, value: float) -> float:
    """Return how long to wait. Raises ValueError for a negative time."""
    if value < 0:
        raise ValueError(f"{name} must be 0 seconds or more, not {value!r}")
    return value


def whole(name: str, value: object) -> int:
    """Return a whole number. Raises TypeError for anything else, such as a text, a timedelta or True."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}")
    return value


def among(name: str, given: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return names, in any case. Raises ValueError for one that is not known, TypeError for a single text."""
    if isinstance(given, str):
        raise TypeError(f"{name} are given as a list: [{given!r}]")
    found = list(given)
    lower = {each.lower() for each in known}
    if unknown := [each for each in found if each.lower() not in lower]:
        raise ValueError(f"{name} are {', '.join(known)}, not {unknown[0]!r}")
    return found


def past_millis(time: datetime | int) -> Millis:
    """Return a time in the history, in ms.

    Raises what `millis` does, and ValueError for one before 1970.
    """
    found = millis(time)
    if found < 0:  # in a request a negative number is no time: all changes would be returned
        raise ValueError(f"a time must not be before 1970: {time!r}")
    return found


_AHEAD_MS: Final = 60_000
"""How far the clocks of client and server may differ, in ms."""


def refuse_future(time: Millis) -> None:
    """Raise ValueError for a time in the future, at which nothing has been: mostly a wrong time zone."""
    ahead_ms = time - clock.time() * 1000
    if ahead_ms > _AHEAD_MS:
        raise ValueError(
            f"{as_datetime(time)} is {ahead_ms / 1000:,.0f} s in the future: is its time zone right?"
        )


_LARGEST_OFFSET = (1 << 63) - 1


def refuse_impossible(
    offsets: Mapping[TopicPartition, int | CommittedOffset | None], otherwise: str = ""
) -> None:
    """Raise ValueError for an offset that cannot be, and TypeError for what is none or for no partition.

    `otherwise`: what else the caller takes, such as `or -1 for all`.
    """
    expected = f"0 or more, {otherwise}" if otherwise else "0 or more"
    for partition, wanted in offsets.items():
        _partition(partition)
        offset = wanted.offset if isinstance(wanted, CommittedOffset) else wanted
        if offset is not None and whole(f"the offset of {partition}", offset) < 0:
            raise ValueError(f"the offset of {partition} must be {expected}, not {offset}")
        if offset is not None and offset > _LARGEST_OFFSET:
            raise ValueError(f"the offset of {partition} must be below 2**63, not {offset}")
