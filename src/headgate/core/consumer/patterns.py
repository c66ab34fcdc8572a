"""Subscriptions by regular expression: which topics they mean, and when to look again.

Heartbeats match nothing: a new expression means no topic until its tick (`TimerKind.PATTERNS`) has matched it
against all there are. The result is a record. When topics come or go, those alone are matched, and only where
that makes a difference everything is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from headgate.core.consumer.commands import Refusal
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.turn import ConsumerTurn
from headgate.core.topic_image import TopicChange
from headgate.core.topic_pattern import InvalidPattern, TopicPattern, compile_pattern, matching
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.records import ConsumerGroupMetadata, ConsumerGroupRegularExpression, ConsumerRecord

_PATTERNS_KEPT = 1024

_compiled = lru_cache(_PATTERNS_KEPT)(compile_pattern)


def invalid_pattern(text: str) -> Refusal | None:
    """Why a member may not subscribe by this expression."""
    pattern = _compiled(text)
    if isinstance(pattern, TopicPattern):
        return None
    message = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {pattern.reason}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


def is_outdated(group: ConsumerGroup, changes: Iterable[TopicChange]) -> bool:
    """Whether an expression of the group means other topics after these changes, or was never matched."""
    if not group.subscriptions.regex_users:
        return False
    if not group.subscriptions.is_known:
        return True
    read = group.subscriptions
    known = [(_compiled(regex), frozenset(read.by_regex(regex))) for regex in read.regex_users]
    return any(
        (
            change.topic is not None
            and not isinstance(pattern, InvalidPattern)
            and pattern.matches(change.name)
        )
        != (change.name in topics)
        for change in changes
        for pattern, topics in known
    )


def match_topics(turn: ConsumerTurn, group: ConsumerGroup) -> list[ConsumerRecord]:
    """Match every expression of the group; if one means other topics now, the group's epoch rises."""
    records: list[ConsumerRecord] = []
    is_rising = False
    read = group.subscriptions
    names = set(read.readers)
    for regex in read.regex_users:
        topics = _match(turn, regex)
        names.update(topics)
        if regex not in group.regexes or topics != read.by_regex(regex):
            is_rising = is_rising or topics != read.by_regex(regex)
            records.append(
                ConsumerGroupRegularExpression(
                    group_id=group.group_id,
                    regular_expression=regex,
                    topics=topics,
                    version=0,
                    timestamp=turn.now,
                )
            )
    if is_rising:
        metadata_hash = turn.topics.hash_of(frozenset(names))
        records.append(
            ConsumerGroupMetadata(group_id=group.group_id, epoch=group.epoch + 1, metadata_hash=metadata_hash)
        )
    return records


def _match(turn: ConsumerTurn, regex: str) -> tuple[TopicName, ...]:
    pattern = _compiled(regex)
    if isinstance(pattern, InvalidPattern):  # written by a coordinator that reads it otherwise
        return ()
    return tuple(sorted(matching(turn.topics.names(), pattern)))
