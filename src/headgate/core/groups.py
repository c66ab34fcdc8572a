"""Which groups a shard holds, of which type, and in which state.

One group id has one type. A group that only ever committed is a classic group without a record: the offset
table knows of it. Another type of group comes in here, as one more place to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import NamedTuple

from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.groups import ClassicGroups
from headgate.core.classic.state import ClassicState
from headgate.core.commands import ListedGroup, ListedGroups, ListGroups, ListMoreGroups
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId

LISTED_AT_ONCE = 200
"""Groups: to look at one takes some microseconds."""


class GroupType(Enum):
    """The type of a group, with the name clients see: in small letters, as Kafka's brokers send it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupListing(NamedTuple):
    """What is left of a list of groups."""

    groups: Groups
    left: Iterator[ListedGroup]
    states: set[str]
    types: set[str]


class Groups:
    """A view over all groups of a shard."""

    __slots__ = ("_offsets", "classic", "consumer")

    def __init__(self, classic: ClassicGroups, consumer: ConsumerGroups, offsets: OffsetTable) -> None:
        self.classic = classic
        self.consumer = consumer
        self._offsets = offsets

    def type_of(self, group_id: GroupId) -> GroupType | None:
        """The group's type; None when there is no such group."""
        if self.consumer.find(group_id) is not None:
            return GroupType.CONSUMER
        return GroupType.CLASSIC if self.is_classic(group_id) or self._offsets.has_group(group_id) else None

    def is_classic(self, group_id: GroupId) -> bool:
        """Whether a record makes it a classic group, or a client that is about to join."""
        return group_id in self.classic.recorded or group_id in self.classic.live

    def with_classic_members(self, group_id: GroupId) -> ClassicGroup | None:
        """The classic group of that id that is not empty, if there is one."""
        group = self.classic.live.get(group_id)
        return None if group is None or group.state is ClassicState.EMPTY else group

    def _all(self) -> Iterator[ListedGroup]:
        """All groups; they may change between two of them, and those that come meanwhile are not told."""
        type_name = GroupType.CLASSIC.value
        live, recorded, consumer = self.classic.live, self.classic.recorded, self.consumer.by_id
        live_ids, recorded_ids, with_offsets = [*live], [*recorded], self._offsets.group_ids()
        seen = set()
        for group_id in [*consumer]:
            consumer_group = consumer.get(group_id)
            if consumer_group is not None and consumer_group.metadata is not None:
                seen.add(group_id)
                state = consumer_group.state.value
                yield ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, state, GroupType.CONSUMER.value)
        for group_id in live_ids:
            group = live.get(group_id)
            if group is not None and group_id not in seen:
                seen.add(group_id)
                yield ListedGroup(group_id, group.protocol_type or "", group.state.value, type_name)
        for group_id in recorded_ids:
            metadata = recorded.get(group_id)
            if metadata is not None and group_id not in seen:
                seen.add(group_id)
                yield ListedGroup(group_id, metadata.protocol_type, ClassicState.EMPTY.value, type_name)
        for group_id in with_offsets:
            if group_id not in seen:
                yield ListedGroup(group_id, "", ClassicState.EMPTY.value, type_name)

    def list(self, command: ListGroups) -> ListedGroups | ErrorCode:
        """Some of the groups that pass the filters; one that names nothing known lets nothing pass."""
        states = {state.strip().lower() for state in command.states}
        types = {group_type.strip().lower() for group_type in command.types}
        return self._listed(GroupListing(self, self._all(), states, types))

    def list_more(self, command: ListMoreGroups) -> ListedGroups | ErrorCode:
        """Go on with a list, unless it was begun before these groups were loaded."""
        listing = command.rest
        if not isinstance(listing, GroupListing) or listing.groups is not self:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._listed(listing)

    def _listed(self, listing: GroupListing) -> ListedGroups:
        _, left, states, types = listing
        some = [*islice(left, LISTED_AT_ONCE)]
        found = tuple(
            group
            for group in some
            if (not states or group.state.lower() in states)
            and (not types or group.group_type.lower() in types)
        )
        return ListedGroups(found, listing if len(some) == LISTED_AT_ONCE else None)

    def count_by_state(self) -> Mapping[str, int]:
        """How many groups are in which state."""
        steps = self.counting()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                counts: Counter[str] = stop.value
                return counts

    def counting(self) -> Generator[None, None, Counter[str]]:
        """Count the groups by state in small steps. Groups that come or go meanwhile may count or not."""
        counts: Counter[str] = Counter()
        live, recorded, consumer = self.classic.live, self.classic.recorded, self.consumer.by_id
        with_offsets = 0
        for group_id in list(live):
            classic = live.get(group_id)
            if classic is not None:
                counts[classic.state.value] += 1
                with_offsets += self._offsets.has_group(group_id)
            yield
        for group_id in list(recorded):
            if group_id not in live:
                counts[ClassicState.EMPTY.value] += 1
                with_offsets += self._offsets.has_group(group_id)
            yield
        for group_id in list(consumer):
            group = consumer.get(group_id)
            if group is not None and group.metadata is not None:
                counts[group.state.value] += 1
                if group_id not in live and group_id not in recorded:
                    with_offsets += self._offsets.has_group(group_id)
            yield
        counts[ClassicState.EMPTY.value] += max(0, self._offsets.group_count - with_offsets)
        return counts
