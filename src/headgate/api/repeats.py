"""Requests that come again: a consumer asks the same, with other numbers, for as long as it lives.

The first time a request comes it is read, and takes the way of any request. When one comes that says the
same but for its numbers (`headgate.wire.repeats`), its API is asked for a `Repeat`: what serves the next ones
from their numbers alone, without reading them again. A repeat is an ordinary request in everything else: it
goes to the coordinator as a command, is judged anew, and waits for its answer in the line of its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.api.contract import Api, Node, Repeat
from headgate.wire.codec import encode
from headgate.wire.message import Message
from headgate.wire.repeats import Numbers, Place, RequestShape, places_of

MOST_REPEATS = 4096
"""How many requests are known at a time; when there are more, all are learned anew."""
MOST_BYTES = 8 << 20
"""What their frames come to at most. What is kept of one is up to twenty times as much: wide fetches."""
MOST_SIZES = 1024
MOST_SHAPES_OF_A_SIZE = 4
LARGEST_BYTES = 1 << 16
"""Larger requests are read each time: what takes long there is their numbers."""


Found = tuple[Any, Repeat, int, Numbers]
"""A request that came again: where it goes, how it is served, its correlation id and its numbers."""


@dataclass(slots=True)
class _Known:
    """The requests of one shape, by what they have in common."""

    shape: RequestShape
    repeats: dict[Hashable, tuple[Any, Repeat]] = field(default_factory=dict)


class Habit:
    """What a connection's last known request had in common with others: mostly so does its next one."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest: Hashable = None


class Repeats:
    """The requests that are known to come again, of all connections."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[_Known]] = {}
        self._seen: set[int] = set()
        """Hashes of what came once. Where two are the same, one is learned too early: no harm is done."""
        self._count = 0
        self._bytes = 0

    def find(self, frame: bytes, habit: Habit) -> Found | None:
        """What is known of a frame (without its length in front); None: it has to be read.

        What is found is what was learned last. To compare it with what the same connection sent before is
        quicker than to hash it.
        """
        shapes = self._by_size.get(len(frame))
        if shapes is None:
            return None
        for known in shapes:
            correlation_id, numbers, rest = known.shape.split(frame)
            if rest == habit.rest:
                rest = habit.rest
            found = known.repeats.get(rest)
            if found is not None:
                habit.rest = rest
                return found[0], found[1], correlation_id, numbers
        return None

    def learn(self, node: Node, frame: bytes, route: Any, request: Message) -> None:
        """Take note of a request that was read and taken; `find` gives `route` back.

        `route` tells the `api`, the `api_version` and where in the frame the message begins (`body_at`).
        """
        api: Api = route.api
        if api.repeat is None or len(frame) > LARGEST_BYTES:
            return
        shapes = self._by_size.get(len(frame), [])
        # Most of what comes once never comes again: only what does is worth the work.
        rest = hash(tuple(known.shape.split(frame)[2] for known in shapes))
        if shapes and rest not in self._seen:
            if len(self._seen) >= MOST_REPEATS:
                self._seen.clear()
            self._seen.add(rest)
            return
        repeat = api.repeat(node, route.api_version, request)
        if repeat is None:
            return
        places = _places_in(frame[route.body_at :], request, route.api_version, repeat.invert)
        if places is not None:
            self._remember(frame, [Place(at + route.body_at, size) for at, size in places], (route, repeat))

    def _remember(self, frame: bytes, places: Sequence[Place], served: tuple[Any, Repeat]) -> None:
        is_full = self._count >= MOST_REPEATS or self._bytes + len(frame) > MOST_BYTES
        if is_full or len(self._by_size) > MOST_SIZES:
            self._by_size.clear()
            self._count = self._bytes = 0
        shapes = self._by_size.setdefault(len(frame), [])
        known = next((one for one in shapes if one.shape.places == tuple(places)), None)
        if known is None:
            if len(shapes) >= MOST_SHAPES_OF_A_SIZE:
                return
            known = _Known(RequestShape(len(frame), places))
            shapes.append(known)
        known.repeats[known.shape.split(frame)[2]] = served
        self._count += 1
        self._bytes += len(frame)


def _places_in(
    body: bytes, request: Message, version: int, invert: Callable[[Any], None]
) -> list[Place] | None:
    """Where the request's numbers stand in its bytes; None if it says more than its message shows."""
    if encode(request, version) != body:
        return None
    invert(request)
    inverted = encode(request, version)
    invert(request)
    return places_of(body, inverted, (8,))
