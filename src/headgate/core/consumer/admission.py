"""Who a heartbeat comes from: a member, a new one, or nobody the group knows.

A dynamic member is known by its id. A static one is known by its instance id, and its member id says which
life of it is speaking: while one lives, another is refused (UNRELEASED_INSTANCE_ID); when it has left for a
while (-2), the next one takes its place and what it had, and the old id is fenced.

A member that lost our answers comes with the epoch it knows. It is let in if it has nothing but what is its
own, to be let go or not, so that one request delivered twice does what it does once. (Kafka knows the last
epoch alone, and not what is to be let go: such a member is fenced there.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from headgate.core.consumer.commands import LEAVING_FOR_A_WHILE, ConsumerHeartbeat, Refusal
from headgate.core.consumer.group import ConsumerGroup, Member, nothing_assigned
from headgate.core.consumer.reconcile import owns_no_more
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId
from headgate.records import ConsumerGroupMemberMetadata


class Admitted(NamedTuple):
    """A member that may go on."""

    member: Member
    is_new: bool = False
    replaces: MemberId | None = None
    """The id of the static member whose place it takes."""


def admit(group: ConsumerGroup, command: ConsumerHeartbeat, max_size: int) -> Admitted | Refusal:
    """The member behind a heartbeat that is not to leave."""
    instance_id = command.instance_id
    static = None if instance_id is None else group.find_static(instance_id)
    if not command.is_joining:
        known = known_member(group, command)
        return known if isinstance(known, Refusal) else _with_valid_epoch(known, command)
    if static is not None and static.member_id != command.member_id:
        return _take_place(static, command)
    known_already = group.find_member(command.member_id)
    if known_already is not None:
        return Admitted(known_already)
    if len(group.members) >= max_size:
        message = f"The group has reached its maximum capacity of {max_size} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    return Admitted(_new_member(group, command), is_new=True)


def _new_member(group: ConsumerGroup, command: ConsumerHeartbeat) -> Member:
    metadata = ConsumerGroupMemberMetadata(group_id=group.group_id, member_id=command.member_id)
    return Member(metadata, nothing_assigned(group.group_id, command.member_id))


def known_member(group: ConsumerGroup, command: ConsumerHeartbeat) -> Member | Refusal:
    """The member of that id that the group has, by the instance id where there is one."""
    if command.instance_id is None:
        return group.find_member(command.member_id) or unknown_member(group, command.member_id)
    static = group.find_static(command.instance_id)
    if static is None:
        return unknown_instance(group, command.instance_id)
    if static.member_id != command.member_id:
        message = f"Static member {command.member_id} with instance id {command.instance_id} was fenced by "
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{message}member {static.member_id}.")
    return static


def unknown_member(group: ConsumerGroup, member_id: MemberId) -> Refusal:
    """Nobody has that member id."""
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)


def unknown_instance(group: ConsumerGroup, instance_id: InstanceId) -> Refusal:
    """Nobody has that instance id."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def _with_valid_epoch(member: Member, command: ConsumerHeartbeat) -> Admitted | Refusal:
    epoch, current = command.member_epoch, member.current
    if epoch > current.member_epoch:
        return _fenced(
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the "
            f"group coordinator ({current.member_epoch})."
        )
    if epoch < current.member_epoch and (
        epoch != current.previous_member_epoch or not owns_no_more(command.reported, current)
    ):
        return _fenced(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the "
            f"group coordinator ({current.member_epoch})."
        )
    return Admitted(member)


def _fenced(what: str) -> Refusal:
    message = f"{what} The member must abandon all its partitions and rejoin."
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _take_place(static: Member, command: ConsumerHeartbeat) -> Admitted | Refusal:
    """A static member comes back under a new id: it has what it had, all of it from epoch 0 on (R1.8)."""
    if static.member_epoch != LEAVING_FOR_A_WHILE:
        message = f"Static member {command.member_id} with instance id {command.instance_id} cannot join the "
        message += f"group because the instance id is owned by member {static.member_id}."
        return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    member_id = command.member_id
    metadata = replace(static.metadata, member_id=member_id)
    current = replace(static.current, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    return Admitted(Member(metadata, current), replaces=static.member_id)
