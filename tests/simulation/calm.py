"""Calm periods: nothing fails, all clients behave well, and at the end every group must be stable.

Halfway topics and pauses change once more, so that a stable group has to react.

Each member has the group's epoch and the partitions that the group reports, there are no other members, and
together they have all partitions of their subscribed topics that are not paused, each exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.administrator import Administrator
from tests.simulation.classic_consumer import ClassicConsumer, NamedPart
from tests.simulation.consumer_member import ConsumerMember
from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan
from tests.simulation.requests import Violation
from tests.simulation.surroundings import LONGEST_SESSION, Surroundings

from headgate.core.consumer.commands import DescribeConsumerGroup, DescribedConsumerGroup
from headgate.domain.ids import MemberId, TopicName

if TYPE_CHECKING:
    from tests.simulation.life import Life

AnyMember = ConsumerMember | ClassicConsumer


class Calm:
    """Makes all clients behave well for a while, and checks the result."""

    def __init__(
        self,
        plan: Plan,
        disk: SimulatedDisk,
        journal: Journal,
        surroundings: Surroundings,
        clients: tuple[Sequence[AnyMember], Sequence[Administrator]],
        paused_in: Callable[[str], set[NamedPart]],
    ) -> None:
        """`paused_in` returns the paused partitions of a group."""
        self._disk = disk
        self._journal = journal
        self._surroundings = surroundings
        self._members, self._administrators = clients
        self._paused_in = paused_in
        # Silent members expire, partitions are revoked, targets are computed, in a heartbeat or two each.
        self._seconds = (2 * LONGEST_SESSION + 8) * plan.longest_session_seconds + 4.0

    def begin(self, life: Life, on_over: Callable[[], None]) -> None:
        """Run a calm period and check the groups. It ends with this life of the server."""
        self._disk.heal()
        self._surroundings.is_calm = True
        for member in self._members:
            member.connect()
        life.later(self._seconds / 2, self._change)
        life.later(self._seconds, lambda: self._look(life, on_over))

    def _change(self) -> None:
        self._surroundings.change_topic()
        for administrator in self._administrators:
            administrator.change_pauses()

    @property
    def is_under_way(self) -> bool:
        """Return whether faults are suspended now."""
        return self._surroundings.is_calm

    def broken(self) -> None:
        """End the calm period, because the server has ended."""
        self._surroundings.is_calm = False

    def _look(self, life: Life, on_over: Callable[[], None]) -> None:
        self._surroundings.is_calm = False
        for group_id in {member.group_id: None for member in self._members}:
            # The members' state at this moment is their state when the group is described.
            members = [member for member in self._members if member.group_id == group_id]
            rest = Rest(
                has={member.member_id: (_epoch_of(member), self._owned_by(member)) for member in members},
                read=self._read_by(members) - self._paused_in(group_id),
            )
            life.submit_command(group_id, DescribeConsumerGroup(group_id), partial(self._judge, life, rest))
        on_over()

    def _read_by(self, members: Sequence[AnyMember]) -> set[NamedPart]:
        """Return all partitions of the members' subscriptions."""
        return {
            part for member in members for part in self._surroundings.partitions_read_by(*_read_by(member))
        }

    def _owned_by(self, member: AnyMember) -> frozenset[NamedPart]:
        if isinstance(member, ClassicConsumer):
            return member.owned
        return frozenset((self._surroundings.name_of(topic_id), one) for topic_id, one in member.owned)

    def _judge(self, life: Life, rest: Rest, described: Any) -> None:
        if life.is_over or self._disk.is_off or not isinstance(described, DescribedConsumerGroup):
            return
        self._journal.trace(f"calm {described!r}")
        is_mixed = any(member.uses_classic_protocol for member in described.members)
        self._journal.counts["calms of both protocols" if is_mixed else "calms"] += 1
        self._journal.judged(lambda: rest.check(described))


def _epoch_of(member: AnyMember) -> int:
    return member.generation if isinstance(member, ClassicConsumer) else member.epoch


def _read_by(member: AnyMember) -> tuple[Sequence[TopicName], str | None]:
    return (member.names, None) if isinstance(member, ClassicConsumer) else member.subscription[:2]


@dataclass
class Rest:
    """The partitions and the subscriptions of a group's members."""

    has: Mapping[MemberId, tuple[int, frozenset[NamedPart]]]
    """By member, its epoch and its partitions."""
    read: set[NamedPart]
    """All partitions of their subscriptions that are not paused."""

    def check(self, described: DescribedConsumerGroup) -> None:
        """Check that the group is stable. Raises Violation."""
        names = described.topic_names
        found = {
            member.member_id: (
                member.member_epoch,
                frozenset((names[topic], one) for topic, each in member.assigned.items() for one in each),
            )
            for member in described.members
        }
        if described.state != "Stable" or found != self.has:
            raise Violation(f"after a calm {described} is not what its members have: {self.has}")
        if any(epoch != described.group_epoch for epoch, _ in self.has.values()):
            raise Violation(f"after a calm {described} is not in the epoch of its members: {self.has}")
        owned = sorted(part for _, parts in self.has.values() for part in parts)
        if owned != sorted(self.read):
            raise Violation(f"after a calm members of {described} have {owned}, and read {sorted(self.read)}")
