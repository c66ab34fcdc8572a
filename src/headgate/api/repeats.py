"""Repeated requests: a consumer sends the same request with other numbers as long as it runs.

A new request is decoded and handled as usual. When an equal request with other numbers arrives
(`headgate.wire.repeats`), its API makes a `Repeat`, which serves later ones from their numbers alone, without
decoding them. A repeated request is otherwise an ordinary one: it becomes a command of the coordinator, is
checked again, and keeps its place among the requests of its connection.

A request is remembered for the principal that sent it, and never used for another one, which may lack the
permission. A request that the access policy denies is not remembered, and `forget` is called when the policy
changes.

The cache has two generations. A request that is learned or repeated enters the young one. When the young one
is full, it becomes the old one, and the previous old one is dropped: a few entries with each learned request,
because dropping it at once would block the event loop. So a request that is repeated within `MOST_REPEATS`
others stays in the cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from headgate.api.contract import Call, Node, Repeat
from headgate.api.registration import Api
from headgate.security.principal import ANONYMOUS, Principal
from headgate.wire.message import Message
from headgate.wire.places import Place, places_of
from headgate.wire.repeats import Numbers, RequestShape

MOST_REPEATS = 1 << 16
"""Maximum number of requests in a generation."""
MOST_BYTES = 96 << 20
"""Approximate maximum of memory for a generation: about 55,000 commits of one partition. Dropped entries that
are not freed yet take at most as much as both generations.
"""
KEPT_FRAMES: Final = 5
"""Maximum number of copies of a frame and its names in memory."""
MOST_SEEN = 1 << 17
"""Maximum number of hashes of requests that were sent once."""
MOST_SIZES: Final = 1024
MOST_SHAPES_OF_A_SIZE: Final = 4
_FREED_AT_ONCE: Final = 4
LARGEST_BYTES: Final = 1 << 16
"""Larger requests are decoded each time, because most of their time is for their numbers."""


Found = tuple[Any, Repeat, int, Numbers]
"""A repeated request: its route, its `Repeat`, its correlation id and its numbers."""


class HandledCall(Call, Protocol):
    """A call that was handled, perhaps not answered yet."""

    route: Any
    """Its `api`, its `api_version` and the position of the message in the frame (`body_at`)."""


@dataclass(slots=True)
class _Known:
    """The requests of one layout, by their constant parts."""

    shape: RequestShape
    young: dict[Hashable, tuple[Any, Repeat]] = field(default_factory=dict)
    old: dict[Hashable, tuple[Any, Repeat]] = field(default_factory=dict)


class Habit:
    """The principal of a connection, and the constant parts of its last known request."""

    __slots__ = ("principal", "rest")

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.principal = None if principal == ANONYMOUS else principal
        self.rest: Hashable = None

    def key(self, in_common: Hashable) -> Hashable:
        """Return the key of a request with these constant parts."""
        return in_common if self.principal is None else (self.principal, in_common)


class Repeats:
    """The cache of repeated requests of all connections."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[_Known]] = {}
        self._seen: set[int] = set()
        """Hashes of requests that were sent once. After a collision one is learned too early: harmless."""
        self._count = 0
        """Number of requests in the young generation."""
        self._bytes = 0
        """Its memory in bytes."""
        self._forgotten: list[dict[Hashable, tuple[Any, Repeat]]] = []
        """Dropped entries that are not freed yet."""

    def find(self, frame: bytes, habit: Habit) -> Found | None:
        """Return the entry of a frame (without its length field); None if it must be decoded.

        Entries that were learned last are tried first. A comparison with the last request of the same
        connection is faster than a hash.
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

    def learn(self, node: Node, frame: bytes, call: HandledCall, request: Message, habit: Habit) -> None:
        """Learn a request that was decoded and handled; `find` returns its route to the same principal."""
        route = call.route
        api: Api = route.api
        if api.repeat is None or len(frame) > LARGEST_BYTES:
            return
        shapes = self._by_size.get(len(frame), [])
        # Most requests that are sent once are never repeated: learn only the repeated ones.
        rest = hash((habit.principal, *(known.shape.split(frame)[2] for known in shapes)))
        if shapes and rest not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(rest)
            return
        repeat = api.repeat(node, call, request)
        if repeat is None:
            self._drop(shapes, frame, habit)
            return
        places: list[Place] = []
        if repeat.numbers:
            places = places_of(api.request_type, route.api_version, repeat.numbers, frame, route.body_at)
        self._remember(frame, places, (route, repeat), habit)

    def forget(self) -> None:
        """Drop all entries: the access policy may deny them now."""
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

    def _drop(self, shapes: Sequence[_Known], frame: bytes, habit: Habit) -> None:
        """Drop a request that cannot be repeated any more: its topic is gone."""
        for known in shapes:
            rest = habit.key(known.shape.split(frame)[2])
            known.young.pop(rest, None)  # it remains counted until the generation ends
            known.old.pop(rest, None)

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
        """Make the young generation the old one, and drop the old one."""
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
