"""`python -m bench.share_windows`: what a share-partition with many ranges costs, in one process.

It prints one JSON object: the bytes of a range in flight, of 100,000 that two members have by turns and half
of which are accepted; and the seconds from a state with a million acknowledged holes, in the memory of the
share coordinator, to the window that a first fetch needs. It is loaded in slices. Best of three.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc

import numpy as np

from headgate.core.commands import SystemTimeMoved
from headgate.core.share.partition.model import (
    AcknowledgementBatch,
    AcknowledgeType,
    Acquisition,
    DeliveryLimits,
    FetchedRecords,
)
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.state.commands import (
    InitializeState,
    ReadState,
    ReadStateResult,
    WriteState,
)
from headgate.core.share.state.shard import ShareStateShard
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.records.share_batches import DeliveryState, StateBatches
from headgate.records.share_state_model import ShareKey

IN_FLIGHT = 100_000
HOLES = 1_000_000
A_WRITE = 20_000
"""Batches of one write of the state."""
MEMBERS = (MemberId("one"), MemberId("other"))
NOW = Millis(1_000)
KEY = ShareKey(GroupId("work"), TopicId(b"t" * 16), 0)
ROUNDS = 3


def range_bytes() -> float:
    """Return the bytes of one range in flight: batches of one record, half of them accepted."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    partition = SharePartition(0, DeliveryLimits(records=2 * IN_FLIGHT))
    for first in range(0, IN_FLIGHT, 500):
        for number in range(first, first + 500, 250):
            fetched = FetchedRecords(
                fetch_offset=number, batches=[(offset, offset) for offset in range(number, number + 250)]
            )
            member_id = MEMBERS[number // 250 % 2]
            wish = Acquisition(member_id=member_id, fetched=fetched, max_records=250, batch_size=1)
            taken = partition.acquire(wish, NOW)
            accepted = [AcknowledgementBatch(one[0], one[1], [AcknowledgeType.ACCEPT]) for one in taken[1::2]]
            change = partition.acknowledge(member_id, accepted, NOW).change
            assert change is not None, "half of the records are accepted"
            partition.finish_write(change.write, is_durable=True, now=NOW)
    assert partition.range_count == IN_FLIGHT, "the first record of each fetch keeps the window open"
    del fetched, wish, taken, accepted, change
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / IN_FLIGHT


def state_with_holes() -> ShareStateShard:
    """Return a share coordinator with one state: every second offset is acknowledged."""
    shard = ShareStateShard(Settings({}))
    shard.handle(SystemTimeMoved(0), NOW)
    shard.loaded(NOW)
    position = 0
    known = TopicsChanged([TopicChange(TopicName("orders"), KnownTopic(KEY.topic_id, 1))])
    commands: list[object] = [known, InitializeState(key=KEY, state_epoch=1, start_offset=0)]
    for begin in range(0, HOLES, A_WRITE):
        offsets = 2 * np.arange(begin, begin + A_WRITE) + 1
        states = np.full(A_WRITE, int(DeliveryState.ACKNOWLEDGED))
        rows = np.stack([offsets, offsets, states, np.ones_like(offsets)], axis=1)
        commands.append(WriteState(key=KEY, state_epoch=1, leader_epoch=0, batches=StateBatches(rows)))
    for command in commands:
        for record in shard.handle(command, NOW).records:
            shard.apply(record, position)
            position += 1
    return shard


def load_seconds(shard: ShareStateShard) -> tuple[float, float]:
    """Return the seconds of a load, and of its longest slice."""
    begin = last = time.perf_counter()
    longest = 0.0
    result = shard.handle(ReadState(key=KEY, leader_epoch=0), NOW).replies[0].result
    assert isinstance(result, ReadStateResult)
    partition = SharePartition(result.start_offset, DeliveryLimits())
    for _ in partition.load(result.batches):
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    end = time.perf_counter()
    assert (partition.next_offset(), partition.range_count) == (0, 2 * HOLES)
    return end - begin, max(longest, end - last)


def main() -> None:
    """Measure, and print the result."""
    shard = state_with_holes()
    seconds, longest = min(load_seconds(shard) for _ in range(ROUNDS))
    figures = {
        "in_flight_ranges": IN_FLIGHT,
        "bytes_per_range": round(range_bytes(), 1),
        "acknowledged_holes": HOLES,
        "load_s": round(seconds, 3),
        "longest_slice_ms": round(longest * 1e3, 1),
    }
    json.dump(figures, sys.stdout)
    print()


if __name__ == "__main__":
    main()
