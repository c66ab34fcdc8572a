"""Times of calm: nothing goes wrong, everybody behaves, and then every group must have come to rest.

Half way the topics change once more, so that a group that is at rest has to notice.

Each member is in the group's epoch and has what the group says it has, nobody else is in it, and together
they have all partitions of the topics that they read, each one once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.consumer_member import ConsumerMember, Part
from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan
from tests.simulation.requests import Violation
from tests.simulation.surroundings import LONGEST_SESSION, Surroundings

from headgate.core.consumer.commands import DescribeConsumerGroup, DescribedConsumerGroup

if TYPE_CHECKING:
    from tests.simulation.life import Life


class Calm:
    """Has everybody behave for a while, and looks at what comes of it."""

    def __init__(
        self,
        plan: Plan,
        disk: SimulatedDisk,
        journal: Journal,
        surroundings: Surroundings,
        members: Sequence[ConsumerMember],
    ) -> None:
        self._disk = disk
        self._journal = journal
        self._surroundings = surroundings
        self._members = members
        # The silent are removed, partitions are let go, targets are made, each step with a heartbeat or two.
        self._seconds = (2 * LONGEST_SESSION + 8) * plan.longest_session_seconds + 4.0

    def begin(self, life: Life, on_over: Callable[[], None]) -> None:
        """Be calm, look, and go on. If this life of the server ends before, the calm ends with it."""
        self._disk.heal()
        self._surroundings.is_calm = True
        for member in self._members:
            member.connect()
        life.later(self._seconds / 2, self._surroundings.change_topic)
        life.later(self._seconds, lambda: self._look(life, on_over))

    def broken(self) -> None:
        """The server is gone, and so is the calm."""
        self._surroundings.is_calm = False

    def _look(self, life: Life, on_over: Callable[[], None]) -> None:
        self._surroundings.is_calm = False
        for group_id in {member.group_id: None for member in self._members}:
            members = [member for member in self._members if member.group_id == group_id]
            # What a member has at this moment is what it had when the group is asked.
            owned = {member.member_id: (member.epoch, member.owned) for member in members}
            read = {
                part
                for member in members
                for part in self._surroundings.partitions_read_by(*member.subscription[:2])
            }
            life.submit_command(
                group_id, DescribeConsumerGroup(group_id), partial(self._judge, life, owned, read)
            )
        on_over()

    def _judge(
        self, life: Life, owned: dict[Any, tuple[int, frozenset[Part]]], read: set[Part], described: Any
    ) -> None:
        if life.is_over or self._disk.is_off or not isinstance(described, DescribedConsumerGroup):
            return
        self._journal.trace(f"calm {described!r}")
        self._journal.counts["calms"] += 1
        self._journal.judged(lambda: _check(owned, read, described))


def _check(
    owned: dict[Any, tuple[int, frozenset[Part]]], read: set[Part], described: DescribedConsumerGroup
) -> None:
    is_of = {
        member.member_id: (
            member.member_epoch,
            frozenset((topic_id, one) for topic_id, each in member.assigned.items() for one in each),
        )
        for member in described.members
    }
    if described.state != "Stable" or is_of != owned:
        raise Violation(f"after a calm {described} is not what its members have: {owned}")
    if any(epoch != described.group_epoch for epoch, _ in owned.values()):
        raise Violation(f"after a calm {described} is not the epoch of its members: {owned}")
    all_owned = sorted(part for _, parts in owned.values() for part in parts)
    if all_owned != sorted(read):
        raise Violation(f"after a calm the members of {described} have {all_owned}, and read {sorted(read)}")
