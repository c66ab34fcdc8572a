"""How much memory a shard takes: three million offsets, everything counted that the process grows by (R3.6).

Each measure runs in a process of its own. What it fills is a real shard, through what the coordinator and
the loading of a log call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

TOOLS = """
import gc, json, sys
from pathlib import Path
import numpy as np
from tests.columns import column_batch
from headgate.core.commands import Tick
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import GroupTombstone, OffsetCommit, ColumnBatch
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows
from headgate.server.memory import give_back_large_blocks

START = Millis(1_700_000_000_000)
TOPIC = TopicName("orders-v1")
PAGE_BYTES = 4096


def resident_bytes():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def wide(shard, group, partitions, timestamp=START):
    for first in range(0, partitions, 5000):
        numbers = np.arange(first, min(first + 5000, partitions))
        shard.apply(column_batch(GroupId(group), TOPIC, numbers, numbers * 3, numbers, "", timestamp), 0)


def small(shard, groups, *, is_gone=False, timestamp=START):
    # Three offsets of each of these groups, as the loading of a log hands them over.
    for first in range(0, len(groups), 1500):
        some = groups[first : first + 1500]
        count = 3 * len(some)
        partitions = np.tile(np.arange(3), len(some))
        shard.apply_rows(
            OffsetRows(
                [key_prefix.__wrapped__(group, TOPIC) for group in some],
                np.repeat(np.arange(len(some)), 3),
                partitions,
                partitions * 7,
                np.zeros(count, np.int32),
                np.full(count, timestamp),
                np.full(count, is_gone),
                {},
            )
        )


def sweep(shard, now):
    # Everything that is due to expire, and what a shard does by itself in the minutes after that.
    while (deadline := shard.next_deadline()) is not None and deadline <= now + 300_000:
        for record in shard.handle(Tick(), max(deadline, now)).records:
            shard.apply(record, 0)


def warm_up():
    shard = GroupShard(Settings({}))
    wide(shard, "g", 20_000)
    small(shard, [f"g{number}" for number in range(3000)])
    small(shard, [f"g{number}" for number in range(3000)], is_gone=True)
    shard.loaded(START)
    sweep(shard, Millis(START + 700_000))
    give_back_large_blocks()
"""

FILL = """
warm_up()
before = resident_bytes()
shard = GroupShard(Settings({}))
GROUPS, PARTITIONS = json.loads(sys.argv[1])
names = (f"service-{number:07d}" for number in range(GROUPS))
if PARTITIONS == 3:
    for first in range(0, GROUPS, 15_000):
        small(shard, [f"service-{number:07d}" for number in range(first, min(first + 15_000, GROUPS))])
else:
    for number in range(GROUPS):
        wide(shard, f"service-{number:07d}", PARTITIONS)
shard.loaded(START)
count = shard.offset_count
assert count == GROUPS * PARTITIONS
assert shard.offsets.group_count == GROUPS
print(json.dumps((resident_bytes() - before) / count))
"""

ROUNDS = """
warm_up()
before = resident_bytes()
shard = GroupShard(Settings({"offsets.retention.minutes": "60"}))
shard.loaded(START)
HOUR = 3_600_000
WIDE, SMALL, EXPIRING = 600, 60_000, 20_000


def names(first, count):
    return [f"service-{one:07d}" for one in range(first, first + count)]


def one_round(number, now):
    half = SMALL // 2
    for group in range(WIDE):
        wide(shard, f"wide-{group}", 1000, now)            # committed again
    small(shard, names(number * half, SMALL), timestamp=now)
    if number:
        small(shard, names((number - 1) * half, half), is_gone=True)
        for group in names((number - 1) * half, half):     # deleted, with their groups
            shard.apply(GroupTombstone(GroupId(group)), 0)
    wide(shard, f"expires-{number}", EXPIRING, Millis(now - 2 * HOUR))
    held = shard.offset_count
    sweep(shard, now)
    assert number == 0 or held - shard.offset_count >= EXPIRING, "what is old expires"
    shard.offsets.forget_prefixes()


bytes_per_offset = []
for number in range(10):
    one_round(number, Millis(START + number * HOUR))
    bytes_per_offset.append((resident_bytes() - before) / shard.offset_count)
print(json.dumps(bytes_per_offset))
"""


MEMBERS = """
from headgate.core.consumer.commands import ConsumerHeartbeat
from headgate.core.consumer.group import ConsumerState
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.ids import MemberId, TopicId


class Crowd:
    # Members of groups who do what they are told until all of them have their part.

    def __init__(self, groups, members, topics):
        self.shard = GroupShard(Settings({"group.consumer.assignment.interval.ms": "1000"}))
        self.shard.loaded(START)
        self.consumer, *_ = self.shard.groups.kinds
        self.now = START
        known = [KnownTopic(TopicId(bytes([number]) * 16), 100) for number in range(1, topics + 1)]
        names = [TopicName(f"orders-{number}") for number in range(topics)]
        self.shard.handle(TopicsChanged([TopicChange(*one) for one in zip(names, known)]), START)
        self.names = names
        self.heard = {}
        for number in range(groups * members):
            self.heard[f"service-{number // members:07d}", f"member-{number:015d}"] = (0, {})

    def beat(self, group, member, epoch, owned, **more):
        command = ConsumerHeartbeat(
            group_id=GroupId(group), member_id=MemberId(member), member_epoch=epoch, reported=owned, **more
        )
        effects = self.shard.handle(command, self.now, 1)
        for record in effects.records:
            self.shard.apply(record, 0)
        (reply,) = effects.replies
        assert not reply.result.error, reply
        return reply.result

    def go_round(self):
        for (group, member), (epoch, owned) in self.heard.items():
            more = {}
            if epoch == 0:  # each reads the names off its own request
                names = tuple(TopicName(bytes(name, "ascii").decode()) for name in self.names)
                more = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names}
            partitions = [(topic, list(indexes)) for topic, indexes in owned.items()]
            result = self.beat(group, member, epoch, partitions, **more)
            owned = owned if result.assigned is None else result.assigned
            self.heard[group, member] = result.member_epoch, owned
        self.now = Millis(self.now + 2_000)

    def settle(self):
        while True:
            self.go_round()
            if all(group.state is ConsumerState.STABLE for group in self.consumer.by_id.values()):
                return


Crowd(5, 10, 1).settle()
give_back_large_blocks()
before = resident_bytes()
crowd = Crowd(*json.loads(sys.argv[1]))
crowd.settle()
count = len(crowd.heard)
owned = sum(len(one) for group in crowd.consumer.by_id.values() for one in group.owners.values())
assert owned == 10 * count
crowd.heard.clear()
print(json.dumps((resident_bytes() - before) / count))
"""


def measured(script: str, *arguments: str) -> Any:
    """What the script prints at its end."""
    run = subprocess.run(
        [sys.executable, "-c", TOOLS + script, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    ("groups", "partitions"),
    [(3000, 1000), (30, 100_000), (1_000_000, 3)],
    ids=["3,000 groups of 1,000", "30 groups of 100,000", "a million groups of 3"],
)
def test_three_million_offsets_take_at_most_64_bytes_each(groups: int, partitions: int) -> None:
    """By the growth of the process, with groups."""
    assert measured(FILL, json.dumps([groups, partitions])) <= 64


def test_ten_rounds_of_deletes_expiry_and_commits_leak_no_memory() -> None:
    """Groups are created and deleted, offsets expire and are committed again."""
    rounds = measured(ROUNDS)
    assert max(rounds) <= 72, (
        "what removals leave behind for a while, and what the interpreter keeps, included"
    )
    assert rounds[-1] <= 1.1 * max(rounds[2:5])


@pytest.mark.parametrize(("groups", "members", "topics"), [(200, 10, 1), (1, 1000, 100)])
def test_a_member_with_ten_partitions_takes_less_than_five_kilobytes(
    groups: int, members: int, topics: int
) -> None:
    """In small groups and in a large one with many topics: members share equal subscriptions."""
    assert 500 < measured(MEMBERS, json.dumps([groups, members, topics])) < 5_000
