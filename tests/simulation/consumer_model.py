"""The promises of a consumer group to its members, checked reply by reply.

This is not a second coordinator: it computes no targets and knows no assignors. The checks hold for any
targets, and follow from requests, their answers, and the clock:

* A member's epoch never decreases. It loses a partition only with a later epoch, after it acknowledged the
  revocation.
* No member is assigned a partition that another member owns or has not revoked, as long as that one is a
  member.
* Commits are accepted of owners, and refused of zombies; see `consumer_commits`.
* A paused partition is assigned to no member. Its owner keeps it until it revokes it.
* A member that heartbeats in time remains a member: no failure of the disk, no crash and no lost answer
  fences it. A member that left, was silent too long, or was replaced is no member.
* After a load the group has the epochs and partitions that its members were told; the group epoch and the
  target epoch are not lower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.consumer_commits import NONE, Committed
from tests.simulation.described_group import check_described, concerns_member, owned_by
from tests.simulation.member_view import Grant, MemberView, Part, parts_of
from tests.simulation.offset_effects import MemberGroups, Rules
from tests.simulation.pause_model import PauseModel
from tests.simulation.requests import Request, Violation, each_to_commit, error_of

from headgate.core.classic.commands import LeaveGroup
from headgate.core.commands import DeleteGroup
from headgate.core.consumer.commands import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    UNCHANGED_MS,
    ConsumerHeartbeat,
    DescribedConsumerGroup,
    HeartbeatResult,
)
from headgate.core.offsets.commands import CommitOffsets, FetchOffsets
from headgate.core.pause.commands import PausePartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId, TopicId, TopicName

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
STALE = ErrorCode.STALE_MEMBER_EPOCH
CLOCK_SECONDS = 0.005
"""The server's clock has millisecond resolution."""
TIMER_SLACK_SECONDS = 0.1


@dataclass
class Setting:
    """The settings when a request arrived."""

    session_seconds: float
    topic_ids: Mapping[TopicName, TopicId]


class ConsumerGroupModel:
    """One group's members, over all lives of its shard."""

    def __init__(self, group_id: str, members: MemberGroups, rules: Rules, pauses: PauseModel) -> None:
        self._group_id = group_id
        self._pauses = pauses
        self._rules = rules
        self._offsets = members
        self._views: dict[MemberId, MemberView] = {}
        self._epochs = (0, 0)
        """The highest group epoch and target epoch in any answer."""
        self._ledger: dict[Part, tuple[MemberId, Grant]] = {}
        """The last owner of each partition, and the time of its assignment."""
        self._settings: dict[int, Setting] = {}
        self._open: dict[int, Request] = {}
        """Requests in flight that may change the state."""
        self._lost: list[Request] = []
        """Those that were in flight when the shard failed, since the last load."""
        self._sure: set[MemberId] = set()
        """The certain members when it failed."""
        self._is_down = False
        self.counts = Counter[str]()

    # --- requests ---

    def arrived(self, request: Request, setting: Setting) -> None:
        """Note the possible effects of a request."""
        self._settings[request.number] = setting
        if isinstance(request.command, ConsumerHeartbeat):
            self._offsets.may_have_record[self._group_id] = request.number
        if isinstance(request.command, ConsumerHeartbeat | LeaveGroup | DeleteGroup):
            self._open[request.number] = request

    def refused_at_the_door(self, request: Request) -> None:
        """Note that the shard did not process it."""
        self._open.pop(request.number, None)

    def answered(self, request: Request, result: Any) -> None:
        """Check a reply that is no retriable error."""
        setting = self._settings.pop(request.number)
        self._open.pop(request.number, None)
        match request.command:
            case ConsumerHeartbeat(member_epoch=epoch) if epoch in (LEAVING, LEAVING_FOR_A_WHILE):
                self._left(request, request.command, error_of(result))
            case ConsumerHeartbeat():
                self._beat(request, request.command, result, setting)
            case CommitOffsets():
                self._committed(request, request.command, error_of(result), setting)
            case FetchOffsets(member_id=member_id) if member_id is not None:
                self._fetched(request, request.command, error_of(result))
            case LeaveGroup():
                self._removed(request, result)
            case PausePartitions():
                self._release_of_those_away(self._pauses)
            case DeleteGroup() if error_of(result) is NONE:
                self._is_empty(request, "was deleted")
                self._views, self._ledger, self._epochs = {}, {}, (0, 0)

    # --- members ---

    def _is_sure(self, view: MemberView | None, request: Request) -> bool:
        """Return whether somebody is certainly a member when a request arrives, whatever timers did."""
        return view is not None and view.is_sure(request.arrived_at + CLOCK_SECONDS)

    def has_sure_members(self, request: Request) -> bool:
        """Return whether somebody is certainly a member when a request arrives."""
        return any(self._is_sure(view, request) for view in self._views.values())

    def sure_owner(self, part: Part, request: Request) -> MemberId | None:
        """Return the certain owner of a partition; not one that left temporarily."""
        for view in self._views.values():
            is_exact = not view.is_blurred and view.epoch != LEAVING_FOR_A_WHILE
            if part in view.owned and is_exact and self._is_sure(view, request):
                return view.member_id
        return None

    def may_be_owned(self, part: Part, by: MemberId | None = None) -> bool:
        """Return whether a partition may have an owner, or this one."""
        return any(part in view.owned and by in (None, view.member_id) for view in self._views.values())

    def _is_past(self, due: float, request: Request) -> bool:
        """Return whether an action due at a time was done before a request arrived."""
        return self._rules.time.awake_seconds(due, request.arrived_at) > TIMER_SLACK_SECONDS

    def _holder(self, instance_id: InstanceId | None) -> MemberView | None:
        """Return the member with an instance id."""
        if instance_id is None:
            return None
        return next((one for one in self._views.values() if one.instance_id == instance_id), None)

    def _is_empty(self, request: Request, what: str) -> None:
        for view in self._views.values():
            if self._is_sure(view, request):
                raise Violation(f"{request}: the group {what}, and has the member {view}")

    def _fails_to_know(self, request: Request, view: MemberView | None) -> None:
        """Check a reply by which a member is unknown."""
        if view is None:
            return
        if self._is_sure(view, request):
            raise Violation(f"{request} of a living member was fenced: {view}")
        del self._views[view.member_id]

    def _release_of_those_away(self, parts: Container[Part]) -> None:
        """Note that static members that left temporarily own none of these any more."""
        for view in self._views.values():
            if view.epoch == LEAVING_FOR_A_WHILE:
                view.release(parts)

    # --- heartbeats ---

    def _beat(self, request: Request, command: ConsumerHeartbeat, result: Any, setting: Setting) -> None:
        assert isinstance(result, HeartbeatResult)
        view = self._views.get(command.member_id)
        match result.error:
            case ErrorCode.NONE:
                if command.member_epoch == JOINING:
                    view = self._joined(request, command, view)
                elif view is None:
                    raise Violation(f"{request} was accepted of a member that nobody let in: {result}")
                else:
                    self._check_beat(request, command, view)
                self._step(request, command, view, result)
                view.heard(request.arrived_at, setting.session_seconds)
                self._offsets.saw_alive(self._group_id, request.arrived_at, self._rules)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.GROUP_ID_NOT_FOUND:
                self._fails_to_know(request, view)
            case ErrorCode.FENCED_INSTANCE_ID:
                if view is not None and view.instance_id == command.instance_id:
                    self._fails_to_know(request, view)
            case ErrorCode.FENCED_MEMBER_EPOCH:
                self._check_fenced(request, command, view)
            case ErrorCode.UNRELEASED_INSTANCE_ID:
                holder = self._holder(command.instance_id)
                if holder is None or (holder.epoch == LEAVING_FOR_A_WHILE and not holder.is_vague):
                    raise Violation(f"{request}: the instance id is free; {holder} has it")
            case _:
                raise Violation(f"{request} was answered {result}")

    def _joined(self, request: Request, command: ConsumerHeartbeat, view: MemberView | None) -> MemberView:
        """Check a join or rejoin; return the member as it was before the step of the answer."""
        holder = self._holder(command.instance_id)
        if holder is not None and holder.member_id != command.member_id:
            view = self._replaced(request, command, holder)
        if view is None:
            view = MemberView(command.member_id, command.instance_id, 0)
        elif not self._is_sure(view, request):
            view.may_be_another()
            view.epoch = 0
        if not self.has_sure_members(request):
            # Then the group may have been removed meanwhile, and its epochs start again.
            view.epoch, self._epochs = 0, (0, 0)
            self._ledger.clear()
        view.instance_id = command.instance_id or view.instance_id
        self._views[command.member_id] = view
        return view

    def _replaced(self, request: Request, command: ConsumerHeartbeat, holder: MemberView) -> MemberView:
        """Check a static member's rejoin after a restart: it has the same partitions (R1.8)."""
        if holder.epoch != LEAVING_FOR_A_WHILE and self._is_sure(holder, request):
            raise Violation(f"{request} took the place of a living static member: {holder}")
        del self._views[holder.member_id]
        holder.member_id = command.member_id
        self.counts["static members replaced"] += holder.epoch == LEAVING_FOR_A_WHILE
        if holder.epoch == LEAVING_FOR_A_WHILE:
            holder.epoch = 0
        return holder

    def _check_beat(self, request: Request, command: ConsumerHeartbeat, view: MemberView) -> None:
        if self._is_past(view.ends_at, request):
            raise Violation(f"{request} was accepted of a member not heard of since {view.heard_at}: {view}")
        if view.late_at is not None and self._is_past(view.late_at, request):
            raise Violation(f"{request} was accepted from a member that is late to revoke: {view}")
        if command.member_epoch > view.epoch:
            raise Violation(f"{request} was accepted in an epoch that its member is not in: {view}")
        if command.member_epoch < view.epoch:
            self.counts["answers asked for again"] += 1
            if command.reported is None or not parts_of(command.reported) <= view.owned.keys():
                raise Violation(f"{request} of a zombie was accepted: {view}")

    def _check_fenced(self, request: Request, command: ConsumerHeartbeat, view: MemberView | None) -> None:
        """Check a fencing: the member loses all partitions, so it must have been in the wrong."""
        if view is None or not self._is_sure(view, request):
            return
        epoch, reported = command.member_epoch, command.reported
        is_replay = (
            not view.is_blurred
            and view.spoken_epoch <= epoch < view.epoch
            and reported is not None
            and parts_of(reported) <= view.owned.keys()
        )
        if epoch == view.epoch or is_replay:
            raise Violation(f"{request} of a living member was fenced: {view}")

    def _step(
        self, request: Request, command: ConsumerHeartbeat, view: MemberView, result: HeartbeatResult
    ) -> None:
        """Apply the member's own step, as in the answer."""
        epoch, assigned = result.member_epoch, result.assigned
        if epoch < max(view.epoch, 1):
            raise Violation(f"{request} went back to epoch {epoch}: {view}")
        before = str(view)
        parts = (
            None if assigned is None else {(topic, one) for topic, each in assigned.items() for one in each}
        )
        is_exact, pending_before = not view.is_blurred, view.pending.keys()
        added = set() if parts is None else parts - view.assigned.keys()
        gone = view.step(epoch, parts, self._lowest(view))
        said = None if command.reported is None else parts_of(command.reported)
        if gone and is_exact and (said is None or said & gone):
            raise Violation(f"{request} took {gone} of a member that has it: {before}, now {view}")
        for other in self._views.values():
            is_sure = other is not view and not other.is_blurred and self._is_sure(other, request)
            if is_sure and (both := added & other.owned.keys()):
                raise Violation(f"{request} was given {both}, which {other} has; now {view}")
        if any(part in self._pauses for part in added):
            raise Violation(f"{request} was given {added}, of which some are paused; now {view}")
        for (topic, one), grant in view.assigned.items():
            if assigned is not None and not grant.low <= assigned[topic][one] <= grant.high:
                raise Violation(f"{request} was given {assigned}, which are not its epochs: {view}")
            self._ledger[topic, one] = (view.member_id, grant)
        self._epochs = (max(self._epochs[0], epoch), max(self._epochs[1], epoch))
        is_joining = command.member_epoch == JOINING
        view.spoken_epoch = epoch if is_joining else max(view.spoken_epoch, command.member_epoch)
        if command.rebalance_timeout_ms != UNCHANGED_MS:
            view.rebalance_seconds = command.rebalance_timeout_ms / 1000
        if not view.pending and not view.is_vague:
            view.revoking_since = None
        elif view.pending and view.revoking_since is None:
            view.revoking_since = request.arrived_at
        if not view.pending or view.is_vague:
            view.late_at = None
        elif view.pending.keys() != pending_before:
            view.late_at = request.arrived_at + view.rebalance_seconds

    def _lowest(self, view: MemberView) -> dict[Part, int]:
        """Return the minimum epoch of an unseen assignment: after the last one to another member."""
        return {
            part: grant.low + 1
            for part, (member_id, grant) in self._ledger.items()
            if member_id != view.member_id and view.instance_id is None
        }

    # --- leaving ---

    def _left(self, request: Request, command: ConsumerHeartbeat, error: ErrorCode) -> None:
        view = self._views.get(command.member_id)
        if error is NONE:
            if view is None:
                raise Violation(f"{request} was accepted of a member that nobody let in")
            if command.member_epoch == LEAVING:
                del self._views[view.member_id]
            else:
                view.epoch, view.pending = LEAVING_FOR_A_WHILE, {}
                view.revoking_since = view.late_at = None
                view.assigned = dict.fromkeys(view.assigned, Grant(0, 0))
                view.release(self._pauses)
        elif error in (UNKNOWN, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID):
            self._fails_to_know(request, view)
        else:
            raise Violation(f"{request} was answered {error!r}")

    def _removed(self, request: Request, result: Any) -> None:
        if error_of(result) is not NONE:
            raise Violation(f"{request} was answered {result}")
        for leaving, error in result.members:
            named = self._views.get(leaving.member_id)
            view = named if leaving.member_id else self._holder(leaving.instance_id)
            if view is None:
                if error is NONE:
                    raise Violation(f"{request} removed somebody whom nobody let in: {result}")
            elif error is NONE:
                del self._views[view.member_id]
            else:
                self._fails_to_know(request, view)

    # --- offsets ---

    def _committed(
        self, request: Request, command: CommitOffsets, error: ErrorCode, setting: Setting
    ) -> None:
        view, epoch = self._views.get(command.member_id), command.generation
        parts = [
            None if name not in setting.topic_ids else (setting.topic_ids[name], one.partition)
            for name, each in command.topics
            for one in each_to_commit(each)
        ]
        commit = Committed(request, epoch, parts, self._pauses, self.counts)
        if epoch < 0:
            commit.check_administrators(error, self)
        elif error is NONE:
            is_expired = view is not None and self._is_past(view.ends_at, request)
            commit.check_accepted(view, self._ledger, is_expired=is_expired)
        elif error is STALE:
            commit.check_stale(view)
        else:
            self._fails_to_know(request, view)

    def _fetched(self, request: Request, command: FetchOffsets, error: ErrorCode) -> None:
        assert command.member_id is not None
        view = self._views.get(command.member_id)
        if error is UNKNOWN:
            self._fails_to_know(request, view)
            return
        is_present = view is not None and command.member_epoch == view.epoch
        # A removed group refuses nothing.
        if view is not None and self._is_sure(view, request) and (error is NONE) is not is_present:
            raise Violation(f"{request} was answered {error!r}: {view}")

    # --- failures and loads ---

    def fails(self, at: float) -> None:
        """Note that the shard lost what is not in its log; requests in flight may be in it or not."""
        self._lost += self._open.values()
        self._open.clear()
        self._settings.clear()
        if not self._is_down:
            self._is_down = True
            self._sure = {one for one, view in self._views.items() if view.is_sure(at + CLOCK_SECONDS)}

    def loaded(self, described: Any, at: float, session_seconds: float) -> None:
        """Check the group right after a load."""
        found: dict[MemberId, Any] = {}
        if isinstance(described, DescribedConsumerGroup):
            found = {member.member_id: member for member in described.members}
            check_described(described, self._epochs if self._sure else (0, 0))
        for member_id in list(self._views):
            self._check_found(self._views[member_id], found.get(member_id), described)
        for member_id, member in found.items():
            if member_id not in self._views:
                self._find_new(member_id, member, described)
        if isinstance(described, DescribedConsumerGroup):
            self._epochs = (described.group_epoch, described.assignment_epoch)
        for view in self._views.values():
            view.heard(at, session_seconds)
            view.revoking_since = at if view.pending or view.is_vague else None
            view.late_at = at + view.rebalance_seconds if view.pending and not view.is_vague else None
        self._lost, self._is_down = [], False

    def _check_found(self, view: MemberView, member: Any, described: Any) -> None:
        if member is not None and view.epoch == LEAVING_FOR_A_WHILE:
            view.release(self._pauses.perhaps_paused() - owned_by(member))
        concerns = [request for request in self._lost if concerns_member(request, view)]
        if member is None:
            if view.member_id in self._sure and not concerns:
                raise Violation(f"after a load {described} lacks {view}")
            del self._views[view.member_id]
            return
        if concerns or view.is_blurred:
            if member.member_epoch != view.epoch and not concerns:
                raise Violation(f"after a load {described} is not where {view} was")
            view.become_vague(member.member_epoch, owned_by(member), self._lowest(view))
        elif member.member_epoch != view.epoch or owned_by(member) != view.owned.keys():
            raise Violation(f"after a load {described} is not what {view} was told")

    def _find_new(self, member_id: MemberId, member: Any, described: Any) -> None:
        joins = [
            request.command
            for request in self._lost
            if isinstance(request.command, ConsumerHeartbeat)
            and (request.command.member_id, request.command.member_epoch) == (member_id, JOINING)
        ]
        if not joins:
            raise Violation(f"after a load {described} has {member_id}, whom nobody let in")
        view = MemberView(member_id, member.instance_id, member.member_epoch)
        view.rebalance_seconds = min(join.rebalance_timeout_ms for join in joins) / 1000
        view.become_vague(member.member_epoch, owned_by(member), self._lowest(view))
        self._views[member_id] = view
