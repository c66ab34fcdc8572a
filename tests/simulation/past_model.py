"""The required contents of the offset history, from the states of the offset model.

For each partition of a group the model has a sequence of certain states, known from replies or loads, and
between them uncertain ones, known from no reply. The history must contain all certain states, may contain
uncertain ones, each commit as a whole, and nothing else.

It may start late: states that were replaced before its start, and longer ago than the retention of the
history, may be missing, the oldest first. The current and the previous state are always present then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Violation

from headgate.core.offsets.history import Earlier, GroupHistory, HistoryEntry, PartitionHistory

if TYPE_CHECKING:
    from tests.simulation.offset_effects import Effect, Key, Offsets, Value

GoneBy = Callable[["Key", "Value", int], bool]
"""Returns whether a partition's value may have been removed by a time, without a reply."""


class State(NamedTuple):
    """A certain or uncertain state of a partition's offset; None: no offset."""

    value: Value | None
    is_certain: bool


@dataclass
class Told:
    """The history of one group, and the input of its check."""

    history: GroupHistory
    now: float
    kept_ms: int | None
    """States replaced longer ago may be missing; None: all replaced before `known_since` may be."""
    time: SimulatedTime
    may_be_gone: GoneBy
    halves: dict[int, set[bool]] = field(default_factory=lambda: defaultdict(set))
    """Of uncertain commits, by their number, whether parts of them are present or missing."""


class OffsetPast:
    """The states of the offsets of one shard's groups, oldest first."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Key, list[State]]] = defaultdict(lambda: defaultdict(list))

    # --- states ---

    def became(self, group_id: str, before: Offsets, after: Offsets) -> None:
        """Add the offsets of a group, known from a reply."""
        for key in before.keys() | after.keys():
            if not _is_same(before.get(key), after.get(key)):
                self._groups[group_id][key].append(State(after.get(key), is_certain=True))

    def may_have_been(self, effects: Iterable[Effect]) -> None:
        """Add requests without an answer, which may have taken effect."""
        for group_id, key, state in _possible(effects, self._groups):
            self._groups[group_id][key].append(state)

    def were_found(self, groups: Mapping[str, Offsets]) -> None:
        """Add the offsets that were found in a check."""
        for group_id in groups.keys() | self._groups.keys():
            found, states = groups.get(group_id, {}), self._groups[group_id]
            for key in found.keys() | states.keys():
                _settle(states[key], found.get(key))

    # --- checks ---

    def check(self, group_id: str, told: Told, uncertain: Sequence[Effect]) -> int:
        """Check the whole history of a group; return its number of changes. Raises Violation.

        `uncertain` are requests since the last load that may have taken effect.
        """
        states = {key: list(each) for key, each in self._groups[group_id].items()}
        ours = [effect for effect in uncertain if effect.request.group_id == group_id]
        for _, key, state in _possible(ours, {group_id: states}):
            states.setdefault(key, []).append(state)
        partitions = {(str(one.topic), one.partition): one for one in told.history.partitions}
        for key in states.keys() | partitions.keys():
            problem = _problem(key, states.get(key, []), partitions.get(key), told)
            if problem:
                entries = partitions[key].entries if key in partitions else ()
                raise Violation(
                    f"the history of group {group_id} in {key} {problem}: told is {list(entries)}, "
                    f"known since {told.history.known_since}, it was {states.get(key)}"
                )
        torn = [number for number, halves in told.halves.items() if len(halves) > 1]
        if torn:
            raise Violation(f"the history of group {group_id} tells of parts of the commits {torn}")
        return sum(len(one.entries) for one in told.history.partitions)


def _is_same(one: Value | None, other: Value | None) -> bool:
    return other is None if one is None else one.is_said_by(other)


def _settle(states: list[State], found: Value | None) -> None:
    """Make the found value the last state; uncertain states after it did not happen."""
    for index in reversed(range(len(states))):
        value, is_certain = states[index]
        if found is not None and _is_same(value, found):
            states[index:] = [State(found, is_certain=True)]
            return
        if is_certain:
            break
    if not states or not states[-1].is_certain or not _is_same(states[-1].value, found):
        states.append(State(found, is_certain=True))


def _possible(
    effects: Iterable[Effect], groups: Mapping[str, Mapping[Key, list[State]]]
) -> Iterable[tuple[str, Key, State]]:
    """Yield the states after requests, if they take effect."""
    for effect in effects:
        group_id = effect.request.group_id
        known = set(groups.get(group_id, ()))
        for key in known if effect.drops_all else effect.drops:
            yield group_id, key, State(None, is_certain=False)
        for key, value in effect.puts.items():
            yield group_id, key, State(value, is_certain=False)


def _problem(key: Key, states: list[State], partition: PartitionHistory | None, told: Told) -> str | None:
    """Return the fault in the history of a partition, or None."""
    entries = list(reversed(partition.entries)) if partition is not None else []
    if partition is not None and partition.earlier is Earlier.MORE:
        return "keeps something back"
    for one, following in pairwise(entries):
        is_before = told.time.was_set or one.written <= following.written
        if one.log_offset >= following.log_offset or not is_before:
            return "is out of order"
    places = [_find(entry, states) for entry in entries if entry.commit is not None]
    if -1 in places:
        return "tells what was never committed"
    walk = _Walk(key, states, told)
    first = places[0] if places else len(states)
    problem = walk.begin(first, entries, partition)
    for entry in entries:
        problem = problem or walk.step(entry)
    return problem or walk.end()


def _find(entry: HistoryEntry, states: Sequence[State]) -> int:
    """Return the index of the state that a commit made; -1 for none."""
    commit = entry.commit
    assert commit is not None
    told = (commit.offset, commit.leader_epoch, commit.metadata, commit.commit_timestamp)
    for index, (value, _) in enumerate(states):
        if value is not None and (*value[:4], value.expires_ms) == (*told, commit.expire_timestamp):
            return index
    return -1


class _Walk:
    """Follows the states along the entries."""

    def __init__(self, key: Key, states: list[State], told: Told) -> None:
        self._key = key
        self._states = states
        self._told = told
        self._at = 0
        """The first state that is not passed yet."""
        self._now: Value | None = None

    def begin(
        self, first: int, entries: list[HistoryEntry], partition: PartitionHistory | None
    ) -> str | None:
        """Go to the start of the entries; `first` is the state of the first commit among them.

        A removal before it belongs to a state that is missing, and is skipped.
        """
        self._at = first
        knows_all = self._told.history.known_since < 0
        before: Value | None = None
        for index, (value, is_certain) in enumerate(self._states[:first]):
            if value is not None and is_certain and self._must_be_told(index):
                return f"does not tell of {value}"
            if value is not None and not is_certain and knows_all:
                self._told.halves[value.offset].add(False)
            if value is None or is_certain:
                before = value
        had_nothing = knows_all or all(one.value is None for one in self._states[:first])
        if entries and entries[0].commit is None and had_nothing:
            return "tells of a removal of nothing"
        is_first = partition is not None and partition.earlier is Earlier.NOTHING and bool(entries)
        if is_first and before is not None and entries[0].commit is not None:
            is_gone = self._told.may_be_gone(self._key, before, entries[0].time)
            if not is_gone:
                return f"tells that there was nothing before, and it was {before}"
        return None

    def _must_be_told(self, index: int) -> bool:
        """Return whether a value must be present: it is current, or was replaced recently enough."""
        told, value = self._told, self._states[index].value
        assert value is not None
        following = [one.value for one in self._states[index + 1 :]]
        replaced = min(
            ((one.committed_ms, one.committed_at) for one in following if one is not None),
            default=(told.time.system_time(), told.now),
        )
        if None in following or told.may_be_gone(self._key, value, replaced[0]):
            # By a removal at an unknown time.
            replaced = min(replaced[0], told.time.lowest(value.committed_at, told.now)), value.committed_at
        elif not following:
            return True
        replaced_ms, replaced_at = replaced
        if replaced_ms > told.history.known_since:
            return True
        return told.kept_ms is not None and told.time.largest_rise(replaced_at, told.now) < told.kept_ms

    def step(self, entry: HistoryEntry) -> str | None:
        """Go on to the state of an entry."""
        if entry.commit is None:
            if self._now is not None and not self._may_be_removed(entry):
                return f"tells that {self._now} was removed"
            self._now = None
            return None
        place = _find(entry, self._states)
        if place < self._at:
            return "is not in the order in which it was committed"
        problem = self._pass(place)
        self._now, is_certain = self._states[place]
        assert self._now is not None
        if not is_certain:
            self._told.halves[self._now.offset].add(True)
        self._at = place + 1
        return problem

    def end(self) -> str | None:
        """Check that nothing is missing after the last entry."""
        return self._pass(len(self._states))

    def _pass(self, place: int) -> str | None:
        """Pass the states before this one: each must be uncertain, or may be missing."""
        for value, is_certain in self._states[self._at : place]:
            if is_certain and not _is_same(value, self._now):
                return f"does not tell that it was {value}"
            if value is not None and not _is_same(value, self._now):
                self._told.halves[value.offset].add(False)
        return None

    def _may_be_removed(self, entry: HistoryEntry) -> bool:
        assert self._now is not None
        for value, is_certain in self._states[self._at :]:
            if value is None:
                return True
            if is_certain and not _is_same(value, self._now):
                break
        return self._told.may_be_gone(self._key, self._now, entry.time)
