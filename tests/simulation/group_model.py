"""The promises of a classic group to its members, checked reply by reply.

This is not a second implementation of the protocol. These promises hold for any timing:

* Generations never decrease while a shard lives; after a load they are not lower than the last one whose
  assignment was answered. A member is always accepted into the newest generation.
* A generation has one leader, one protocol, and one assignment, which is the one of its leader.
* A member whose heartbeat got no error, in a generation with an assignment, remains a member: no failure of
  the disk and no crash makes it unknown. (A SyncGroup to a stable group does not prolong a session.)
* A member that left, or was silent for longer than its session, is no longer a member.
* A member that rejoins with an instance id replaces the previous one: it takes its assignment, and its
  leadership. Nothing else fences a living member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.offset_effects import MemberGroups, Rules
from tests.simulation.requests import Request, Violation, error_of

from headgate.core.classic.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import CommitOffsets
from headgate.domain.errors import ErrorCode

TIMER_SLACK_SECONDS = 0.1


class Assignment(NamedTuple):
    """A leader's assignment of one member, with readable bytes."""

    generation: int
    attempt: int
    member_id: str

    def encode(self) -> bytes:
        """Return the assignment as bytes."""
        return f"{self.generation}/{self.attempt}/{self.member_id}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Return the assignment of the bytes. Raises ValueError for bytes that `encode` does not produce."""
        generation, attempt, member_id = data.decode().split("/")
        return cls(int(generation), int(attempt), member_id)


@dataclass
class Generation:
    """What is known of a generation in one life of a shard."""

    leader: str
    protocol: str | None
    joined: set[str] = field(default_factory=set)
    told_members: set[str] | None = None
    """The members that the leader had to assign to; static members by instance id."""
    attempt: int | None = None
    """The attempt whose assignment it was, after one was answered."""


@dataclass
class Proof:
    """When a member was last known to be one, and how long it remains one at least, in seconds."""

    at: float
    lasts: float


class GroupModel:
    """One group's members, over all lives of its shard."""

    def __init__(self, group_id: str, members: MemberGroups, rules: Rules) -> None:
        self._group_id = group_id
        self._rules = rules
        self._members = members
        self._newest = 0
        self._synced = 0
        """The newest generation whose assignment was answered, and which is therefore durable."""
        self._generations: dict[int, Generation] = {}
        self._attempts: dict[int, set[str]] = {}
        """The members of the assignment, by attempt."""
        self._proofs: dict[str, Proof] = {}
        self._timeouts: dict[str, tuple[float, float]] = {}
        """Session and rebalance timeouts by member, in seconds."""
        self._heard: dict[str, float] = {}
        """The time of a member's last request or answer, in this life of the shard."""
        self._left: set[str] = set()
        self._instances: dict[str, str] = {}
        """The instance id of each member id that a static member ever had."""
        self._replaced: dict[str, int] = {}
        """By instance id, the last request that may have replaced its member id."""
        self.rebalances = 0
        self.replacements = 0

    # --- requests ---

    def arrived(self, request: Request) -> None:
        """Note the possible effects of a request."""
        match request.command:
            case JoinGroup(instance_id=instance_id, member_id=member_id, new_member_id=new_member_id):
                self._members.may_have_record[self._group_id] = request.number
                if instance_id is not None and not member_id:
                    self._instances[new_member_id] = instance_id
                    self._may_replace(instance_id, request)
            case SyncGroup(assignments=assignments) if assignments:
                first = Assignment.decode(assignments[0][1])
                self._attempts[first.attempt] = {member_id for member_id, _ in assignments}
            case LeaveGroup(members=members):
                for leaving in members:
                    self._proofs.pop(leaving.member_id, None)
                    if leaving.instance_id is not None:
                        self._may_replace(leaving.instance_id, request)
            case DeleteGroup():
                pass

    def _may_replace(self, instance_id: str, request: Request) -> None:
        """Note that members with the instance id so far are no longer certain members."""
        self._replaced[instance_id] = request.number
        for member_id in [one for one in self._proofs if self._instances.get(one) == instance_id]:
            del self._proofs[member_id]

    def _who(self, member_id: str) -> str:
        """Return the identity of a member id: all ids of a static member have the same."""
        return self._instances.get(member_id, member_id)

    def fails(self) -> None:
        """Note that the shard lost what is not in its log."""
        self._newest = self._synced
        self._generations = {}
        self._heard = {}
        self._left = set()

    def answered(self, request: Request, result: Any, now: float) -> None:
        """Check a reply that is no retriable error."""
        error = error_of(result)
        command = request.command
        match command:
            case JoinGroup():
                if not error:
                    self._joined(command, result, now)
            case SyncGroup():
                if not error:
                    self._assigned(request, result, now)
                self._not_fenced(request, command.member_id, error)
            case Heartbeat():
                if not error:
                    self._accepted(request, command.member_id, command.generation)
                    self._prove(request, command.member_id)
                elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                    self._hear(request, command.member_id)
                self._not_fenced(request, command.member_id, error)
            case CommitOffsets() if command.generation >= 0:
                if not error:
                    self._accepted(request, command.member_id, command.generation)
                    self._hear(request, command.member_id)
                self._not_fenced(request, command.member_id, error)
            case LeaveGroup():
                if not error:
                    self._left |= {
                        one.member_id for one, outcome in result.members if one.member_id and not outcome
                    }
            case DeleteGroup() if not error:
                if self._proofs and any(self._is_proven(one, request.arrived_at) for one in self._proofs):
                    raise Violation(f"{request}: a group with members was deleted")
                self._synced = self._newest = 0
                self._generations = {}

    # --- replies ---

    def _joined(self, command: JoinGroup, result: Any, now: float) -> None:
        who, leader = self._who(result.member_id), self._who(result.leader)
        is_leader = result.leader == result.member_id
        told = {self._who(member.member_id) for member in result.members} if is_leader else None
        problem = self._why_not(result, who, told)
        if problem and not any(self._is_proven(one, now) for one in self._proofs):
            self._newest = self._synced = 0  # it was empty, had no offsets, and was removed meanwhile
            self._generations = {}
            problem = self._why_not(result, who, told)
        if problem:
            raise Violation(f"{command} joined {result}: {problem}")
        generation = self._newer(result.generation, "")
        known = self._generations.setdefault(generation, Generation(leader, result.protocol_name))
        if not known.leader:
            known.leader, known.protocol = leader, result.protocol_name
        if command.instance_id is not None and not command.member_id and known.attempt is not None:
            self.replacements += 1
        known.joined.add(who)
        known.told_members = known.told_members if told is None else told
        self._timeouts[result.member_id] = (
            command.session_timeout_ms / 1000,
            command.rebalance_timeout_ms / 1000,
        )
        self._heard[result.member_id] = now
        self._proofs.pop(result.member_id, None)

    def _why_not(self, result: Any, who: str, told: set[str] | None) -> str | None:
        """Return the fault of a join's answer, for the known state of the group."""
        if result.generation < self._newest:
            return f"group {self._group_id} is in generation {self._newest}"
        known = self._generations.get(result.generation)
        if known is None:
            return None
        if known.leader and (known.leader, known.protocol) != (
            self._who(result.leader),
            result.protocol_name,
        ):
            return f"the generation is {known}"
        told = known.told_members if told is None else told
        if told is not None and not known.joined | {who} <= told:
            return f"{known.joined} are in it, its leader was told {told}"
        return None

    def _newer(self, generation: int, what: str) -> int:
        if generation < self._newest:
            raise Violation(f"group {self._group_id} is in generation {self._newest}, but {what}")
        if generation > self._newest:
            self.rebalances += 1
        self._newest = generation
        return generation

    def _assigned(self, request: Request, result: Any, now: float) -> None:
        command = request.command
        self._newer(command.generation, f"{request} got {result}")
        try:
            assignment = Assignment.decode(result.assignment)
        except ValueError:
            raise Violation(f"{request} got an assignment that nobody made: {result}") from None
        if assignment.generation != command.generation:
            raise Violation(f"{request} got {assignment}")
        if self._who(assignment.member_id) != self._who(command.member_id):
            raise Violation(f"{request} got {assignment}")
        if assignment.member_id not in self._attempts.get(assignment.attempt, ()):
            raise Violation(f"{request} got {assignment}, which no leader brought")
        known = self._generations.setdefault(command.generation, Generation("", None))
        is_another = not any(self._is_proven(one, now) for one in self._proofs)
        if known.attempt not in (None, assignment.attempt) and not is_another:
            raise Violation(f"{request} got {assignment}, others that of attempt {known.attempt}")
        known.attempt = assignment.attempt
        self._synced = command.generation
        self._members.saw_alive(self._group_id, request.arrived_at, self._rules)
        self._heard[command.member_id] = now

    def _accepted(self, request: Request, member_id: str, generation: int) -> None:
        self._newer(generation, f"{request} was accepted")
        if member_id in self._left:
            raise Violation(f"{request} was accepted of a member that left")
        session, _ = self._timeouts.get(member_id, (1e9, 0.0))
        heard = self._heard.get(member_id, request.arrived_at)
        if self._rules.time.awake_seconds(heard + session, request.arrived_at) > TIMER_SLACK_SECONDS:
            raise Violation(f"{request} was accepted of a member not heard of since {heard} s")

    def _hear(self, request: Request, member_id: str) -> None:
        self._heard[member_id] = max(self._heard.get(member_id, 0.0), request.arrived_at)

    def _prove(self, request: Request, member_id: str) -> None:
        """Note that the member is in a durable generation, if it is the one whose assignment was answered."""
        self._hear(request, member_id)
        if request.number < self._replaced.get(self._instances.get(member_id, ""), 0):
            return  # another member may have replaced it since
        if request.command.generation == self._synced and member_id in self._timeouts:
            lasts = min(self._timeouts[member_id])
            self._proofs[member_id] = Proof(request.arrived_at, lasts)
            self._members.saw_alive(self._group_id, request.arrived_at, self._rules)

    def _is_proven(self, member_id: str, at: float) -> bool:
        proof = self._proofs.get(member_id)
        return proof is not None and proof.at <= at < proof.at + proof.lasts

    def _not_fenced(self, request: Request, member_id: str, error: ErrorCode) -> None:
        is_fenced = error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        if is_fenced and self._is_proven(member_id, request.arrived_at):
            raise Violation(f"{request} of a living member was fenced; {self._proofs[member_id]}")

    # --- after a load ---

    def loaded(self, described: Any, at: float) -> None:
        """Check the group right after a load."""
        members: Mapping[str, bytes] = {}
        if not isinstance(described, ErrorCode):
            members = {member.member_id: member.assignment for member in described.members}
        try:
            assignments = {member_id: Assignment.decode(one) for member_id, one in members.items()}
        except ValueError:
            raise Violation(f"after a load {described} holds what nobody assigned") from None
        origins = {(one.generation, one.attempt) for one in assignments.values()}
        if len(origins) > 1:
            raise Violation(f"after a load {described} is in more than one generation")
        for generation, attempt in origins:
            if generation < self._synced:
                raise Violation(f"after a load {described} is older than generation {self._synced}")
            if {one.member_id for one in assignments.values()} != self._attempts.get(attempt, set()):
                raise Violation(f"after a load {described} is not what was assigned")
        for member_id, one in assignments.items():
            if self._who(one.member_id) != self._who(member_id):
                raise Violation(f"after a load {described} has {one} for {member_id}")
        for member_id in self._proofs:
            if self._is_proven(member_id, at) and member_id not in members:
                raise Violation(f"after a load {described} lacks the member {member_id}")
        self._heard = dict.fromkeys(members, at)
