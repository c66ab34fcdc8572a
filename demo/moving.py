"""A third member joins a group with server-side assignment, partitions move, and a commit arrives late.

The epoch of the slow member rose while its commit was delayed. The offsets of partitions that it still owns
are accepted; a commit with a partition that it has revoked is refused (KIP-1251).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.console import Console

from demo.balanced import QuickMember, SlowMember, Stretch
from demo.broker import DemoBroker
from demo.report import Check
from demo.shell import show_consumer_groups
from demo.story import BOARDING, PARTITION_COUNT, TOPIC, DemoFailed
from headgate.admin import Admin
from headgate.domain.errors import ErrorCode

BATCH = 1_000
"""Number of flights of each partition that the slow member reads before it commits."""

SILENCE_S = 1.0
"""Minimum time without a heartbeat of the slow member after the third has joined, in s."""

SETTLE_TIMEOUT_S = 20.0
FINISH_TIMEOUT_S = 40.0


@dataclass(frozen=True, slots=True)
class Late:
    """A delayed commit of the slow member, and the owners of the partitions when it was made."""

    epoch: int
    stretches: list[Stretch]
    of_first: frozenset[int]
    of_slow: frozenset[int]


class Group:
    """The three members, and the coordinator's state of them."""

    def __init__(self, broker: DemoBroker) -> None:
        self.broker = broker
        self.first = QuickMember(broker.address, "first")
        self.slow = SlowMember(broker.address, "slow")
        self.third = QuickMember(broker.address, "third")

    def committed(self) -> dict[int, int]:
        """Return the group's offsets, 0 where nothing is committed."""
        with Admin(self.broker.address) as admin:
            found = admin.committed_offsets(BOARDING)
        return dict.fromkeys(range(PARTITION_COUNT), 0) | {
            where.partition: one.offset for where, one in found.items()
        }

    def wait_until(
        self, so: Callable[[], bool], what: str, *, silent: bool = False, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> None:
        """Wait until the condition is true; meanwhile the slow member heartbeats, unless it is silent."""
        deadline = time.monotonic() + timeout_s
        while not so():
            for member in (self.first, self.third):
                if member.problem is not None:
                    raise DemoFailed(f"the member {member.name} ended: {member.problem}")
            if time.monotonic() > deadline:
                raise DemoFailed(f"not within {timeout_s:.0f} s: {what}")
            if not silent:
                self.slow.heartbeat()
            time.sleep(0.1)


def move_partitions(console: Console, broker: DemoBroker) -> list[Check]:
    """Two members share, a third joins, the late commit arrives; then read all flights and count them."""
    group = Group(broker)
    late = _share(console, group)
    checks = _let_a_third_join(console, group, late)
    checks += _commit_late(console, group, late)
    show_consumer_groups(console, broker, ["--describe", "--group", BOARDING, "--members", "--verbose"])
    return checks + _read_to_the_end(console, group)


def _share(console: Console, group: Group) -> Late:
    """First and slow have three partitions each; slow commits, reads on, and sends another commit late."""
    first, slow = group.first, group.slow
    with console.status("two members share the flights"):
        first.start()
        group.wait_until(lambda: len(first.partitions) == PARTITION_COUNT, "one has all", silent=True)
        group.wait_until(lambda: len(first.partitions) == len(slow.partitions) == 3, "two have three each")
        at = group.committed()
        for partition in slow.partitions:
            slow.read(partition, at[partition], 2 * BATCH)
    answer = slow.commit([Stretch(p, at[p], at[p] + BATCH) for p in slow.partitions], slow.epoch)
    if answer is not ErrorCode.NONE:
        raise DemoFailed(f"the slow member's first commit was refused: {answer.name}")
    _tell(
        console,
        f"first has {_shown(first.partitions)}, slow {_shown(slow.partitions)}; slow's next commit is "
        f"on its way (epoch {slow.epoch})",
    )
    second = [Stretch(p, at[p] + BATCH, at[p] + 2 * BATCH) for p in sorted(slow.partitions)]
    return Late(slow.epoch, second, first.partitions, slow.partitions)


def _let_a_third_join(console: Console, group: Group, late: Late) -> list[Check]:
    """The third gets one partition from first at once, and one from slow when slow has revoked it."""
    first, slow, third = group.first, group.slow, group.third
    had_read = first.count
    with console.status("a third joins, and slow keeps silent"):
        third.start()
        group.wait_until(lambda: len(third.partitions) == 1, "the third has one", silent=True)
        time.sleep(SILENCE_S)
        in_the_silence = third.partitions
        group.wait_until(lambda: len(third.partitions) == len(slow.partitions) == 2, "all have two")
    later = third.partitions - in_the_silence
    _tell(
        console,
        f"third joins: {_shown(in_the_silence)} comes to it at once, {_shown(later)} when slow, silent for "
        f"{SILENCE_S:.0f} s, has let go of it (epoch {slow.epoch})",
        f"meanwhile first read {first.count - had_read:,} flights: nobody waits for a rebalance to end",
    )
    shares = [first.partitions, slow.partitions, third.partitions]
    return [
        Check(
            sorted(p for share in shares for p in share) == list(range(PARTITION_COUNT))
            and first.partitions < late.of_first
            and slow.partitions < late.of_slow
            and not in_the_silence & late.of_slow
            and slow.epoch > late.epoch
            and first.count > had_read,
            "two partitions moved to a third member, none before its owner let it go; the other four stayed",
        )
    ]


def _commit_late(console: Console, group: Group, late: Late) -> list[Check]:
    """The commit of all three partitions is refused; a commit of one of the remaining two is accepted."""
    slow = group.slow
    moved = late.of_slow - slow.partitions
    kept = [one for one in late.stretches if one.partition in slow.partitions]
    before = group.committed()
    whole = slow.commit(late.stretches, late.epoch)
    after_whole = group.committed()
    part = slow.commit(kept, late.epoch)
    after_part = group.committed()
    answer = "accepted" if part is ErrorCode.NONE else part.name
    _tell(
        console,
        f"slow's late commit arrives, of epoch {late.epoch}:",
        f"    of {_shown(late.of_slow)}: {whole.name}, {_shown(moved)} being third's; nothing is written",
        f"    of {_shown(slow.partitions)}: {answer}, slow had them all the while (Kafka before 4.3 refuses)",
    )
    return [
        Check(
            whole is ErrorCode.STALE_MEMBER_EPOCH
            and all(after_whole[one.partition] == before[one.partition] for one in kept),
            f"a late commit with the moved partition in it: {whole.name}, and nothing of it was written",
        ),
        Check(
            part is ErrorCode.NONE and all(after_part[one.partition] == one.behind for one in kept),
            f"a late commit of what the slow member kept, of the older epoch {late.epoch}: {answer}",
        ),
    ]


def _read_to_the_end(console: Console, group: Group) -> list[Check]:
    """Slow leaves, the other two continue from its commits; every flight must count exactly once."""
    ends = _ends(group.broker)
    with console.status("slow leaves, the others read to the end"):
        group.slow.leave()
        for member in (group.first, group.third):
            member.hurry()
        group.wait_until(
            lambda: group.committed() == ends, "all is committed", silent=True, timeout_s=FINISH_TIMEOUT_S
        )
        for member in (group.first, group.third):
            member.leave()
    counted = {one: one.counted for one in (group.first, group.slow, group.third)}
    wrong = gaps([one for stretches in counted.values() for one in stretches], ends)
    total = sum(ends.values())
    shares = (sum(one.behind - one.first for one in stretches) for stretches in counted.values())
    return [
        Check(
            not wrong,
            f"{total:,} flights count once each, by what first, slow and third committed: "
            + (
                f"{len(wrong)} gaps or overlaps, such as {wrong[0]}"
                if wrong
                else " + ".join(f"{n:,}" for n in shares)
            ),
        )
    ]


def gaps(counted: Iterable[Stretch], ends: dict[int, int]) -> list[str]:
    """Return where stretches do not continue one another from 0 to the end: duplicate or missing flights."""
    at = dict.fromkeys(ends, 0)
    wrong = []
    for partition, first, behind in sorted(counted):
        if first != at[partition]:
            wrong.append(f"partition {partition}: {at[partition]} is followed by {first}")
        at[partition] = behind
    wrong += [
        f"partition {each}: ends at {at[each]}, not {end}" for each, end in ends.items() if at[each] != end
    ]
    return wrong


def _ends(broker: DemoBroker) -> dict[int, int]:
    with Admin(broker.address) as admin:
        found = admin.log_end_offsets(admin.partitions_of(TOPIC))
    return {where.partition: end for where, end in found.items()}


def _tell(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(f"  {line}", highlight=False)


def _shown(partitions: Iterable[int]) -> str:
    return ", ".join(f"p{partition}" for partition in sorted(partitions))
