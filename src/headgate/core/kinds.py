"""Kinds of groups: what a shard asks of them, whatever protocol their members speak.

A kind has two halves. Its groups (`GroupKind`) answer what concerns a group of any kind: its records, its
line in a list, what may happen to its offsets. Its commands (`GroupCommands`) are the requests of its own
protocol, descriptions among them, and the deadlines that only this kind has.

A group id has one kind. A group that only ever committed has none, for nothing but the table of offsets knows
it (`headgate.core.groups.OnlyCommitted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from headgate.core.commands import ListedGroup
from headgate.core.contract import Token
from headgate.core.deadlines import Deadlines
from headgate.core.effects import GroupEffects
from headgate.core.offsets.commands import CommitOffsets, FetchOffsets
from headgate.core.offsets.expiry import GroupClock
from headgate.core.system_time import SystemTime
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicImage, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import Record

Handler = Callable[[Any, Millis, Token], GroupEffects]

CommitCheck = tuple[Mapping[GroupId, Any], Callable[[Any, CommitOffsets, Millis], ErrorCode | None]]
"""Groups, and why one of them refuses a commit (NONE: it does not; None: it is only what is left of a group).

The groups are all that have members, perhaps more, as they are at any time: commits of all groups look there.
"""
FetchCheck = tuple[Mapping[GroupId, Any], Callable[[Any, FetchOffsets], ErrorCode]]
"""The same for fetches of offsets."""


@dataclass(slots=True, frozen=True)
class ShardContext:
    """What a shard shares with its kinds of groups."""

    settings: Settings
    deadlines: Deadlines[Timer]
    system_time: SystemTime
    topics: TopicImage


class GroupKind(Protocol):
    """The groups of one kind in one shard.

    Where a method takes a group id, the group is one of this kind, unless the method says otherwise.
    """

    NAME: ClassVar[str]
    """The type of these groups as clients see it: in small letters, as Kafka's brokers send it."""
    RECORD_TYPES: ClassVar[frozenset[type[Any]]]
    """The types of records that these groups are made of."""

    # --- records ---

    def apply(self, record: Any) -> bool:
        """Take a record of one of these types into durable state; whether it says that its group is gone."""
        ...

    def standing(self, record: Any) -> Record | None:
        """The current record under the key of another one; None if there is none."""
        ...

    def records_of(self, group_id: GroupId) -> Iterable[Record]:
        """The records that make a group what it is; none for a group without records, of any kind."""
        ...

    def loaded(self, now: Millis) -> None:
        """The log is applied to its end: set volatile state to its defaults, arm the deadlines."""
        ...

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """The topics of the context are others now."""
        ...

    # --- groups ---

    def group_ids(self) -> Sequence[GroupId]:
        """Every group, and every id under which there still are records."""
        ...

    def holds(self, group_id: GroupId) -> bool:
        """Whether a group is of this kind; of any id."""
        ...

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """A group's line in a list of groups; None if it is not of this kind."""
        ...

    def is_empty(self, group_id: GroupId) -> bool:
        """Whether a group is of this kind and has no members: it may be deleted, and may expire."""
        ...

    def tombstones(self, group_id: GroupId) -> Sequence[Record]:
        """The records that remove the group, without its offsets."""
        ...

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """What refuses commits; asked for once, when the shard is made.

        Of a commit that is not refused, the session of the member may begin anew.
        """
        ...

    def fetch_check(self) -> FetchCheck | None:
        """What refuses fetches of offsets, asked for once; None: nothing does."""
        ...

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Why offsets may not be deleted at all; where they may, those of subscribed topics still may not."""
        ...

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Whether members of a group read a topic."""
        ...

    def clock_of(self, group_id: GroupId) -> GroupClock | None:
        """From when a group's offsets age; None: now is no time to remove anything of the group."""
        ...


class GroupCommands(Protocol):
    """The commands and deadlines that belong to one kind of groups."""

    TIMERS: ClassVar[Mapping[IntEnum, bool]]
    """The deadlines, each with whether its handler reads what records say."""

    def handlers(self) -> Mapping[type[Any], Handler]:
        """What handles each command."""
        ...

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """One of the deadlines has come."""
        ...
