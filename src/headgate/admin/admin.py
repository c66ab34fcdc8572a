"""`Admin`: all operations of the Admin API; those on consumer groups are here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Self

from headgate.admin.arguments import (
    among,
    bootstrap,
    past_millis,
    refuse_future,
    refuse_impossible,
    seconds,
    secured,
    text,
    wait_seconds,
)
from headgate.admin.checking import checked
from headgate.admin.configs import ConfigAdmin
from headgate.admin.errors import AlreadyUndone, GroupIsActive, IsShareGroup, NothingToReset
from headgate.admin.pausing import OnWaiting, released_among, wait_until_released
from headgate.admin.positions import Position, positions_of, readers_of
from headgate.admin.reset import PlannedOffset, Target, plan
from headgate.admin.resets import PlansOfGroups, plan_resets
from headgate.admin.restore import (
    ChosenPartitions,
    OffsetAsOf,
    PlannedRestore,
    PlannedUndo,
    as_of,
    from_log_starts,
    is_within,
    plan_restore,
    plan_undo,
    scope_of,
    topic_ids,
)
from headgate.admin.rewind import OnProgress, Rewind, RewoundPartition, Where, system_time
from headgate.admin.share_groups import ShareGroupAdmin
from headgate.admin.survey import GroupSurvey, Surveyor, survey_groups
from headgate.admin.topics import TopicAdmin
from headgate.admin.transactions import TransactionAdmin
from headgate.client import configs, expiry, groups, history, offsets, pauses
from headgate.client.cluster import EARLIEST, Cluster
from headgate.client.errors import ClientError, PartlyRefused, RequestRefused, VersionNotSupported
from headgate.client.expiry import GroupExpiry, GroupExpiryListing
from headgate.client.groups import GroupDescription, GroupListing
from headgate.client.history import OffsetHistory
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition
from headgate.client.security import NOT_SECURED, Security
from headgate.client.survey import Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName, TopicPartition
from headgate.domain.pauses import refuse_reason_of_rewind


@checked
class Admin(TopicAdmin, ConfigAdmin, ShareGroupAdmin, TransactionAdmin):
    """Administration of topics, settings, groups and transactions. Close it, or use it in a `with` block.

    `bootstrap_servers` are `host:port`, separated by commas. `timeout_s` limits each call. `security` has the
    properties of TLS and SASL, by the names of Kafka's clients. Methods raise the errors of `headgate.admin`.
    Not thread-safe.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        timeout_s: float = 10.0,
        client_id: str = "headgate-admin",
        *,
        security: Security | Mapping[str, str] = NOT_SECURED,
    ) -> None:
        """Raises `ValueError` for an invalid address or timeout, and `SecurityProblem`, which is one, for
        `security`; `TypeError` for an argument of another type, such as addresses that are not one string.
        """
        self.cluster = Cluster(
            bootstrap(bootstrap_servers),
            seconds("timeout_s", timeout_s),
            text("client_id", client_id),
            security=secured(security),
        )

    def close(self) -> None:
        """Close all connections. Later calls raise `RuntimeError`; closing twice is no error."""
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- groups ---

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of every type, sorted by id, or those with one of the states and of the types.

        States and types are Kafka's names (`Stable`, `Empty`, ...; `Classic`, `Consumer`, `Share`), in any
        case. Raises ValueError for others. Share groups are among them: they have no committed offsets, and
        `describe_share_groups` and `share_offsets` are for them.

        Groups that the user may not describe are omitted. Raises `GroupsMissing`, which has the rest, if some
        groups have no coordinator, and the error of a node that does not answer.
        """
        chosen = among("states", states, groups.STATES), among("types", types, groups.TYPES)
        return groups.list_groups(self.cluster, *chosen)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | None]:
        """Return the groups with their members and assignments.

        None for a group that does not exist, and for a share group: see `describe_share_groups`.
        """
        found = groups.describe_groups(self.cluster, map(GroupId, group_ids))
        return {str(group_id): group for group_id, group in found.items()}

    def describe_group(self, group_id: str) -> GroupDescription | None:
        """Return one group; None if it does not exist, or is a share group."""
        return self.describe_groups([group_id])[group_id]

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, with all their offsets.

        Raises `PartlyRefused` for groups that were not deleted: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        groups.delete_groups(self.cluster, map(GroupId, group_ids))

    # --- offsets ---

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets of a group, of some partitions or all. Others are omitted.

        A group that does not exist has none, without an error, and a share group has none: see
        `share_offsets`.
        """
        return offsets.fetch_offsets(self.cluster, GroupId(group_id), partitions)

    def positions(self, group_id: str) -> list[Position]:
        """Return the positions of all partitions with a committed offset or an assigned member.

        A share group has none: see `share_offsets`.
        """
        return self.positions_of(group_id, self.describe_group(group_id))

    def positions_of(self, group_id: str, group: GroupDescription | None) -> list[Position]:
        """Return the same for a group that is already described."""
        committed = self.committed_offsets(group_id)
        readers, paused = readers_of(group), self._pauses_of(group)
        ends = self.log_end_offsets({*committed, *readers, *paused})
        return positions_of(committed, readers, ends, paused)

    def survey_groups(
        self, group_ids: Iterable[str] | None = None, *, with_expiry: bool = False
    ) -> GroupSurvey:
        """Return many groups (None: all consumer groups) with their positions, in few requests.

        `with_expiry`: also when the offsets of groups without members expire. What single nodes do not answer
        is in the result, and the rest is complete. Raises `NoNodeReachable` if none answers.
        """
        surveyor = Surveyor(self.cluster)
        if group_ids is None:
            wanted = [one.group_id for one in surveyor.listings()]
        else:
            wanted = list(map(GroupId, group_ids))
        return survey_groups(surveyor, wanted, with_expiry=with_expiry)

    def _pauses_of(self, group: GroupDescription | None) -> Mapping[TopicPartition, PausedPartition]:
        """Return the paused partitions of a group; none of one that cannot be paused."""
        if group is None or group.group_type != groups.CONSUMER or not self.knows_pauses(group.group_id):
            return {}
        return self.list_paused_partitions(group.group_id)

    def alter_offsets(
        self,
        group_id: str,
        offsets_to_commit: Mapping[TopicPartition, int | CommittedOffset | None],
        expected: Mapping[TopicPartition, int | None] | None = None,
    ) -> None:
        """Commit offsets of a group without members, or of its released paused partitions.

        A group that does not exist is created.

        Raises `ValueError` for a negative offset, `TypeError` for one that is not an int; `GroupIsActive`;
        `PartlyRefused` for partitions that do not exist or whose metadata is too long, after committing the
        others.

        With `expected`, the commit is conditional: if the current offsets equal `expected` (None: no
        committed offset), all offsets are committed, otherwise none. An offset of None is then removed.
        Raises also `OffsetsMoved`, which has the current offsets; `OutcomeUnknown` if the response was lost;
        `VersionNotSupported` if the cluster has no conditional commits.
        """
        refuse_impossible(offsets_to_commit)
        refuse_impossible(expected or {})
        self._refuse_active(group_id, offsets_to_commit)
        offsets.commit_offsets(self.cluster, GroupId(group_id), offsets_to_commit, expected)

    def knows_conditions(self, group_id: str) -> bool:
        """Tell whether the group's coordinator supports conditional commits."""
        return offsets.knows_conditions(self.cluster.coordinator(GroupId(group_id)))

    def plan_reset(
        self, group_id: str, partitions: Iterable[TopicPartition], target: Target
    ) -> list[PlannedOffset]:
        """Plan a reset, without changes.

        The execution creates a group that does not exist; `describe_group` returns None for such a one.
        Raises `GroupIsActive`, `NothingToReset`, and `RequestRefused` for partitions that do not exist.
        """
        wanted = list(dict.fromkeys(partitions))
        self._refuse_active(group_id, wanted)
        if not wanted:
            raise NothingToReset(f"no partitions of group {group_id} to reset")
        committed = self.committed_offsets(group_id, wanted)
        return plan(
            target,
            wanted,
            committed,
            lambda timestamp: self.cluster.list_offsets(dict.fromkeys(wanted, timestamp)),
            Millis(time.time_ns() // 1_000_000),
        )

    def plan_resets(
        self, targets: Mapping[str, Target], partitions: Iterable[TopicPartition] | None = None
    ) -> PlansOfGroups:
        """Plan the reset of each of many groups to its target, without changes, in few requests.

        `partitions` are those of each group; None: those of its `ToOffsets`, or all with a committed offset.
        The result has, instead of a plan, the error that `plan_reset` would raise for a group. Raises
        `NoNodeReachable`.
        """
        of_groups = {GroupId(group_id): target for group_id, target in targets.items()}
        return plan_resets(Surveyor(self.cluster), of_groups, partitions)

    def reset_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], target: Target
    ) -> list[PlannedOffset]:
        """Plan a reset, execute it and return the plan. Raises what these two methods raise."""
        planned = self.plan_reset(group_id, partitions, target)
        self.execute_reset(group_id, planned)
        return planned

    def execute_reset(self, group_id: str, planned: Iterable[PlannedOffset]) -> None:
        """Execute a plan as one conditional commit: it fails if an offset changed since the plan.

        Raises what `alter_offsets` raises. If the cluster has no conditional commits, the offsets are
        committed without a condition.
        """
        plans = list(planned)
        wanted = {each.partition: each.offset for each in plans}
        expected = {each.partition: each.committed.offset if each.committed else None for each in plans}
        refuse_impossible(wanted)
        refuse_impossible(expected)
        self._commit(group_id, wanted, expected if self.knows_conditions(group_id) else None)

    # --- history of offsets ---

    def offset_history(
        self,
        group_id: str,
        partitions: ChosenPartitions = None,
        *,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        limit: int = 100,
    ) -> OffsetHistory:
        """Return the newest changes of a group's offsets, at most `limit` of each partition.

        Times are datetimes with a time zone, or in ms since the epoch.

        `partitions` can have names of topics, for all their partitions. None: all partitions in the group's
        history. A group of which nothing is known has none, without an error, and a share group has none.
        Raises `ValueError` for a `since` after `until` and a limit below 1, `VersionNotSupported` if the
        cluster keeps no history.
        """
        scope = scope_of(partitions)
        first, last = (None if time is None else past_millis(time) for time in (since, until))
        if first is not None and last is not None and first > last:
            raise ValueError(f"since must not be later than until, and {since!r} is later than {until!r}")
        if limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        return history.list_changes(self.cluster, GroupId(group_id), scope, first, last, limit)

    def offsets_as_of(
        self, group_id: str, time: datetime | int, partitions: ChosenPartitions = None
    ) -> list[OffsetAsOf]:
        """Return a group's offsets at a time, as far as they are known. Raises the same."""
        scope = scope_of(partitions)
        return as_of(history.changes_in_force(self.cluster, GroupId(group_id), scope, past_millis(time)))

    def plan_undo(self, group_id: str, partitions: ChosenPartitions = None) -> PlannedUndo:
        """Plan the undo of the group's last change in these partitions, without changes.

        The last change is the newest commit or removal, with all partitions that the same request changed (or
        another one in the same millisecond). `took_back` of the plan is set if that change was itself an
        undo. Raises `GroupIsActive`, `NothingToReset`, `HistoryUnknown`, `VersionNotSupported`, and
        `TopicGone` if the topic was deleted after the change or with it.
        """
        group = GroupId(group_id)
        history.require_history(self.cluster, group)  # before anyone stops the members in vain
        self._refuse_active(group_id, partitions)
        scope = scope_of(partitions)
        planned = plan_undo(group, history.last_change(self.cluster, group, scope))
        return replace(planned, partitions=tuple(self._from_log_starts(planned.partitions, moves=False)))

    def undo(self, group_id: str, partitions: ChosenPartitions = None, *, redo: bool = False) -> PlannedUndo:
        """Undo the last change and return the plan.

        Raises what `plan_undo` raises; `AlreadyUndone` if the last change was itself an undo, unless `redo`
        is set: then the undone change is repeated. Raises `OffsetsMoved`, without changes, if an offset
        changed since the plan.
        """
        planned = self.plan_undo(group_id, partitions)
        if planned.took_back is not None and not redo:
            raise AlreadyUndone(group_id, planned.changed_at, planned.took_back)
        self.execute_restore(group_id, planned)
        return planned

    def plan_restore(
        self, group_id: str, time: datetime | int, partitions: ChosenPartitions = None
    ) -> list[PlannedRestore]:
        """Plan the restore of the offsets at a time, without changes.

        Partitions whose offset is already right are omitted. For an offset whose records were removed since,
        the start of the log is taken; `past_offset` has the other. Raises `GroupIsActive`, `HistoryUnknown`,
        `VersionNotSupported`, `NothingToReset` if nothing is known of the group or of the partitions, and
        `TopicGone` if a topic that had an offset then was deleted since; ValueError for a time in the future.
        """
        group = GroupId(group_id)
        history.require_history(self.cluster, group)
        self._refuse_active(group_id, partitions)
        scope = scope_of(partitions)
        at = past_millis(time)
        refuse_future(at)
        past = history.changes_in_force(self.cluster, group, scope, at)
        committed = self.committed_offsets(group_id)
        there = {where: offset for where, offset in committed.items() if is_within(scope, where)}
        planned = plan_restore(group, at, past, there)
        return self._from_log_starts(planned, moves=True)

    def _from_log_starts(self, planned: Iterable[PlannedRestore], *, moves: bool) -> list[PlannedRestore]:
        """Compare the plan with the starts of the logs; without a change if the cluster cannot tell them."""
        plans = list(planned)
        wanted = [each.partition for each in plans if each.restored is not None]
        if not wanted:
            return plans
        try:
            found = Survey(self.cluster).offsets_at(wanted, EARLIEST)
        except ClientError:  # the restore itself does not need the logs
            return plans
        starts = {where: start for where, start in found.items() if not isinstance(start, ClientError)}
        return from_log_starts(plans, starts, moves=moves)

    def restore_offsets(
        self, group_id: str, time: datetime | int, partitions: ChosenPartitions = None
    ) -> list[PlannedRestore]:
        """Plan a restore, execute it and return the plan. Raises what these two methods raise."""
        planned = self.plan_restore(group_id, time, partitions)
        self.execute_restore(group_id, planned)
        return planned

    def execute_restore(self, group_id: str, planned: PlannedUndo | Iterable[PlannedRestore]) -> None:
        """Execute a plan as one conditional commit: it fails if an offset changed since the plan.

        A `PlannedUndo` is recorded as an undo, unless it undoes one: a second undo is then refused. Raises
        what `alter_offsets` raises. Partitions of a topic that was deleted since the plan are refused
        (UNKNOWN_TOPIC_ID), also if another topic has its name.
        """
        undone_at = None
        if isinstance(planned, PlannedUndo):
            undone_at = planned.changed_at if planned.took_back is None else None
            planned = planned.partitions
        plans = list(planned)
        if plans:
            self._commit(
                group_id,
                {each.partition: each.restored for each in plans},
                {each.partition: each.committed.offset if each.committed else None for each in plans},
                topic_ids(plans),
                undone_at,
            )

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that the group is not subscribed to.

        Raises `RequestRefused` for the group (GROUP_ID_NOT_FOUND), and `PartlyRefused` for partitions
        (UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC) after deleting the others.
        """
        offsets.delete_offsets(self.cluster, GroupId(group_id), partitions)

    # --- expiry of offsets ---

    def knows_expiry(self, group_id: str) -> bool:
        """Return whether the group's coordinator tells when offsets expire. Kafka's does not."""
        return expiry.knows_expiry(self.cluster, GroupId(group_id))

    def offset_expiry(self, group_id: str) -> GroupExpiry:
        """Return when each committed offset of a group expires if nothing changes.

        Raises `RequestRefused` (GROUP_ID_NOT_FOUND) and `VersionNotSupported`.
        """
        return expiry.describe_expiry(self.cluster, GroupId(group_id))

    def expiring_groups(self, within_ms: int | None = None) -> list[GroupExpiryListing]:
        """Return the groups without members of which an offset expires within `within_ms` (None: at any
        time), the first to expire first. Raises `ValueError` for a negative time, `VersionNotSupported`.
        """
        if within_ms is not None and within_ms < 0:
            raise ValueError(f"within_ms must be 0 or more, not {within_ms}")
        return expiry.list_expiring(self.cluster, within_ms)

    def set_offsets_retention(self, group_id: str, retention_ms: int | None) -> None:
        """Set how long the offsets of a group are kept (`offsets.retention.ms`); -1: for ever, None: as long
        as the broker's setting says. The group need not exist.

        Raises `RequestRefused` (INVALID_CONFIG), also from a cluster that does not have this setting: Kafka.
        """
        value = None if retention_ms is None else str(retention_ms)
        configs.alter_group_settings(self.cluster, GroupId(group_id), {"offsets.retention.ms": value})

    # --- paused partitions ---

    def knows_pauses(self, group_id: str) -> bool:
        """Return whether the group's coordinator can pause partitions. Kafka's cannot."""
        return pauses.knows_pauses(self.cluster, GroupId(group_id))

    def pause_partitions(
        self, group_id: str, partitions: Iterable[TopicPartition], *, reason: str = "", caller: str = ""
    ) -> None:
        """Pause partitions of a consumer group. Its members release them and continue with the others.

        Returns when the pause is durable; `wait_until_paused` waits until the owners have released them.
        `reason` and `caller` are stored and listed. Pausing twice is no error.

        Raises `RequestRefused` for a group that cannot be paused (GROUP_ID_NOT_FOUND; the message says why),
        `PartlyRefused` for partitions that do not exist, the others being paused; `VersionNotSupported`;
        `ValueError` for a reason that only rewinds give: `rewind`, or one that begins with `rewind: `.
        """
        refuse_reason_of_rewind(reason)
        pauses.pause(self.cluster, GroupId(group_id), partitions, reason, caller)

    def resume_partitions(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Resume paused partitions: they are assigned again. Raises what `pause_partitions` raises."""
        pauses.resume(self.cluster, GroupId(group_id), partitions)

    def list_paused_partitions(self, group_id: str) -> dict[TopicPartition, PausedPartition]:
        """Return the paused partitions of a group, sorted, with their pauses.

        Raises `RequestRefused` for a group that cannot be paused (GROUP_ID_NOT_FOUND); `VersionNotSupported`.
        """
        return pauses.list_paused(self.cluster, GroupId(group_id))

    def wait_until_paused(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_s: float = 300.0,
        on_progress: OnWaiting = lambda waiting: None,
    ) -> dict[TopicPartition, PausedPartition]:
        """Wait until no member owns these paused partitions. Then their offsets can be committed.

        An owner revokes with its next heartbeat; one that does not is removed after its rebalance timeout, in
        Kafka's clients five minutes (`max.poll.interval.ms`). Raises `NotPaused`; `NotReleased` after
        `timeout_s`; `ValueError` for a negative time.
        """
        wanted, limit_s = set(partitions), wait_seconds("timeout_s", timeout_s)
        return wait_until_released(self.cluster, GroupId(group_id), wanted, limit_s, on_progress)

    def plan_rewind(self, group_id: str, targets: Mapping[TopicPartition, Where]) -> list[PlannedOffset]:
        """Return what a rewind would set, from what is committed now. Raises what `plan_reset` raises."""
        return self._rewind(group_id, targets).plan()

    def rewind(
        self,
        group_id: str,
        targets: Mapping[TopicPartition, Where],
        *,
        reason: str = "",
        caller: str = "",
        timeout_s: float = 300.0,
        on_progress: OnProgress = lambda progress: None,
    ) -> list[RewoundPartition]:
        """Set offsets of a group that keeps running: pause, wait for the release, set, resume.

        `targets` has an offset for each partition, or any other target of a reset. `timeout_s` is for the
        release. On any failure, of the caller's own too, the offsets are put back and the partitions resumed
        before it is raised; where that fails, `RewindUnfinished`: the same call again finishes it. To undo a
        rewind, rewind to what it says was committed before. Raises `ValueError` for a negative time.
        """
        wait_seconds("timeout_s", timeout_s)
        rewind = self._rewind(group_id, targets)
        rewind.reason, rewind.caller = reason, caller
        rewind.timeout_s, rewind.on_progress = timeout_s, on_progress
        return rewind.run()

    def _rewind(self, group_id: str, targets: Mapping[TopicPartition, Where]) -> Rewind:
        refuse_impossible({one: where for one, where in targets.items() if isinstance(where, int)})
        self._refuse_share_group(group_id)
        return Rewind(
            cluster=self.cluster, group_id=GroupId(group_id), targets=dict(targets), now=system_time()
        )

    def _commit(
        self,
        group_id: str,
        planned: offsets.Offsets,
        expected: offsets.Expected | None,
        ids: Mapping[TopicName, TopicId] | None = None,
        undone_at: Millis | None = None,
    ) -> None:
        """Commit what is planned. Raises `GroupIsActive` for a group that has members since the plan."""
        try:
            offsets.commit_offsets(
                self.cluster, GroupId(group_id), planned, expected, ids, undone_at=undone_at
            )
        except PartlyRefused as refused:
            if any(each.error is ErrorCode.UNKNOWN_MEMBER_ID for each in refused.refused.values()):
                self._refuse_active(group_id, planned)
            raise

    def _refuse_share_group(self, group_id: str) -> None:
        """Refuse what changes committed offsets, of which share groups have none. Raises `RequestRefused`."""
        try:
            found = self.describe_share_groups([group_id])[group_id]
        except (VersionNotSupported, RequestRefused):  # the cluster has no share groups, or does not tell
            return
        if found is not None:
            raise IsShareGroup(group_id)

    def _refuse_active(self, group_id: str, places: ChosenPartitions) -> None:
        """Refuse to change offsets of a group with members, unless these are all paused and released."""
        group = self.describe_group(group_id)
        if group is None:
            self._refuse_share_group(group_id)
            return
        if not group.is_active:
            return
        if places is None or group.group_type != groups.CONSUMER or not self.knows_pauses(group_id):
            raise GroupIsActive(group)
        wanted = [
            partition
            for place in places
            for partition in (self.partitions_of(place) if isinstance(place, str) else [place])
        ]
        unpaused, unreleased = released_among(self.list_paused_partitions(group_id), wanted)
        if unpaused or unreleased or not wanted:
            raise GroupIsActive(group, unpaused, unreleased)
