"""What the members of a consumer group read: topics by their names, or all that a regular expression means.

It follows from the members' records. Large groups subscribe alike, so members that name the same topics share
one `TopicNames`, and what is asked of the whole group is asked of these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.domain.ids import TopicName
from headgate.records import ConsumerGroupMemberMetadata, ConsumerGroupRegularExpression

KeyT = TypeVar("KeyT", bound=str)

_STEPS_OF_A_SEARCH = 20
"""A name is found among a hundred thousand in as many comparisons."""


@dataclass(slots=True)
class TopicNames:
    """Topics that one or more members name."""

    names: tuple[TopicName, ...]
    """Ascending, as it stands in the members' records."""
    topics: frozenset[TopicName]
    members: int = 0


class Subscriptions:
    """The subscriptions of all members."""

    __slots__ = ("_by_names", "_regexes", "readers", "regex_users")

    def __init__(self, regexes: Mapping[str, ConsumerGroupRegularExpression]) -> None:
        """`regexes` are the expressions that were matched, and the topics they mean."""
        self._regexes = regexes
        self._by_names: dict[tuple[TopicName, ...], TopicNames] = {}
        self.readers: Counter[TopicName] = Counter()
        """The topics that members name; how many of the different subscriptions do."""
        self.regex_users: Counter[str] = Counter()
        """How many members subscribe by a regular expression."""

    # --- members ---

    def add(self, member: ConsumerGroupMemberMetadata) -> ConsumerGroupMemberMetadata:
        """Take a member in: the same, with the names it shares with others."""
        names = member.subscribed_topic_names
        known = self._by_names.get(names)
        if known is None:
            known = self._by_names[names] = TopicNames(names, frozenset(names))
            self.readers.update(names)
        known.members += 1
        if member.subscribed_topic_regex:
            self.regex_users[member.subscribed_topic_regex] += 1
        return member if known.names is names else replace(member, subscribed_topic_names=known.names)

    def remove(self, member: ConsumerGroupMemberMetadata) -> None:
        """A member that was taken in is gone."""
        names = member.subscribed_topic_names
        known = self._by_names[names]
        known.members -= 1
        if not known.members:
            del self._by_names[names]
            for name in names:
                count_down(self.readers, name)
        if member.subscribed_topic_regex:
            count_down(self.regex_users, member.subscribed_topic_regex)

    # --- topics ---

    def by_regex(self, regex: str | None) -> tuple[TopicName, ...]:
        """The topics that a regular expression means, ascending: none as long as that is not known."""
        resolved = self._regexes.get(regex) if regex else None
        return () if resolved is None else resolved.topics

    def of(self, member: ConsumerGroupMemberMetadata) -> frozenset[TopicName]:
        """The topics that somebody reads who is a member, or would be."""
        names = member.subscribed_topic_names
        known = self._by_names.get(names)
        named = frozenset(names) if known is None else known.topics
        regex = member.subscribed_topic_regex
        return named.union(self.by_regex(regex)) if regex else named

    def topics(self) -> frozenset[TopicName]:
        """The topics that members read."""
        return self.topics_after(())

    def topics_after(
        self,
        gone: Iterable[ConsumerGroupMemberMetadata],
        new: ConsumerGroupMemberMetadata | None = None,
    ) -> frozenset[TopicName]:
        """The topics that members will read when some have gone and one is there instead."""
        members: Counter[tuple[TopicName, ...]] = Counter()
        regexes = Counter(self.regex_users)
        for member in gone:
            members[member.subscribed_topic_names] += 1
            regexes[member.subscribed_topic_regex or ""] -= 1
        if new is not None:
            regexes[new.subscribed_topic_regex or ""] += 1
        topics = self._named_without(members)
        more = [self.by_regex(regex) for regex, count in regexes.items() if regex and count > 0]
        return topics.union(() if new is None else new.subscribed_topic_names, *more)

    def _named_without(self, gone: Mapping[tuple[TopicName, ...], int]) -> frozenset[TopicName]:
        """The topics that are named when so many members with these subscriptions have gone."""
        ended = [names for names, count in gone.items() if count >= self._by_names[names].members]
        if len(self._by_names) - len(ended) == 1:
            (left,) = self._by_names.keys() - ended
            return self._by_names[left].topics
        counts = Counter(self.readers)
        for names in ended:
            counts.subtract(names)
        return frozenset(name for name, count in counts.items() if count > 0)

    def is_meant_by(self, regex: str, topic: TopicName) -> bool:
        """Whether a regular expression means a topic, as far as that is known."""
        topics = self.by_regex(regex)
        at = bisect_left(topics, topic)
        return at < len(topics) and topics[at] == topic

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Whether a member reads a topic."""
        return topic in self.readers or any(self.is_meant_by(regex, topic) for regex in self.regex_users)

    def reads_any_of(self, topics: Set[TopicName]) -> bool:
        """Whether a member reads one of these topics; as quick as the fewer of both are."""
        return not self.readers.keys().isdisjoint(topics) or any(
            self._means_any_of(regex, topics) for regex in self.regex_users
        )

    def _means_any_of(self, regex: str, topics: Set[TopicName]) -> bool:
        meant = self.by_regex(regex)
        if len(topics) * _STEPS_OF_A_SEARCH < len(meant):
            return any(self.is_meant_by(regex, topic) for topic in topics)
        return not topics.isdisjoint(meant)

    @property
    def is_known(self) -> bool:
        """Whether every regular expression has been matched."""
        return all(regex in self._regexes for regex in self.regex_users)


def count_down(counter: Counter[KeyT], key: KeyT) -> None:
    """One less; what there is none of is forgotten."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
