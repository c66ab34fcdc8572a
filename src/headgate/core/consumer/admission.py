"""Find the member that a heartbeat comes from: a member, a new one, or an unknown one.

A dynamic member is identified by its id. A static one is identified by its instance id; its member id
identifies the present process. While that is a member, another process is refused (UNRELEASED_INSTANCE_ID).
When it has left temporarily (-2), the next one takes over its place and assignment, and the old id is fenced.
A process with the classic protocol does not announce that it leaves: the next one takes over at once. The
next one may be another member of the group already: that member is then removed, and its partitions are
reassigned. (Kafka leaves them without an owner until the group changes again.)

A member that lost responses sends the last epoch it knows. It is accepted if it reports only partitions that
it owns, including those pending revocation, so that a request delivered twice has the effect of one. A
delayed request, sent before responses that did arrive, does not discard the epochs since. (Kafka keeps only
the previous epoch, and not the partitions pending revocation: such a member is fenced there.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from headgate.core.consumer.commands import LEAVING_FOR_A_WHILE, ConsumerHeartbeat, GroupRefusal
from headgate.core.consumer.group import ConsumerGroup, Member, nothing_assigned
from headgate.core.consumer.reconcile import owns_no_more
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId, MemberId
from headgate.records import ConsumerGroupCurrentAssignment, ConsumerGroupMemberMetadata


class Admitted(NamedTuple):
    """A member that may continue."""

    member: Member
    is_new: bool = False
    replaces: MemberId | None = None
    """The id of the static member that it replaces."""


def admit(group: ConsumerGroup, command: ConsumerHeartbeat, max_size: int) -> Admitted | GroupRefusal:
    """Return the member of a heartbeat other than a leave, or why it is refused."""
    instance_id = command.instance_id
    static = None if instance_id is None else group.find_static(instance_id)
    if not command.is_joining:
        known = known_member(group, command.member_id, instance_id)
        return known if isinstance(known, GroupRefusal) else _with_valid_epoch(known, command)
    if static is not None and static.member_id != command.member_id:
        return _take_place(static, command)
    known_already = group.find_member(command.member_id)
    if known_already is not None:
        return Admitted(known_already)
    return full_group(group, max_size) or new_member(group, command.member_id)


def full_group(group: ConsumerGroup, max_size: int) -> GroupRefusal | None:
    """Return the refusal of new members if the group has its maximum size, else None."""
    if len(group.members) < max_size:
        return None
    message = f"The group has reached its maximum capacity of {max_size} members."
    return GroupRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def new_member(group: ConsumerGroup, member_id: MemberId) -> Admitted:
    """Return a member that the group does not have yet."""
    metadata = ConsumerGroupMemberMetadata(group_id=group.group_id, member_id=member_id)
    return Admitted(Member(metadata, nothing_assigned(group.group_id, member_id)), is_new=True)


def known_member(
    group: ConsumerGroup, member_id: MemberId, instance_id: InstanceId | None
) -> Member | GroupRefusal:
    """Return the group's member of that id, by the instance id if there is one, or why it is refused."""
    if instance_id is None:
        return group.find_member(member_id) or unknown_member(group, member_id)
    static = group.find_static(instance_id)
    if static is None:
        return unknown_instance(group, instance_id)
    if static.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by "
        return GroupRefusal(ErrorCode.FENCED_INSTANCE_ID, f"{message}member {static.member_id}.")
    return static


def unknown_member(group: ConsumerGroup, member_id: MemberId) -> GroupRefusal:
    """Return the refusal of an unknown member id."""
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)


def unknown_instance(group: ConsumerGroup, instance_id: InstanceId) -> GroupRefusal:
    """Return the refusal of an unknown instance id."""
    return GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def _with_valid_epoch(member: Member, command: ConsumerHeartbeat) -> Admitted | GroupRefusal:
    epoch, current = command.member_epoch, member.current
    if epoch > current.member_epoch:
        return _fenced(
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the "
            f"group coordinator ({current.member_epoch})."
        )
    if epoch < current.member_epoch and (
        not _may_know(current, epoch) or not owns_no_more(command.reported, current)
    ):
        return _fenced(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the "
            f"group coordinator ({current.member_epoch})."
        )
    return Admitted(member)


def _may_know(current: ConsumerGroupCurrentAssignment, epoch: int) -> bool:
    """Return whether the member was in this earlier epoch since it last sent one: it may be the last it
    knows.

    If it has not sent any epoch, only responses to its join can be lost, and it repeats the join.
    """
    previous = current.previous_member_epoch
    return epoch == previous or 0 < previous < epoch


def _fenced(what: str) -> GroupRefusal:
    message = f"{what} The member must abandon all its partitions and rejoin."
    return GroupRefusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _take_place(static: Member, command: ConsumerHeartbeat) -> Admitted | GroupRefusal:
    """Replace a static member with another member id, if it has left temporarily or was a classic member."""
    if static.member_epoch != LEAVING_FOR_A_WHILE and not static.uses_classic_protocol:
        message = f"Static member {command.member_id} with instance id {command.instance_id} cannot join the "
        message += f"group because the instance id is owned by member {static.member_id}."
        return GroupRefusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return in_place_of(static, command.member_id)


def in_place_of(static: Member, member_id: MemberId) -> Admitted:
    """Return a static member with its new id and its assignment; after a temporary leave, from epoch 0 on
    (R1.8).
    """
    metadata = replace(static.metadata, member_id=member_id)
    current = replace(static.current, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    return Admitted(Member(metadata, current), replaces=static.member_id)
