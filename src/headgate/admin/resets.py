"""The plans of resets of many groups: few requests for all, and an error for each group that is refused."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from headgate.admin.errors import GroupIsActive, IsShareGroup, NothingToReset
from headgate.admin.pausing import released_among
from headgate.admin.reset import PlannedOffset, Target, ToOffsets, plan
from headgate.admin.survey import Surveyor
from headgate.client import groups
from headgate.client.errors import ClientError
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import GroupId, Millis, TopicPartition

PlansOfGroups = dict[str, list[PlannedOffset] | ClientError]
"""The plan of each group, or why there is none: as `Admin.plan_reset`, or an error of a node."""


class _NotAsked(Exception):
    """The offsets at a timestamp are not known yet."""

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp


class _OffsetsAt:
    """Offsets by timestamp. What a plan lacks is noted, and then asked for together with what others lack."""

    def __init__(self, surveyor: Surveyor) -> None:
        self._surveyor = surveyor
        self._known: dict[int, dict[TopicPartition, int | ClientError]] = {}
        self._lacking: dict[int, set[TopicPartition]] = {}

    def of(self, partitions: Sequence[TopicPartition], timestamp: int) -> Mapping[TopicPartition, int]:
        """Return the offset at a timestamp in each partition.

        Raises `_NotAsked`, and the error of a partition.
        """
        known = self._known.setdefault(timestamp, {})
        if missing := [where for where in partitions if where not in known]:
            self._lacking.setdefault(timestamp, set()).update(missing)
            raise _NotAsked(timestamp)
        found: dict[TopicPartition, int] = {}
        for where in partitions:
            offset = known[where]
            if isinstance(offset, ClientError):
                raise offset
            found[where] = offset
        return found

    def ask(self) -> None:
        """Ask for everything that is lacking."""
        for timestamp, partitions in self._lacking.items():
            self._known[timestamp].update(self._surveyor.offsets_at(partitions, timestamp))
        self._lacking.clear()


def plan_resets(
    surveyor: Surveyor, targets: Mapping[GroupId, Target], partitions: Iterable[TopicPartition] | None
) -> PlansOfGroups:
    """Plan the reset of each group, without changes; see `Admin.plan_resets`."""
    named = None if partitions is None else list(dict.fromkeys(partitions))
    committed = surveyor.committed(targets)
    wanted = {
        group_id: _wanted(target, named, committed.get(group_id, {})) for group_id, target in targets.items()
    }
    plans: PlansOfGroups = {}
    plans.update(refused_among(surveyor, wanted).items())
    plans |= {group_id: error for group_id, error in surveyor.failed.items() if group_id in targets}
    for group_id, some in wanted.items():
        if not some and group_id not in plans:
            plans[group_id] = NothingToReset(f"no partitions of group {group_id} to reset")
    offsets_at, now = _OffsetsAt(surveyor), Millis(time.time_ns() // 1_000_000)
    left = [group_id for group_id in targets if group_id not in plans]
    while left:
        waiting = []
        for group_id in left:
            some, there = wanted[group_id], committed.get(group_id, {})
            try:
                plans[group_id] = plan(targets[group_id], some, there, partial(offsets_at.of, some), now)
            except _NotAsked:
                waiting.append(group_id)
            except ClientError as error:
                plans[group_id] = error
        offsets_at.ask()
        left = waiting
    return {group_id: plans[group_id] for group_id in targets}


def _wanted(
    target: Target, named: list[TopicPartition] | None, committed: Mapping[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    if named is not None:
        return named
    return list(target.offsets) if isinstance(target, ToOffsets) else list(committed)


def refused_among(
    surveyor: Surveyor, wanted: Mapping[GroupId, Sequence[TopicPartition]]
) -> dict[GroupId, GroupIsActive | IsShareGroup]:
    """Return the refusals of share groups, and of groups with members, unless the partitions are all paused
    and released.
    """
    described = surveyor.descriptions(wanted)
    shares = surveyor.share_groups([group_id for group_id, one in described.items() if one is None])
    refused = {
        group_id: GroupIsActive(one)
        for group_id, one in described.items()
        if one is not None and one.is_active
    }
    paused = surveyor.paused(
        group_id for group_id, error in refused.items() if error.group.group_type == groups.CONSUMER
    )
    for group_id, of_group in paused.items():
        unpaused, unreleased = released_among(of_group, wanted[group_id])
        if not unpaused and not unreleased and wanted[group_id]:
            del refused[group_id]
        elif surveyor.can_pause(group_id):
            refused[group_id] = GroupIsActive(refused[group_id].group, unpaused, unreleased)
    return {**refused, **{group_id: IsShareGroup(group_id) for group_id in shares}}
