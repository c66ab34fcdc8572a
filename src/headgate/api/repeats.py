"""Requests that come again: a consumer asks the same, with other numbers, for as long as it lives.

The first time a request comes it is read, and takes the way of any request. When one comes that says the
same but for its numbers (`headgate.wire.repeats`), its API is asked for a `Repeat`: what serves the next ones
from their numbers alone, without reading them again. A repeat is an ordinary request in everything else: it
goes to the coordinator as a command, is judged anew, and waits for its answer in the line of its connection.

A request is remembered for the principal that sent it, and never found for another one, who may not be
allowed to send it. A request that the access policy denies is not remembered, and `forget` is called when the
policy changes.

What is known has two generations. A request that is learned, or comes again, is in the young one. When that
is full it becomes the old one, and what was old is forgotten: a little with each request that is learned,
because to free it at once would hold the loop. So what comes again before `MOST_REPEATS` others stays known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headgate.api.contract import Node, Repeat
from headgate.api.registration import Api
from headgate.security.principal import ANONYMOUS, Principal
from headgate.wire.codec import encode
from headgate.wire.message import Message
from headgate.wire.repeats import Numbers, Place, RequestShape, places_of

MOST_REPEATS = 1 << 16
"""How many requests a generation has at most."""
MOST_BYTES = 96 << 20
"""What a generation takes in memory at most, about: some 40,000 commits of one partition. What is forgotten
and not freed yet comes to no more than the two generations.
"""
KEPT_FRAMES: Final = 5
"""A frame, and the names in it, are kept in so many places at most."""
MOST_SEEN = 1 << 17
"""Hashes of requests that came once."""
MOST_SIZES: Final = 1024
MOST_SHAPES_OF_A_SIZE: Final = 4
_FREED_AT_ONCE: Final = 4
LARGEST_BYTES: Final = 1 << 16
"""Larger requests are read each time: what takes long there is their numbers."""


Found = tuple[Any, Repeat, int, Numbers]
"""A request that came again: where it goes, how it is served, its correlation id and its numbers."""


@dataclass(slots=True)
class _Known:
    """The requests of one shape, by what they have in common."""

    shape: RequestShape
    young: dict[Hashable, tuple[Any, Repeat]] = field(default_factory=dict)
    old: dict[Hashable, tuple[Any, Repeat]] = field(default_factory=dict)


class Habit:
    """Who asks on a connection, and what its last known request had in common with others: mostly so does
    its next one.
    """

    __slots__ = ("principal", "rest")

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.principal = None if principal == ANONYMOUS else principal
        self.rest: Hashable = None

    def key(self, in_common: Hashable) -> Hashable:
        """By what a request with this in common with others is known."""
        return in_common if self.principal is None else (self.principal, in_common)


class Repeats:
    """The requests that are known to come again, of all connections."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[_Known]] = {}
        self._seen: set[int] = set()
        """Hashes of what came once. Where two are the same, one is learned too early: no harm is done."""
        self._count = 0
        """Requests of the young generation."""
        self._bytes = 0
        """What it takes in memory."""
        self._forgotten: list[dict[Hashable, tuple[Any, Repeat]]] = []
        """Known no more, and not freed yet."""

    def find(self, frame: bytes, habit: Habit) -> Found | None:
        """What is known of a frame (without its length in front); None: it has to be read.

        What is found is what was learned last. To compare it with what the same connection sent before is
        quicker than to hash it.
        """
        shapes = self._by_size.get(len(frame))
        if shapes is None:
            return None
        for known in shapes:
            correlation_id, numbers, in_common = known.shape.split(frame)
            rest = in_common if habit.principal is None else habit.key(in_common)
            if rest == habit.rest:
                rest = habit.rest
            found = known.young.get(rest)
            if found is None:
                if rest not in known.old:
                    continue
                found = known.old.pop(rest)
                self._take_in(known, rest, found)
            habit.rest = rest
            return found[0], found[1], correlation_id, numbers
        return None

    def learn(self, node: Node, frame: bytes, route: Any, request: Message, habit: Habit) -> None:
        """Take note of a request that was read and taken; `find` gives `route` back to the same principal.

        `route` tells the `api`, the `api_version` and where in the frame the message begins (`body_at`).
        """
        api: Api = route.api
        if api.repeat is None or len(frame) > LARGEST_BYTES:
            return
        shapes = self._by_size.get(len(frame), [])
        # Most of what comes once never comes again: only what does is worth the work.
        rest = hash((habit.principal, *(known.shape.split(frame)[2] for known in shapes)))
        if shapes and rest not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(rest)
            return
        repeat = api.repeat(node, route.api_version, request)
        if repeat is None:
            return
        places = _places_in(frame[route.body_at :], request, route.api_version, repeat.invert)
        if places is not None:
            in_frame = [Place(at + route.body_at, size) for at, size in places]
            self._remember(frame, in_frame, (route, repeat), habit)

    def forget(self) -> None:
        """Know nothing any more: what was allowed may be denied now."""
        self._begin_generation()
        self._begin_generation()

    def _remember(
        self, frame: bytes, places: Sequence[Place], served: tuple[Any, Repeat], habit: Habit
    ) -> None:
        shapes = self._by_size.setdefault(len(frame), [])
        known = next((one for one in shapes if one.shape.places == tuple(places)), None)
        if known is None:
            if len(shapes) >= MOST_SHAPES_OF_A_SIZE:
                return
            known = _Known(RequestShape(len(frame), places))
            shapes.append(known)
        self._take_in(known, habit.key(known.shape.split(frame)[2]), served)

    def _take_in(self, known: _Known, rest: Hashable, served: tuple[Any, Repeat]) -> None:
        known.young[rest] = served
        self._count += 1
        self._bytes += served[1].kept_bytes + KEPT_FRAMES * known.shape.size
        self._free_some()
        if self._count >= MOST_REPEATS or self._bytes >= MOST_BYTES or len(self._by_size) > MOST_SIZES:
            self._begin_generation()
            if len(self._by_size) > MOST_SIZES:
                self._begin_generation()

    def _begin_generation(self) -> None:
        """The young one becomes old, the old one is forgotten."""
        for shapes in self._by_size.values():
            for known in shapes:
                if known.old:
                    self._forgotten.append(known.old)
                known.old, known.young = known.young, {}
        kept = {size: [one for one in shapes if one.old] for size, shapes in self._by_size.items()}
        self._by_size = {size: shapes for size, shapes in kept.items() if shapes}
        self._count = self._bytes = 0

    def _free_some(self) -> None:
        for _ in range(_FREED_AT_ONCE):
            if not self._forgotten:
                return
            forgotten = self._forgotten[-1]
            forgotten.popitem()
            if not forgotten:
                self._forgotten.pop()


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
