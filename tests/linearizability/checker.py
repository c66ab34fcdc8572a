"""Is there an order of these operations that a single-threaded store could have gone through?

A history is linearizable if every operation can be given one moment between its beginning and its end, so
that all of them, in the order of these moments, are right. The search is Wing and Gong's in Lowe's form: take
the operations that may come next one after the other, go back where nothing fits, and never look twice at the
same operations taken with the same values left. An operation reads and writes any number of keys at its one
moment, so a commit seen in part fits nowhere.

An operation without an answer may have happened, or not. But not later than its end: what a server had not
done when it was killed, it must not do when it comes back.

Three things make it quick. What was never answered and never seen cannot matter, and is left out. Keys that
every operation treated alike are one key. And nothing may replace a value that somebody has yet to read and
nobody is left to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

Key = tuple[str, int]
Value = Hashable
State = tuple[Value, ...]

ABSENT: Value = None


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """All of `reads` was true at one moment, at which all of `writes` became true.

    `began` and `ended` are places in one order of all that was observed. Where `is_answered` is false it may
    also never have happened, and it reads nothing.
    """

    name: str
    began: int
    ended: int
    reads: Mapping[Key, Value] = field(default_factory=dict)
    writes: Mapping[Key, Value] = field(default_factory=dict)
    is_answered: bool = True


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The operation that ended before any order could hold it, and the operation that conflicts with it."""

    operation: Operation
    differences: Mapping[Key, tuple[Value, Value]]
    """What it read, and what was there in the order that got furthest."""
    explained: int
    """How many operations that order holds."""

    def __str__(self) -> str:
        shown = list(self.differences.items())[:5]
        which = ", ".join(f"{key!r}: read {read!r}, was {was!r}" for key, (read, was) in shown)
        more = f" and {len(self.differences) - 5} more keys" if len(self.differences) > 5 else ""
        return f"{self.operation.name} fits nowhere after {self.explained} operations ({which}{more})"


def find_contradiction(operations: Sequence[Operation]) -> Contradiction | None:
    """Why a history of a store that was empty at first is not linearizable; None if it is."""
    relevant = _without_the_unseen(operations)
    steps = _Steps(relevant)
    return _Search(relevant, steps).run()


def _without_the_unseen(operations: Sequence[Operation]) -> list[Operation]:
    seen = {item for operation in operations for item in operation.reads.items()}
    return [
        operation
        for operation in operations
        if operation.is_answered or not seen.isdisjoint(operation.writes.items())
    ]


_Use = tuple[int, bool, Value, bool, Value]
"""An operation's index, whether it reads a key and what, whether it writes it and what."""


class _Steps:
    """What each operation asks of and does to the values of the keys that differ."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        uses: dict[Key, list[_Use]] = {}
        for index, operation in enumerate(operations):
            for key in operation.reads.keys() | operation.writes.keys():
                reads, writes = operation.reads, operation.writes
                use = (index, key in reads, reads.get(key), key in writes, writes.get(key))
                uses.setdefault(key, []).append(use)
        alike: dict[tuple[_Use, ...], list[Key]] = {}
        for key, used in uses.items():
            alike.setdefault(tuple(used), []).append(key)
        self.classes = list(alike.values())
        """Keys that are one key."""
        self.reads: list[list[tuple[int, Value]]] = [[] for _ in operations]
        self.writes: list[list[tuple[int, Value]]] = [[] for _ in operations]
        self._readers: Counter[tuple[int, Value]] = Counter()
        self._writers: Counter[tuple[int, Value]] = Counter()
        """How many of the operations that are not taken read or write a value."""
        for at, keys in enumerate(self.classes):
            for index, is_read, read, is_written, written in uses[keys[0]]:
                if is_read:
                    self.reads[index].append((at, read))
                if is_written:
                    self.writes[index].append((at, written))
        for read_uses, written_uses in zip(self.reads, self.writes, strict=True):
            self._readers.update(read_uses)
            self._writers.update(written_uses)

    def fits(self, index: int, state: State) -> bool:
        """Whether the operation read what is there, and replaces nothing that is needed."""
        if any(state[at] != value for at, value in self.reads[index]):
            return False
        own = self.reads[index]
        for at, value in self.writes[index]:
            there = (at, state[at])
            if there[1] != value and self._readers[there] > (there in own) and not self._writers[there]:
                return False
        return True

    def take(self, index: int) -> None:
        """The operation is taken, or never happened."""
        for use in self.reads[index]:
            self._readers[use] -= 1
        for use in self.writes[index]:
            self._writers[use] -= 1

    def put_back(self, index: int) -> None:
        """The opposite of `take`."""
        for use in self.reads[index]:
            self._readers[use] += 1
        for use in self.writes[index]:
            self._writers[use] += 1

    def after(self, index: int, state: State) -> State:
        """The values after the operation."""
        writes = self.writes[index]
        if not writes:
            return state
        values = list(state)
        for at, value in writes:
            values[at] = value
        return tuple(values)

    def differences(self, index: int, state: State) -> dict[Key, tuple[Value, Value]]:
        """What the operation read otherwise than it was."""
        return {
            key: (value, state[at])
            for at, value in self.reads[index]
            if state[at] != value
            for key in self.classes[at]
        }


class _Event:
    """The beginning or the end of an operation, in a list of those that are not taken."""

    __slots__ = ("end", "following", "index", "previous")

    def __init__(self, index: int, end: _Event | None) -> None:
        self.index = index
        self.end = end
        """The end that belongs to a beginning; None for an end."""
        self.previous: _Event | None = None
        self.following: _Event | None = None

    def take_out(self) -> None:
        if self.previous is not None:
            self.previous.following = self.following
        if self.following is not None:
            self.following.previous = self.previous

    def put_back(self) -> None:
        if self.previous is not None:
            self.previous.following = self
        if self.following is not None:
            self.following.previous = self


@dataclass(slots=True)
class _Place:
    """Where the search is: which operations are taken, what they left, and what may come next."""

    taken: int
    state: State
    choices: list[tuple[_Event, bool]]
    """Beginnings to take next, the most promising last, and whether to count them as never happened."""
    chosen: _Event | None = None


class _Search:
    """Depth first, with a memory of where it has been."""

    def __init__(self, operations: Sequence[Operation], steps: _Steps) -> None:
        self._operations = operations
        self._steps = steps
        self._head = _Event(-1, None)
        self._begins: list[_Event] = []
        places: list[tuple[int, int, _Event]] = []
        for index, operation in enumerate(operations):
            end = _Event(index, None)
            begin = _Event(index, end)
            self._begins.append(begin)
            # Where both happen in one place of the order, the two overlap.
            places += ((operation.began, 0, begin), (operation.ended, 1, end))
        last = self._head
        for _, _, event in sorted(places, key=lambda place: place[:2]):
            last.following, event.previous = event, last
            last = event

    def run(self) -> Contradiction | None:
        steps = self._steps
        been: set[tuple[int, State]] = set()
        place = _Place(0, (ABSENT,) * len(steps.classes), self._choices())
        way: list[_Place] = [place]
        furthest = place
        while self._head.following is not None:
            place = way[-1]
            if place.chosen is not None:
                self._put_back(place.chosen)
                steps.put_back(place.chosen.index)
                place.chosen = None
            if not place.choices:
                way.pop()
                if not way:
                    return self._contradiction(furthest)
                continue
            begin, is_skipped = place.choices.pop()
            index = begin.index
            if not is_skipped and not steps.fits(index, place.state):
                continue
            after = place.state if is_skipped else steps.after(index, place.state)
            taken = place.taken | 1 << index
            if (taken, after) in been:
                continue
            been.add((taken, after))
            place.chosen = begin
            self._take(begin)
            steps.take(index)
            way.append(_Place(taken, after, self._choices()))
            if taken.bit_count() > furthest.taken.bit_count():
                furthest = way[-1]
        return None

    def _choices(self) -> list[tuple[_Event, bool]]:
        """What began before anything that is not taken ended; what was answered first is tried first."""
        begins: list[_Event] = []
        event = self._head.following
        while event is not None and event.end is not None:
            begins.append(event)
            event = event.following
        begins.sort(key=lambda begin: -self._operations[begin.index].ended)
        choices = [(begin, False) for begin in begins]
        if event is not None and not self._operations[event.index].is_answered:
            choices.insert(0, (self._begins[event.index], True))
        return choices

    def _take(self, begin: _Event) -> None:
        assert begin.end is not None
        begin.take_out()
        begin.end.take_out()

    def _put_back(self, begin: _Event) -> None:
        assert begin.end is not None
        begin.end.put_back()
        begin.put_back()

    def _contradiction(self, furthest: _Place) -> Contradiction:
        """At the furthest place something had to come next that did not fit: what ends first there."""
        left = [one for at, one in enumerate(self._operations) if not furthest.taken >> at & 1]
        blocked = min((one for one in left if one.is_answered), key=lambda one: one.ended)
        differences = self._steps.differences(self._operations.index(blocked), furthest.state)
        return Contradiction(blocked, differences, furthest.taken.bit_count())
