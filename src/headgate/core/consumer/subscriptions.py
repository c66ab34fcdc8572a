"""The topics that the members of a consumer group subscribe to, by name or by regular expression.

They follow from the members' records. In large groups most subscriptions are equal, so members that name the
same topics share one `TopicNames`, and the topics of the group are computed from these.
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
"""Cost of a search for a name among a hundred thousand."""


@dataclass(slots=True)
class TopicNames:
    """Topics that one or more members name."""

    names: tuple[TopicName, ...]
    """Ascending, as in the members' records."""
    topics: frozenset[TopicName]
    members: int = 0


class Subscriptions:
    """The subscriptions of all members."""

    __slots__ = ("_by_names", "_regexes", "readers", "regex_users")

    def __init__(self, regexes: Mapping[str, ConsumerGroupRegularExpression]) -> None:
        """`regexes` has the resolved expressions with their topics."""
        self._regexes = regexes
        self._by_names: dict[tuple[TopicName, ...], TopicNames] = {}
        self.readers: Counter[TopicName] = Counter()
        """The topics that members name, with the number of different subscriptions with each."""
        self.regex_users: Counter[str] = Counter()
        """Number of members that subscribe to a regular expression."""

    # --- members ---

    def add(self, member: ConsumerGroupMemberMetadata) -> ConsumerGroupMemberMetadata:
        """Add a member; return it with the names it shares with others."""
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
        """Remove a member that was added."""
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
        """Return the topics that a regular expression matches, ascending; none if it is not resolved yet."""
        resolved = self._regexes.get(regex) if regex else None
        return () if resolved is None else resolved.topics

    def of(self, member: ConsumerGroupMemberMetadata) -> frozenset[TopicName]:
        """Return the topics that a member subscribes to, who need not be added yet."""
        names = member.subscribed_topic_names
        known = self._by_names.get(names)
        named = frozenset(names) if known is None else known.topics
        regex = member.subscribed_topic_regex
        return named.union(self.by_regex(regex)) if regex else named

    def topics(self) -> frozenset[TopicName]:
        """Return the topics that members subscribe to."""
        return self.topics_after(())

    def topics_after(
        self,
        gone: Iterable[ConsumerGroupMemberMetadata],
        new: ConsumerGroupMemberMetadata | None = None,
    ) -> frozenset[TopicName]:
        """Return the topics that members subscribe to after some are removed and one is added."""
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
        """Return the topics named after so many members with these subscriptions are removed."""
        ended = [names for names, count in gone.items() if count >= self._by_names[names].members]
        if len(self._by_names) - len(ended) == 1:
            (left,) = self._by_names.keys() - ended
            return self._by_names[left].topics
        counts = Counter(self.readers)
        for names in ended:
            counts.subtract(names)
        return frozenset(name for name, count in counts.items() if count > 0)

    def is_meant_by(self, regex: str, topic: TopicName) -> bool:
        """Return whether a regular expression matches a topic; False if it is not resolved yet."""
        topics = self.by_regex(regex)
        at = bisect_left(topics, topic)
        return at < len(topics) and topics[at] == topic

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Return whether a member subscribes to a topic."""
        return topic in self.readers or any(self.is_meant_by(regex, topic) for regex in self.regex_users)

    def reads_any_of(self, topics: Set[TopicName]) -> bool:
        """Return whether a member subscribes to one of these topics; takes as long as the smaller set."""
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
        """Whether every regular expression was resolved."""
        return all(regex in self._regexes for regex in self.regex_users)


def count_down(counter: Counter[KeyT], key: KeyT) -> None:
    """Decrement a count; remove it at 0."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
