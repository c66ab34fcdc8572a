"""All groups of a shard: their kinds, and the list of groups.

One group id has one kind. A group that only commits is known by the offset table alone; clients see it as a
classic group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from headgate.core.commands import ListedGroup, ListedGroups, ListGroups, ListMoreGroups
from headgate.core.image import parts_of, record_parts
from headgate.core.kinds import GroupKind
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.offsets.table import OffsetTable
from headgate.core.pause.paused import PausedGroups
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import GroupTombstone, Record

LISTED_AT_ONCE = 200
"""Groups per reply: checking one takes some microseconds."""
_SETTLED = ("Empty", "Stable", "Dead")


class UnknownKind(Exception):
    """A record of no kind of groups: a bug of its writer."""


class OnlyCommitted:
    """The properties of groups with offsets and without records; they are the same for all of them."""

    NAME = "classic"

    def listed(self, group_id: GroupId) -> ListedGroup:
        """Return a group's entry in a list of groups."""
        return ListedGroup(group_id, "", "Empty", self.NAME)

    def is_empty(self, group_id: GroupId) -> bool:
        """Return True: it has no members."""
        return True

    def tombstones(self, group_id: GroupId) -> Sequence[Record]:
        """Return a record that removes the group's offsets from the table."""
        return (GroupTombstone(group_id),)

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Return NONE: its offsets may be deleted."""
        return ErrorCode.NONE

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Return a function that is False for every topic: there are no subscriptions."""
        return lambda topic: False

    def clock_of(self, group_id: GroupId) -> GroupClock:
        """Return the clock by which each offset ages since its commit."""
        return GroupClock(Aging.SINCE_COMMIT)


ONLY_COMMITTED = OnlyCommitted()


class GroupListing(NamedTuple):
    """The rest of a list of groups."""

    groups: Groups
    left: Iterator[ListedGroup]
    states: set[str]
    types: set[str]


class GroupCounts(NamedTuple):
    """The groups of a shard in numbers."""

    groups: Counter[str]
    """By state."""
    members: Counter[str]
    """By the state of their group."""
    rebalancing: Sequence[GroupId]
    """The groups that wait for members: to join, to sync, or to take over their assignment."""


class Groups:
    """A view of all groups of a shard."""

    __slots__ = ("_by_record", "_offsets", "_paused", "being_deleted", "kinds")

    def __init__(self, offsets: OffsetTable, paused: PausedGroups) -> None:
        self._offsets = offsets
        self._paused = paused
        self.kinds: Sequence[GroupKind] = ()
        self._by_record: dict[type[Any], GroupKind] = {}
        self.being_deleted: Collection[GroupId] = ()
        """Deleted groups with remaining offsets: their ids are not free."""

    def consist_of(self, kinds: Sequence[GroupKind]) -> None:
        """Set the kinds of groups. They are created after this view, which they may use."""
        self.kinds = kinds
        self._by_record = {record: kind for kind in kinds for record in kind.RECORD_TYPES}

    # --- one group ---

    def find(self, group_id: GroupId) -> GroupKind | OnlyCommitted | None:
        """Return the kind of the group; None if there is no such group."""
        for kind in self.kinds:
            if kind.holds(group_id):
                return kind
        return ONLY_COMMITTED if self._offsets.has_group(group_id) else None

    def type_of(self, group_id: GroupId) -> str | None:
        """Return the name of the group's type; None if there is no such group."""
        kind = self.find(group_id)
        return None if kind is None else kind.NAME

    # --- records ---

    def kind_of_record(self, record: Any) -> GroupKind:
        """Return the kind of groups that has such records. Raises UnknownKind."""
        kind = self._by_record.get(type(record))
        if kind is None:
            raise UnknownKind(f"no kind of groups has records of type {type(record).__name__}")
        return kind

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the groups of all kinds as parts of an image."""
        yield from record_parts(self.kinds)
        yield from parts_of(self._paused.records())

    def tombstones(self, group_id: GroupId, kind: GroupKind | OnlyCommitted) -> Sequence[Record]:
        """Return the records that remove a group of that kind, without its offsets."""
        return [*kind.tombstones(group_id), *self._paused.tombstones(group_id)]

    # --- all groups ---

    def ids(self) -> Iterator[GroupId]:
        """Yield the ids of all groups, some of them more than once; nothing may change meanwhile."""
        for kind in self.kinds:
            yield from kind.group_ids()
        yield from self._offsets.group_ids()

    def count(self) -> int:
        """Return the number of groups of all kinds, with or without offsets."""
        without = (
            sum(not self._offsets.has_group(one) and kind.listed(one) is not None for one in kind.group_ids())
            for kind in self.kinds
        )
        return self._offsets.group_count + sum(without)

    def _all(self) -> Iterator[ListedGroup]:
        """Yield all groups; they may change meanwhile, and those created meanwhile are not included."""
        ids_by_kind = [(kind, kind.group_ids()) for kind in self.kinds]
        with_offsets = self._offsets.group_ids()
        seen = set()
        for kind, group_ids in ids_by_kind:
            for group_id in group_ids:
                group = None if group_id in seen else kind.listed(group_id)
                if group is not None:
                    seen.add(group_id)
                    yield group
        for group_id in with_offsets:
            if group_id not in seen:
                yield ONLY_COMMITTED.listed(group_id)

    def list(self, command: ListGroups) -> ListedGroups | ErrorCode:
        """Return some of the groups that match the filters; a filter with unknown values only matches no
        group.
        """
        states = {state.strip().lower() for state in command.states}
        types = {group_type.strip().lower() for group_type in command.types}
        return self._listed(GroupListing(self, self._all(), states, types))

    def list_more(self, command: ListMoreGroups) -> ListedGroups | ErrorCode:
        """Continue a list, unless it was begun before these groups were loaded."""
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

    def counting(self) -> Generator[None, None, GroupCounts]:
        """Count the groups and their members by the group's state, in small steps. Groups created or deleted
        meanwhile may be counted or not.
        """
        counts: Counter[str] = Counter()
        members: Counter[str] = Counter()
        rebalancing: list[GroupId] = []
        with_offsets = 0
        for kind in self.kinds:
            for group_id in kind.group_ids():
                if (group := kind.listed(group_id)) is not None:
                    counts[group.state] += 1
                    members[group.state] += kind.member_count(group_id)
                    with_offsets += self._offsets.has_group(group_id)
                    if group.state not in _SETTLED:
                        rebalancing.append(group_id)
                yield
        counts["Empty"] += max(0, self._offsets.group_count - with_offsets)
        return GroupCounts(counts, members, rebalancing)
