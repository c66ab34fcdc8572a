"""Kinds of groups: the interface of a shard to groups, whatever protocol their members use.

A kind has two parts. Its groups (`GroupKind`) have what all groups have: records, an entry in a list, rules
for their offsets. Its commands (`GroupCommands`) are the requests of its own protocol, with descriptions, and
its own deadlines.

A group id has one kind. A group that only commits has none: only the table of offsets knows it
(`headgate.core.groups.OnlyCommitted`).
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
from headgate.core.events import Events
from headgate.core.offsets.commands import CommitOffsets, FetchOffsets
from headgate.core.offsets.expiry import GroupClock
from headgate.core.pause.contract import Pausing
from headgate.core.pause.paused import PausedGroups
from headgate.core.system_time import SystemTime
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicImage, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import Record

Handler = Callable[[Any, Millis, Token], GroupEffects]

CommitCheck = tuple[Mapping[GroupId, Any], Callable[[Any, CommitOffsets, Millis], ErrorCode | None]]
"""Groups, and the function that returns the error of a commit to one of them (NONE if there is none; None if
only remains of a group exist).

The mapping is live and has at least all groups with members: commits of all groups look there.
"""
FetchCheck = tuple[Mapping[GroupId, Any], Callable[[Any, FetchOffsets], ErrorCode]]
"""The same for fetches of offsets."""


@dataclass(slots=True, frozen=True)
class ShardContext:
    """State that a shard shares with its kinds of groups."""

    settings: Settings
    deadlines: Deadlines[Timer]
    system_time: SystemTime
    topics: TopicImage
    paused: PausedGroups
    events: Events


class GroupKind(Protocol):
    """The groups of one kind in one shard.

    Group ids passed to methods are those of groups of this kind, unless the method says otherwise.
    """

    NAME: ClassVar[str]
    """The group type in the protocol, in small letters, as Kafka's brokers send it."""
    RECORD_TYPES: ClassVar[frozenset[type[Any]]]
    """The types of the records of these groups."""

    # --- records ---

    def apply(self, record: Any) -> bool:
        """Apply a record of one of these types to the durable state; return whether the group was removed."""
        ...

    def current_record(self, record: Any) -> Record | None:
        """Return the current record with the key of `record`; None if there is none."""
        ...

    def records_of(self, group_id: GroupId) -> Iterable[Record]:
        """Return the records that restore a group, of any kind; none for a group without records."""
        ...

    def loaded(self, now: Millis) -> None:
        """Set volatile state to its defaults and set the deadlines, after the whole log was applied."""
        ...

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        """Handle a change of the topics in the context."""
        ...

    # --- groups ---

    def group_ids(self) -> Sequence[GroupId]:
        """Return every group, and every id with remaining records."""
        ...

    def holds(self, group_id: GroupId) -> bool:
        """Return whether the group with this id, of any kind, is of this kind."""
        ...

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        """Return a group's entry in a list of groups; None if it is not of this kind."""
        ...

    def member_count(self, group_id: GroupId) -> int:
        """Return the number of a group's members; 0 if it is not of this kind."""
        ...

    def is_empty(self, group_id: GroupId) -> bool:
        """Return whether a group is of this kind and has no members: it may be deleted, and may expire."""
        ...

    def tombstones(self, group_id: GroupId) -> Sequence[Record]:
        """Return the records that remove the group, without its offsets."""
        ...

    # --- offsets ---

    def commit_check(self) -> CommitCheck:
        """Return the check of commits; called once, when the shard is created.

        The check may restart the session timer of a member whose commit is accepted.
        """
        ...

    def fetch_check(self) -> FetchCheck | None:
        """Return the check of offset fetches; called once. None means that no fetch is refused."""
        ...

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        """Return the error of any deletion of offsets; without one, those of subscribed topics are still
        kept.
        """
        ...

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        """Return the function that tells whether members of a group subscribe to a topic."""
        ...

    def clock_of(self, group_id: GroupId) -> GroupClock | None:
        """Return since when a group's offsets age; None if nothing of the group may be removed now."""
        ...


class GroupCommands(Protocol):
    """The commands and deadlines of one kind of groups."""

    TIMERS: ClassVar[Mapping[IntEnum, bool]]
    """The deadlines, each with whether its handler reads durable state."""

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        ...

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """Handle a deadline that is due."""
        ...

    def pausing(self) -> Pausing | None:
        """Return what pauses partitions of these groups, asked for once; None: they cannot be paused."""
        ...
