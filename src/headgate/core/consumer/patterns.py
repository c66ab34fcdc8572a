"""Subscriptions by regular expression: which topics they mean, and when to look again.

Heartbeats match nothing: a new expression means no topic until the group's ticks (`TimerKind.PATTERNS`) have
matched it against all there are. The result is a record. When topics come or go, those alone are matched.

There may be a hundred thousand topics, and many groups: a tick matches a slice and leaves the rest to the
next one, so that everybody else has his turn in between, other groups' expressions too. How far a group has
come is volatile: after a load everything is looked at again.
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
from headgate.records import ConsumerGroupMetadata, ConsumerGroupRegularExpression, ConsumerRecord

MATCHES_AT_ONCE = 2_000
"""Some milliseconds: so many names are held against an expression in one tick."""

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

    __slots__ = ("_changed", "_running")

    def __init__(self) -> None:
        self._changed: dict[GroupId, list[Sequence[TopicChange]]] = {}
        """Changes of topics that a group's expressions were not held against yet."""
        self._running: dict[GroupId, Iterator[Meanings | None]] = {}

    def loaded(self, groups: Iterable[ConsumerGroup]) -> None:
        """Everything is to be looked at again, once it is known which topics there are."""
        self._changed = {group.group_id: [] for group in groups if group.subscriptions.regex_users}
        self._running.clear()

    def forget(self, group_id: GroupId) -> None:
        """The group is gone."""
        self._changed.pop(group_id, None)
        self._running.pop(group_id, None)

    def topics_changed(self, group: ConsumerGroup, changes: Sequence[TopicChange]) -> bool:
        """Topics that the group may read are others; whether its ticks have something to do.

        Few changes are matched on the spot: mostly they are of topics that the group does not mean.
        """
        group_id = group.group_id
        is_under_way = (
            group_id in self._running or group_id in self._changed or not group.subscriptions.is_known
        )
        is_wide = len(changes) * len(group.subscriptions.regex_users) > _MATCHES_ON_THE_SPOT
        if not (is_under_way or is_wide or _is_outdated(group, changes)):
            return False
        self._changed.setdefault(group_id, []).append(changes)
        return True

    def match(self, turn: ConsumerTurn, group: ConsumerGroup) -> list[ConsumerRecord]:
        """A slice of what is to be matched for a group; the records come with the last one.

        Sets the group's timer as long as there is more to do.
        """
        group_id = group.group_id
        running = self._running.get(group_id)
        if running is None:
            changes = self._changed.pop(group_id, [])
            running = self._running[group_id] = _matching(group, turn.topics, changes)
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


def _is_outdated(group: ConsumerGroup, changes: Sequence[TopicChange]) -> bool:
    """Whether an expression of the group means other topics after these changes."""
    known = [
        (_compiled(regex), frozenset(group.subscriptions.by_regex(regex)))
        for regex in group.subscriptions.regex_users
    ]
    return any(
        (change.topic is not None and _matches(pattern, change.name)) != (change.name in topics)
        for change in changes
        for pattern, topics in known
    )


def _matches(pattern: TopicPattern | InvalidPattern, name: TopicName) -> bool:
    """An expression that is none was written by a coordinator that reads it otherwise: it means nothing."""
    return not isinstance(pattern, InvalidPattern) and pattern.matches(name)


def _matching(
    group: ConsumerGroup, topics: TopicImage, changes: list[Sequence[TopicChange]]
) -> Iterator[Meanings | None]:
    """What the group's expressions mean, at last; before that, None at the end of each slice.

    An expression that is known is held against the changes, a new one against all topics. Topics may change
    meanwhile: those are for the next time, but what is gone is left out.
    """
    meanings: dict[str, set[TopicName]] = {}
    room = MATCHES_AT_ONCE
    for regex in tuple(group.subscriptions.regex_users):
        is_known = regex in group.regexes
        found = meanings[regex] = set(group.subscriptions.by_regex(regex))
        pattern = _compiled(regex)
        changed = (change.name for change in chain.from_iterable(changes))
        for name in changed if is_known else list(topics.names()):
            if room == 0:
                yield None
                room = MATCHES_AT_ONCE
            room -= 1
            if _matches(pattern, name):
                found.add(name)
    yield {
        regex: tuple(sorted(name for name in found if topics.find(name) is not None))
        for regex, found in meanings.items()
    }


def _records(turn: ConsumerTurn, group: ConsumerGroup, meanings: Meanings) -> list[ConsumerRecord]:
    """What is new of the meanings; where an expression means other topics now, the group's epoch rises."""
    records: list[ConsumerRecord] = []
    is_rising = False
    names = set(group.subscriptions.readers)
    for regex in group.subscriptions.regex_users:
        before = group.subscriptions.by_regex(regex)
        topics = meanings.get(regex, before)
        names.update(topics)
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
        metadata_hash = turn.topics.hash_of(frozenset(names))
        records.append(
            ConsumerGroupMetadata(group_id=group.group_id, epoch=group.epoch + 1, metadata_hash=metadata_hash)
        )
    return records
