"""Subscriptions by regular expression: which topics they mean, and when to look again.

Heartbeats match nothing: a new expression means no topic until the group's ticks (`TimerKind.PATTERNS`) have
matched it against all there are. The result is a record. When topics come or go, those alone are matched.

There may be a hundred thousand topics, and many groups: a tick matches a slice and leaves the rest to the
next one, so that everybody else has his turn in between, other groups' expressions too. A slice is measured
by what its matches take at worst (`TopicPattern.steps`). How far a group has come is volatile: after a load
everything is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from headgate.core.consumer.commands import Refusal
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.turn import ConsumerTurn
from headgate.core.topic_image import TopicChange, TopicImage
from headgate.core.topic_pattern import InvalidPattern, TopicPattern, compile_pattern
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import ConsumerGroupRegularExpression, ConsumerRecord

STEPS_AT_ONCE = 250_000
"""At worst 5 ms: as many steps a tick takes, and the groups together on the spot when topics change."""

_STEPS_OF_A_CALL = 50
"""What a match takes besides the expression's own steps."""

_STEPS_OF_AN_INSTRUCTION = 50
_STEPS_TO_SORT_A_NAME = 25
"""What it takes to compile an expression, and to put the topics that it means in order."""

_MATCHES_ON_THE_SPOT = 100
"""Of a group, when topics change."""

_PATTERNS_KEPT = 1024

_compiled = lru_cache(_PATTERNS_KEPT)(compile_pattern)

Meanings = dict[str, tuple[TopicName, ...]]
"""The topics that expressions mean, in order."""


def invalid_pattern(text: str) -> Refusal | None:
    """Why a member may not subscribe by this expression."""
    pattern = _compiled(text)
    if isinstance(pattern, TopicPattern):
        return None
    message = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {pattern.reason}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


class PatternMatching:
    """What is still to be matched for the groups of a shard."""

    __slots__ = ("_changed", "_loaded", "_running")

    def __init__(self) -> None:
        self._changed: dict[GroupId, list[Sequence[TopicChange]]] = {}
        """Changes of topics that a group's expressions were not held against yet."""
        self._loaded: set[GroupId] = set()
        """Groups that have not been looked at since the log was read."""
        self._running: dict[GroupId, Iterator[Meanings | None]] = {}

    def loaded(self, groups: Iterable[ConsumerGroup]) -> None:
        """Everything is to be looked at again, once it is known which topics there are."""
        self._changed = {group.group_id: [] for group in groups if group.subscriptions.regex_users}
        self._loaded = set(self._changed)
        self._running.clear()

    def forget(self, group_id: GroupId) -> None:
        """The group is gone."""
        self._changed.pop(group_id, None)
        self._loaded.discard(group_id)
        self._running.pop(group_id, None)

    def topics_changed(
        self, groups: Iterable[ConsumerGroup], changes: Sequence[TopicChange]
    ) -> list[GroupId]:
        """Topics are others: the groups of these whose ticks have something to do.

        Few changes are matched on the spot, once for each expression that there is, as long as it takes no
        more steps than a tick: mostly they are of topics that a group does not mean.
        """
        room = _Room()
        verdicts: Verdicts = {}
        concerned = []
        for group in groups:
            is_wide = len(changes) * len(group.subscriptions.regex_users) > _MATCHES_ON_THE_SPOT
            if (
                is_wide
                or room.is_used_up
                or self._is_under_way(group)
                or _is_outdated(group, changes, verdicts, room)
            ):
                self._changed.setdefault(group.group_id, []).append(changes)
                concerned.append(group.group_id)
        return concerned

    def _is_under_way(self, group: ConsumerGroup) -> bool:
        group_id = group.group_id
        return group_id in self._running or group_id in self._changed or not group.subscriptions.is_known

    def match(self, turn: ConsumerTurn, group: ConsumerGroup) -> list[ConsumerRecord]:
        """A slice of what is to be matched for a group; the records come with the last one.

        Sets the group's timer as long as there is more to do.
        """
        group_id = group.group_id
        running = self._running.get(group_id)
        if running is None:
            changes = self._changed.pop(group_id, [])
            is_loaded = group_id in self._loaded
            self._loaded.discard(group_id)
            running = _matching(group, turn.topics, changes, is_loaded=is_loaded)
            self._running[group_id] = running
        meanings = next(running)
        if meanings is None:
            turn.match_patterns(group_id)
            return []
        del self._running[group_id]
        if group_id in self._changed or any(
            regex not in meanings and regex not in group.regexes for regex in group.subscriptions.regex_users
        ):
            turn.match_patterns(group_id)
        return _records(turn, group, meanings)


class _Room:
    """The steps that may still be taken at once."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = STEPS_AT_ONCE

    @property
    def is_used_up(self) -> bool:
        """Whether it is time to pause."""
        return self._steps <= 0

    def take(self, pattern: TopicPattern | InvalidPattern, name: TopicName) -> None:
        """A name is matched. One match alone may take more than there is room for."""
        self._steps -= _STEPS_OF_A_CALL
        if not isinstance(pattern, InvalidPattern):
            self._steps -= pattern.steps(name)

    def compiled(self, regex: str) -> TopicPattern | InvalidPattern:
        """The pattern of an expression, which is compiled if it is not among those that are kept."""
        misses = _compiled.cache_info().misses
        pattern = _compiled(regex)
        if isinstance(pattern, TopicPattern) and _compiled.cache_info().misses > misses:
            self._steps -= pattern.instructions * _STEPS_OF_AN_INSTRUCTION
        return pattern

    def take_names(self, count: int, steps: int) -> None:
        """A list of names is gone through, with so many steps for each."""
        self._steps -= count * steps

    def begin_anew(self) -> None:
        """After a pause."""
        self._steps = STEPS_AT_ONCE


Verdicts = dict[tuple[str, TopicName], bool]
"""Whether an expression matches a name."""


def _is_outdated(
    group: ConsumerGroup, changes: Sequence[TopicChange], verdicts: Verdicts, room: _Room
) -> bool:
    """Whether an expression of the group means other topics after these changes, or that is not known yet.

    `verdicts` are those that other groups asked for, and take in those that this one does.
    """
    subscriptions = group.subscriptions
    for regex in subscriptions.regex_users:
        for name, topic in changes:
            is_meant = topic is not None and verdicts.get((regex, name))
            if is_meant is None:
                if room.is_used_up:
                    return True
                pattern = room.compiled(regex)
                room.take(pattern, name)
                is_meant = verdicts[regex, name] = _matches(pattern, name)
            if is_meant != subscriptions.is_meant_by(regex, name):
                return True
    return False


def _matches(pattern: TopicPattern | InvalidPattern, name: TopicName) -> bool:
    """An expression that is none was written by a coordinator that reads it otherwise: it means nothing."""
    return not isinstance(pattern, InvalidPattern) and pattern.matches(name)


def _matching(
    group: ConsumerGroup, topics: TopicImage, changes: list[Sequence[TopicChange]], *, is_loaded: bool
) -> Iterator[Meanings | None]:
    """What the group's expressions mean, at last; before that, None at the end of each slice.

    An expression that is known is held against the changes, a new one against all topics. Topics may change
    meanwhile: those are for the next time, but what is gone is left out. `is_loaded`: topics may be gone
    without being among the changes.
    """
    meanings: Meanings = {}
    room = _Room()
    there = topics.names()
    is_meant_by = group.subscriptions.is_meant_by
    for regex in tuple(group.subscriptions.regex_users):
        if room.is_used_up:
            yield None
            room.begin_anew()
        is_known = regex in group.regexes
        pattern = room.compiled(regex)
        changed = (change.name for change in chain.from_iterable(changes))
        found: set[TopicName] = set()
        is_outdated = False
        for name in changed if is_known else list(there):
            if room.is_used_up:
                yield None
                room.begin_anew()
            room.take(pattern, name)
            if _matches(pattern, name):
                found.add(name)
            is_outdated = is_outdated or (name in found and name in there) != is_meant_by(regex, name)
        if is_known and not is_loaded and not is_outdated:
            continue
        before = group.subscriptions.by_regex(regex)
        meant = there & found.union(before)
        meanings[regex] = before if len(meant) == len(before) and not is_outdated else tuple(sorted(meant))
        room.take_names(len(meant), _STEPS_TO_SORT_A_NAME)
    yield meanings


def _records(turn: ConsumerTurn, group: ConsumerGroup, meanings: Meanings) -> list[ConsumerRecord]:
    """What is new of the meanings; where an expression means other topics now, the group's epoch rises."""
    records: list[ConsumerRecord] = []
    is_rising = False
    for regex in group.subscriptions.regex_users:
        before = group.subscriptions.by_regex(regex)
        topics = meanings.get(regex, before)
        if regex in meanings and (regex not in group.regexes or topics != before):
            is_rising = is_rising or topics != before
            records.append(
                ConsumerGroupRegularExpression(
                    group_id=group.group_id,
                    regular_expression=regex,
                    topics=topics,
                    version=0,
                    timestamp=turn.system_time,
                )
            )
    if is_rising:
        names = set(group.subscriptions.readers)
        for regex in group.subscriptions.regex_users:
            names.update(meanings.get(regex, group.subscriptions.by_regex(regex)))
        metadata_hash = turn.topics.hash_of(frozenset(names))
        records.append(group.at_epoch(group.epoch + 1, metadata_hash))
    return records
