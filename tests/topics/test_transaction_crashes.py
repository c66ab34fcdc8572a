"""Power cuts at every change of the disk while transactions are written, indexed, snapshotted and compacted.

Whatever survives, the state that a start derives from snapshot and .txnindex files is the one that a naive
reader of all batches has; and what was acknowledged is decided as it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.log.compacting import drive
from tests.topics.disk import NOW, Disk, batch, create, sync
from tests.topics.transactions import Writer, committed

from headgate.log.batch import iterate_records
from headgate.log.compaction import CompactionOrder, compact
from headgate.log.filesystem import PowerCut
from headgate.log.markers import read_marker
from headgate.topics.topic import Topic

Step = Callable[[Topic, dict[bytes, bool]], None]


def transaction(number: int, *, is_committed: bool) -> Step:
    def step(topic: Topic, decided: dict[bytes, bool]) -> None:
        writer, value = Writer(topic, number), b"%03d" % number * 40
        writer.write(value, key=value)
        writer.end(is_committed=is_committed)
        decided[value] = is_committed

    return step


def snapshot(topic: Topic, decided: dict[bytes, bool]) -> None:
    topic.partition(0).save_snapshot()


def compaction(topic: Topic, decided: dict[bytes, bool]) -> None:
    partition = topic.partition(0)
    stable = partition.last_stable_offset
    drive(compact(partition.log, CompactionOrder(now_ms=NOW, delete_retention_ms=1000, not_beyond=stable)))
    partition.save_snapshot()


def held_back(topic: Topic, decided: dict[bytes, bool]) -> None:
    Writer(topic, 99).write(b"open", key=b"open")


STEPS: list[Step] = [
    transaction(1, is_committed=False),
    transaction(2, is_committed=True),
    snapshot,
    transaction(3, is_committed=False),
    transaction(4, is_committed=False),
    transaction(5, is_committed=True),
    snapshot,
    transaction(6, is_committed=False),
    compaction,
    held_back,
    transaction(7, is_committed=False),
]


def naive(topic: Topic) -> list[bytes | None]:
    """Return the values that count, from all batches of the log up to the first that is undecided."""
    log = topic.partition(0).log
    pending: dict[int, list[tuple[int, bytes | None]]] = {}
    counted: list[tuple[int, bytes | None]] = []
    first_open: dict[int, int] = {}
    for header, data in log.batches(log.log_start_offset):
        if header.is_control:
            marker = read_marker(data)
            assert marker is not None
            ended = pending.pop(header.producer_id, [])
            first_open.pop(header.producer_id, None)
            counted += ended if marker.is_committed else []
            continue
        into = counted
        if header.is_transactional:
            into = pending.setdefault(header.producer_id, [])
            first_open.setdefault(header.producer_id, header.base_offset)
        into += [(offset, record.value) for offset, record in iterate_records(data)]
    stable = min(first_open.values(), default=log.log_end_offset)
    assert topic.partition(0).last_stable_offset == stable
    return [value for offset, value in sorted(counted) if offset < stable]


@pytest.mark.parametrize("torn_bytes", [0, 20])
def test_a_power_cut_at_any_change_leaves_derived_state_that_agrees_with_the_log(torn_bytes: int) -> None:
    """A torn marker ends no transaction; nothing that was acknowledged changes its fate."""
    struck = 0
    for moment in range(0, 2000, 1 + torn_bytes // 10):
        disk = Disk()
        topic = create(disk.start(), disk, "flights", segment_bytes="1024", cleanup_policy="compact")
        decided: dict[bytes, bool] = {}
        disk.files.cut_power_after(moment, torn_bytes=torn_bytes)
        try:
            for step in STEPS:
                step(topic, decided)
            is_done = True
        except (PowerCut, AssertionError):
            assert not disk.files.has_power
            struck, is_done = struck + 1, False
        disk.files.crash(Random(moment) if moment % 2 else None)
        found = disk.start().by_name("flights")
        assert found is not None
        seen = committed(found)
        assert seen == naive(found), moment
        stable = found.partition(0).last_stable_offset
        for value, is_committed in decided.items():
            if is_done and value.startswith(b"007"):
                assert stable < found.partition(0).high_watermark, "held back by the open one"
            else:
                assert (value in seen) == is_committed, (moment, value)
        # It goes on from there.
        assert found.partition(0).append(batch(b"more", keys=[b"more"]), NOW).error == 0
        sync(found)
        if is_done:
            break
    assert struck > 30
