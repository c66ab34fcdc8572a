"""Subscriptions by regular expression: the topics they match, and when to match again.

Heartbeats do not match: a new expression has no topics until ticks of the group (`TimerKind.PATTERNS`) have
matched it against all topics. The result is a record. When topics are created or deleted, only those are
matched.

There may be a hundred thousand topics, and many groups: a tick matches a slice and leaves the rest to the
next one, so that other work, also other groups' expressions, is done in between. A slice is measured by the
worst-case cost of its matches (`TopicPattern.steps`). The progress of a group is volatile: after a load
everything is matched again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from headgate.core.consumer.commands import GroupRefusal
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.topic_image import TopicChange, TopicImage
from headgate.core.topic_pattern import InvalidPattern, TopicPattern, compile_pattern
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import ConsumerGroupRegularExpression, ConsumerRecord

STEPS_AT_ONCE = 250_000
"""Steps of a tick, and of all groups together at a change of topics; at worst 5 ms."""

_STEPS_OF_A_CALL = 50
"""Cost of a match besides the expression's own steps."""

_STEPS_OF_AN_INSTRUCTION = 50
_STEPS_TO_SORT_A_NAME = 25
"""Cost of compiling an expression, and of sorting its topics."""

_MATCHES_ON_THE_SPOT = 100
"""Matches of a group at a change of topics; with more, its ticks match them."""

_PATTERNS_KEPT = 1024
LONGEST_SHOWN = 200
"""In characters: a longer expression is cut in the message, so that its reason is seen."""

_compiled = lru_cache(_PATTERNS_KEPT)(compile_pattern)

Meanings = dict[str, tuple[TopicName, ...]]
"""The topics that expressions match, sorted."""


def invalid_pattern(text: str) -> GroupRefusal | None:
    """Return why a member may not subscribe to this expression; None if it may."""
    pattern = _compiled(text)
    if isinstance(pattern, TopicPattern):
        return None
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"
    message = f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {pattern.reason}."
    return GroupRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


class PatternMatching:
    """The pending matches of a shard's groups."""

    __slots__ = ("_changed", "_loaded", "_running")

    def __init__(self) -> None:
        self._changed: dict[GroupId, list[Sequence[TopicChange]]] = {}
        """Changes of topics that a group's expressions were not matched against yet."""
        self._loaded: set[GroupId] = set()
        """Groups whose expressions were not matched since the load."""
        self._running: dict[GroupId, Iterator[Meanings | None]] = {}

    def loaded(self, groups: Iterable[ConsumerGroup]) -> None:
        """Schedule all matches again, for when the topics are known."""
        self._changed = {group.group_id: [] for group in groups if group.subscriptions.regex_users}
        self._loaded = set(self._changed)
        self._running.clear()

    def forget(self, group_id: GroupId) -> None:
        """Discard the state of a deleted group."""
        self._changed.pop(group_id, None)
        self._loaded.discard(group_id)
        self._running.pop(group_id, None)

    def topics_changed(
        self, groups: Iterable[ConsumerGroup], changes: Sequence[TopicChange]
    ) -> list[GroupId]:
        """Handle a change of topics; return the groups whose ticks have something to match.

        Few changes are matched at once, each expression once, up to the steps of a tick: mostly a group's
        expressions do not match the topics.
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

    def match(self, context: ConsumerContext, group: ConsumerGroup) -> list[ConsumerRecord]:
        """Match a slice of a group's pending matches; the last slice returns the records.

        Sets the group's timer if there is more to do.
        """
        group_id = group.group_id
        running = self._running.get(group_id)
        if running is None:
            changes = self._changed.pop(group_id, [])
            is_loaded = group_id in self._loaded
            self._loaded.discard(group_id)
            running = _matching(group, context.topics, changes, is_loaded=is_loaded)
            self._running[group_id] = running
        meanings = next(running)
        if meanings is None:
            context.match_patterns(group_id)
            return []
        del self._running[group_id]
        if group_id in self._changed or any(
            regex not in meanings and regex not in group.regexes for regex in group.subscriptions.regex_users
        ):
            context.match_patterns(group_id)
        return _records(context, group, meanings)


class _Room:
    """The steps left before a pause."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = STEPS_AT_ONCE

    @property
    def is_used_up(self) -> bool:
        """Whether it is time to pause."""
        return self._steps <= 0

    def take(self, pattern: TopicPattern | InvalidPattern, name: TopicName) -> None:
        """Count a match. A single one may take more steps than are left."""
        self._steps -= _STEPS_OF_A_CALL
        if not isinstance(pattern, InvalidPattern):
            self._steps -= pattern.steps(name)

    def compiled(self, regex: str) -> TopicPattern | InvalidPattern:
        """Return the pattern of an expression, compiled if it is not cached."""
        misses = _compiled.cache_info().misses
        pattern = _compiled(regex)
        if isinstance(pattern, TopicPattern) and _compiled.cache_info().misses > misses:
            self._steps -= pattern.instructions * _STEPS_OF_AN_INSTRUCTION
        return pattern

    def take_names(self, count: int, steps: int) -> None:
        """Count an iteration over a list of names, with so many steps for each."""
        self._steps -= count * steps

    def begin_anew(self) -> None:
        """Start again after a pause."""
        self._steps = STEPS_AT_ONCE


Verdicts = dict[tuple[str, TopicName], bool]
"""Whether an expression matches a name."""


def _is_outdated(
    group: ConsumerGroup, changes: Sequence[TopicChange], verdicts: Verdicts, room: _Room
) -> bool:
    """Return whether an expression of the group matches other topics after these changes, or may do so.

    `verdicts` has the results of other groups, and gets those of this one.
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
    """Return the match of a name; an invalid expression, from a coordinator with another syntax, matches
    none.
    """
    return not isinstance(pattern, InvalidPattern) and pattern.matches(name)


def _matching(
    group: ConsumerGroup, topics: TopicImage, changes: list[Sequence[TopicChange]], *, is_loaded: bool
) -> Iterator[Meanings | None]:
    """Yield the topics of the group's expressions at the end; before that, None at the end of each slice.

    A known expression is matched against the changes, a new one against all topics. Topics that are created
    meanwhile are left to the next time, deleted ones are omitted. `is_loaded`: topics may be deleted that are
    not among the changes.
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


def _records(context: ConsumerContext, group: ConsumerGroup, meanings: Meanings) -> list[ConsumerRecord]:
    """Return the records of changed expressions; if the topics of one changed, the group epoch rises."""
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
                    timestamp=context.system_time,
                )
            )
    if is_rising:
        names = set(group.subscriptions.readers)
        for regex in group.subscriptions.regex_users:
            names.update(meanings.get(regex, group.subscriptions.by_regex(regex)))
        metadata_hash = context.topics.hash_of(frozenset(names))
        records.append(group.at_epoch(group.epoch + 1, metadata_hash))
    return records
