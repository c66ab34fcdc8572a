"""All groups of a shard: of which kind they are, and the list of them.

One group id has one kind. A group that only ever committed is known by the offset table alone; clients see it
as a classic group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from headgate.core.commands import ListedGroup, ListedGroups, ListGroups, ListMoreGroups
from headgate.core.image import record_parts
from headgate.core.kinds import GroupKind
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import GroupTombstone, Record

LISTED_AT_ONCE = 200
"""Groups: to look at one takes some microseconds."""


class UnknownKind(Exception):
    """A record that nothing would remember: a mistake of whoever wrote it."""


class OnlyCommitted:
    """What holds for groups that have offsets and no record: the same for each of them."""

    NAME = "classic"

    def listed(self, group_id: GroupId) -> ListedGroup:
        """A group's line in a list of groups."""
        return ListedGroup(group_id, "", "Empty", self.NAME)

    def is_empty(self, group_id: GroupId) -> bool:
        """It has no members."""
        return True

    def tombstones(self, group_id: GroupId) -> Sequence[Record]:
        """A record that has the offset table forget the group."""
        return (GroupTombstone(group_id),)

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Everybody may delete offsets."""
        return ErrorCode.NONE

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Nobody reads any topic."""
        return lambda topic: False

    def clock_of(self, group_id: GroupId) -> GroupClock:
        """Each offset ages since its commit."""
        return GroupClock(Aging.SINCE_COMMIT)


ONLY_COMMITTED = OnlyCommitted()


class GroupListing(NamedTuple):
    """What is left of a list of groups."""

    groups: Groups
    left: Iterator[ListedGroup]
    states: set[str]
    types: set[str]


class Groups:
    """A view over all groups of a shard."""

    __slots__ = ("_by_record", "_offsets", "being_deleted", "kinds")

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets
        self.kinds: Sequence[GroupKind] = ()
        self._by_record: dict[type[Any], GroupKind] = {}
        self.being_deleted: Collection[GroupId] = ()
        """Groups that are gone, but not all of their offsets: their ids are not free."""

    def consist_of(self, kinds: Sequence[GroupKind]) -> None:
        """Hold groups of these kinds. They come after the view, as they may look at it."""
        self.kinds = kinds
        self._by_record = {record: kind for kind in kinds for record in kind.RECORD_TYPES}

    # --- one group ---

    def find(self, group_id: GroupId) -> GroupKind | OnlyCommitted | None:
        """What knows the group; None if there is no such group."""
        for kind in self.kinds:
            if kind.holds(group_id):
                return kind
        return ONLY_COMMITTED if self._offsets.has_group(group_id) else None

    def type_of(self, group_id: GroupId) -> str | None:
        """The name of the group's type; None if there is no such group."""
        kind = self.find(group_id)
        return None if kind is None else kind.NAME

    # --- records ---

    def kind_of_record(self, record: Any) -> GroupKind:
        """The kind of groups that a record is of. Raises UnknownKind if no kind takes such records."""
        kind = self._by_record.get(type(record))
        if kind is None:
            raise UnknownKind(f"no type of groups is made of {type(record).__name__}")
        return kind

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """The groups of all kinds in parts of an image."""
        return record_parts(self.kinds)

    # --- all groups ---

    def _all(self) -> Iterator[ListedGroup]:
        """All groups; they may change between two of them, and those that come meanwhile are not told."""
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
        with_offsets = 0
        for kind in self.kinds:
            for group_id in kind.group_ids():
                if (group := kind.listed(group_id)) is not None:
                    counts[group.state] += 1
                    with_offsets += self._offsets.has_group(group_id)
                yield
        counts["Empty"] += max(0, self._offsets.group_count - with_offsets)
        return counts
