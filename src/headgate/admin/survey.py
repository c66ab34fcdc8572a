"""Many groups at once: descriptions, positions and expiry, with few requests to each coordinator.

What a coordinator or a leader does not answer is told for its own groups and partitions, and the rest is
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headgate.admin.positions import Position, positions_of, readers_of
from headgate.client import expiry, groups, offsets, pauses, share_groups
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError, RequestRefused, VersionNotSupported
from headgate.client.expiry import GroupExpiry
from headgate.client.groups import GroupDescription, GroupListing
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition
from headgate.client.survey import Answers, Survey
from headgate.client.uncoordinated import without_coordinator
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, TopicPartition

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedGroup:
    """A group with its positions."""

    description: GroupDescription | None
    """None: the group does not exist."""
    positions: tuple[Position, ...]
    expiry: GroupExpiry | None
    """When its offsets expire; None: it has members, or the cluster does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSurvey:
    """What is known about many groups."""

    groups: Mapping[str, SurveyedGroup]
    failed: Mapping[str, ClientError]
    """Groups whose coordinator did not answer, and why."""
    unknown_ends: Mapping[TopicPartition, ClientError]
    """Partitions whose leader did not answer, and why: their end and lag are unknown."""
    unlisted: tuple[ClientError, ...]
    """Why groups may be missing although all were asked for: nodes that did not answer."""


class Surveyor:
    """Collects what is known about many groups, step by step. A later step leaves out what failed before."""

    def __init__(self, cluster: Cluster) -> None:
        self._survey = Survey(cluster)
        self._types: dict[GroupId, str] = {}
        self.failed: dict[GroupId, ClientError] = {}
        self.unknown_ends: dict[TopicPartition, ClientError] = {}
        self.unlisted: tuple[ClientError, ...] = ()

    def listings(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of consumers and those that only store offsets, sorted by id."""
        return [one for one in self.all_listings(states, types) if one.protocol_type in ("consumer", "")]

    def all_listings(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of every kind, sorted by id; `unlisted` has why some may be missing.

        Raises `VersionNotSupported` if a node cannot filter by states or types.
        """
        listings, failed = groups.list_on_nodes(self._survey, states, types)
        for error in failed.values():
            if isinstance(error, VersionNotSupported):
                raise error
        self._types = {one.group_id: one.group_type for one in listings}
        self.unlisted = (*failed.values(), *without_coordinator(self._survey.cluster, GROUP_OFFSETS_TOPIC))
        return listings

    def absent(self, group_ids: Iterable[GroupId]) -> list[GroupId]:
        """Return which of these groups do not exist. The coordinators are asked: a list lacks the groups that
        the user may not describe, and those without a coordinator.
        """
        described = self.descriptions(group_ids)
        undescribed = [group_id for group_id, one in described.items() if one is None]
        shares = self.share_groups(undescribed)
        return [one for one in undescribed if one not in shares and one not in self.failed]

    def descriptions(self, group_ids: Iterable[GroupId]) -> dict[GroupId, GroupDescription | None]:
        """Describe groups; None for one that does not exist."""
        return self._of_groups(
            group_ids, lambda ids: groups.describe_on_nodes(self._survey, ids, self._types)
        )

    def share_groups(self, group_ids: Iterable[GroupId]) -> set[GroupId]:
        """Return which of these groups are share groups."""
        found = self._of_groups(group_ids, lambda ids: share_groups.are_share_groups(self._survey, ids))
        return {group_id for group_id, is_share in found.items() if is_share}

    def committed(self, group_ids: Iterable[GroupId]) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        """Return the committed offsets of groups."""
        return self._of_groups(group_ids, lambda ids: offsets.fetch_all_offsets(self._survey, ids))

    def paused(self, group_ids: Iterable[GroupId]) -> dict[GroupId, dict[TopicPartition, PausedPartition]]:
        """Return the paused partitions of consumer groups."""
        return self._of_groups(group_ids, lambda ids: pauses.list_on_nodes(self._survey, ids))

    def can_pause(self, group_id: GroupId) -> bool:
        """Tell whether the coordinator of a group that was asked before can pause partitions."""
        return pauses.knows_pauses(self._survey.cluster, group_id)

    def expiries(self, group_ids: Iterable[GroupId]) -> dict[GroupId, GroupExpiry | None]:
        """Return when the offsets of groups expire."""
        return self._of_groups(group_ids, lambda ids: expiry.describe_on_nodes(self._survey, ids))

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of logs. Partitions that do not exist are omitted."""
        found: dict[TopicPartition, int] = {}
        for where, end in self._survey.end_offsets(partitions).items():
            if isinstance(end, ClientError):
                self.unknown_ends[where] = end
            else:
                found[where] = end
        return found

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int | ClientError]:
        """Return the offset in each partition for a timestamp, `EARLIEST` or `LATEST`; or its error."""
        return self._survey.offsets_at(partitions, timestamp)

    def _of_groups(
        self, group_ids: Iterable[GroupId], ask: Callable[[list[GroupId]], Answers[GroupId, AnswerT]]
    ) -> dict[GroupId, AnswerT]:
        found: dict[GroupId, AnswerT] = {}
        for group_id, answer in ask([one for one in group_ids if one not in self.failed]).items():
            if not isinstance(answer, ClientError):
                found[group_id] = answer
            elif not _is_gone(answer):  # a group can be removed between two questions
                self.failed[group_id] = answer
        return found


def _is_gone(error: ClientError) -> bool:
    return isinstance(error, RequestRefused) and error.error is ErrorCode.GROUP_ID_NOT_FOUND


def survey_groups(surveyor: Surveyor, group_ids: Iterable[GroupId], *, with_expiry: bool) -> GroupSurvey:
    """Describe groups with their positions, and with `with_expiry` when their offsets expire."""
    wanted = list(group_ids)
    described = surveyor.descriptions(wanted)
    committed = surveyor.committed(wanted)
    there = {group_id: one for group_id, one in described.items() if one is not None}
    paused = surveyor.paused(group_id for group_id, one in there.items() if one.group_type == groups.CONSUMER)
    expiries = (
        surveyor.expiries(group_id for group_id, one in there.items() if not one.members)
        if with_expiry
        else {}
    )
    readers = {group_id: readers_of(one) for group_id, one in described.items()}
    ends = surveyor.ends(
        {where for part in (committed, readers, paused) for of_group in part.values() for where in of_group}
    )
    return GroupSurvey(
        groups={
            group_id: SurveyedGroup(
                description=described.get(group_id),
                positions=tuple(
                    positions_of(
                        committed.get(group_id, {}), readers.get(group_id, {}), ends, paused.get(group_id, {})
                    )
                ),
                expiry=expiries.get(group_id),
            )
            for group_id in wanted
            if group_id not in surveyor.failed
        },
        failed={str(group_id): error for group_id, error in surveyor.failed.items()},
        unknown_ends=dict(surveyor.unknown_ends),
        unlisted=surveyor.unlisted,
    )
