"""What the history of offsets must tell, from the states that the model of the offsets went through.

Of each partition of a group the model knows states that were, one after the other, because a reply said so or
a load found them; and between them some that may have been, as nobody was told. What the history tells must
go through all of the former, may go through the latter, each commit as a whole, and through nothing else.

It may begin late: what was replaced before the time that it says, and longer ago than it is kept, may be
missing, beginning with the oldest. What stands and what stood before it last is told in any case then.
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
"""Whether a partition's value may have been gone by a time, without anybody being told."""


class State(NamedTuple):
    """What a partition's offset was, or may have been; None: it had none."""

    value: Value | None
    is_certain: bool


@dataclass
class Told:
    """What the history told of one group, and what to judge it by."""

    history: GroupHistory
    now: float
    kept_ms: int | None
    """What was replaced longer ago than that may be missing; None: anything may be that was replaced before
    the time since which all is known."""
    time: SimulatedTime
    may_be_gone: GoneBy
    halves: dict[int, set[bool]] = field(default_factory=lambda: defaultdict(set))
    """Of commits that may have been, by their number, whether parts of them are told, or are not."""


class OffsetPast:
    """The states of the offsets of one shard's groups, oldest first."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Key, list[State]]] = defaultdict(lambda: defaultdict(list))

    # --- what happens ---

    def became(self, group_id: str, before: Offsets, after: Offsets) -> None:
        """A reply says what a group's offsets are."""
        for key in before.keys() | after.keys():
            if not _is_same(before.get(key), after.get(key)):
                self._groups[group_id][key].append(State(after.get(key), is_certain=True))

    def may_have_been(self, effects: Iterable[Effect]) -> None:
        """Requests that nobody got an answer to; whether they took effect is not known."""
        for group_id, key, state in _possible(effects, self._groups):
            self._groups[group_id][key].append(state)

    def were_found(self, groups: Mapping[str, Offsets]) -> None:
        """All that there is was looked at."""
        for group_id in groups.keys() | self._groups.keys():
            found, states = groups.get(group_id, {}), self._groups[group_id]
            for key in found.keys() | states.keys():
                _settle(states[key], found.get(key))

    # --- what is told of it ---

    def check(self, group_id: str, told: Told, uncertain: Sequence[Effect]) -> int:
        """Judge all that the history tells of a group; how many changes that is. Raises Violation.

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
    """What was found is the last of the states; what may have come after it did not."""
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
    """The states that requests lead to if they take effect."""
    for effect in effects:
        group_id = effect.request.group_id
        known = set(groups.get(group_id, ()))
        for key in known if effect.drops_all else effect.drops:
            yield group_id, key, State(None, is_certain=False)
        for key, value in effect.puts.items():
            yield group_id, key, State(value, is_certain=False)


def _problem(key: Key, states: list[State], partition: PartitionHistory | None, told: Told) -> str | None:
    """What is wrong with what is told of a partition, if anything is."""
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
    """Which of the states a commit made; -1: none of them."""
    commit = entry.commit
    assert commit is not None
    told = (commit.offset, commit.leader_epoch, commit.metadata, commit.commit_timestamp)
    for index, (value, _) in enumerate(states):
        if value is not None and (*value[:4], value.expires_ms) == (*told, commit.expire_timestamp):
            return index
    return -1


class _Walk:
    """Goes through the states as the entries tell of them."""

    def __init__(self, key: Key, states: list[State], told: Told) -> None:
        self._key = key
        self._states = states
        self._told = told
        self._at = 0
        """The first state that is not behind us."""
        self._now: Value | None = None

    def begin(
        self, first: int, entries: list[HistoryEntry], partition: PartitionHistory | None
    ) -> str | None:
        """Go to where the entries begin; `first` is the state of the first commit among them.

        A removal that is told before that is of something that is forgotten, and left behind with it.
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
        """Whether a value must not be missing: it stands, or was replaced late enough."""
        told, value = self._told, self._states[index].value
        assert value is not None
        following = [one.value for one in self._states[index + 1 :]]
        replaced = min(
            ((one.committed_ms, one.committed_at) for one in following if one is not None),
            default=(told.time.system_time(), told.now),
        )
        if None in following or told.may_be_gone(self._key, value, replaced[0]):
            # By a removal, of which nobody knows when it was.
            replaced = min(replaced[0], told.time.lowest(value.committed_at, told.now)), value.committed_at
        elif not following:
            return True
        replaced_ms, replaced_at = replaced
        if replaced_ms > told.history.known_since:
            return True
        return told.kept_ms is not None and told.time.largest_rise(replaced_at, told.now) < told.kept_ms

    def step(self, entry: HistoryEntry) -> str | None:
        """Go on to what an entry tells."""
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
        """Nothing is told after that."""
        return self._pass(len(self._states))

    def _pass(self, place: int) -> str | None:
        """Leave behind what comes before a state: only what may not have been, or is as it was told."""
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
