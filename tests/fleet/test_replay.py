"""An audit loads the log as the coordinator does, many records at a time, and sees every commit backwards."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.core.offsets.test_expiry_months import DAY
from tests.spark.support import write_segment

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.fleet.facts import Backwards
from headgate.fleet.replay import replay
from headgate.fleet.watching import WatchedShard
from headgate.log.batch import Record, encode_batch, place_batch
from headgate.log.markers import EndMarker, encode_marker
from headgate.records import OffsetCommit, OffsetTombstone, encode
from headgate.records.runs import RunPlace
from headgate.spark.options import parse

TOPIC = "__consumer_offsets"
NOW = Millis(1_700_000_000_000)
WIDE = 40
"""Partitions of a wide commit, which are compared in columns."""


def commit(group: str, partition: int, offset: int, at: int = 0, *headers: tuple[bytes, bytes]) -> Record:
    what = OffsetCommit(GroupId(group), TopicName("t"), partition, offset, 0, "", Millis(NOW + at))
    return Record(*encode(what), NOW + at, headers)


def tombstone(group: str, partition: int) -> Record:
    return Record(*encode(OffsetTombstone(GroupId(group), TopicName("t"), partition)), NOW)


def replayed(directory: Path, *batches: list[Record] | bytes) -> WatchedShard:
    """Write a log of these batches, or of records, and replay it."""
    written, at = [], 0
    for batch in batches:
        if isinstance(batch, list):
            written.append(encode_batch(batch, base_offset=at))
            at += len(batch)
        else:
            written.append(bytearray(batch))
            at += 1
    write_segment(directory, TOPIC, 0, written)
    options = parse({"path": str(directory), "subscribe": TOPIC})
    return replay(options, 0, Settings(), Millis(NOW + DAY))


@pytest.mark.parametrize("seed", range(6))
def test_every_commit_backwards_is_counted(tmp_path: Path, seed: int) -> None:
    """Within a batch and from batch to batch, narrow and wide; none after a removal."""
    chance = random.Random(seed)
    current: dict[tuple[str, int], int] = {}
    expected: dict[str, Backwards] = {}
    batches: list[list[Record] | bytes] = []
    for at in range(30):
        batch = []
        group, count = chance.choice("abc"), chance.choice([1, 2, 5, WIDE])
        for partition in (chance.randrange(WIDE) for _ in range(count)):
            place = group, partition
            if chance.random() < 0.2:
                current.pop(place, None)
                batch.append(tombstone(*place))
                continue
            offset = current.get(place, 50) + chance.choice([-2, 0, 0, 3, 3, 3])
            if offset < current.get(place, 0):
                before = expected.get(group, Backwards())
                expected[group] = Backwards(count=before.count + 1, last_at=Millis(NOW + at))
            current[place] = offset
            batch.append(commit(group, partition, offset, at))
        batches.append(batch)
    found = replayed(tmp_path, *batches)
    assert found.backwards == {GroupId(group): each for group, each in expected.items()}
    for (group, partition), offset in current.items():
        stored = found.shard.offsets.get(GroupId(group), TopicName("t"), partition)
        assert stored is not None and stored.offset == offset


def test_records_that_cannot_be_decoded_are_counted_and_change_nothing(tmp_path: Path) -> None:
    spoilt = commit("g", 0, 5)._replace(value=b"\0\3\0")
    not_text = commit("g", 0, 6)
    assert not_text.value is not None
    not_text = not_text._replace(value=not_text.value[:14] + b"\0\1\xff" + not_text.value[16:])
    plain = [commit("g", partition, 9) for partition in range(WIDE)]
    found = replayed(tmp_path, [*plain, spoilt, not_text], [Record(b"\0\1", b"", NOW)])
    assert found.unreadable == 3
    assert [stored.offset for _, _, stored in found.shard.offsets.offsets_of(GroupId("g"))] == [9] * WIDE


def test_a_commit_that_a_crash_cut_does_not_count(tmp_path: Path) -> None:
    whole = [commit("g", at, 7, 0, RunPlace(0, at, 4).header()) for at in range(4)]
    cut = [commit("g", at, 3, 0, RunPlace(4, at, 9).header()) for at in range(4)]
    found = replayed(tmp_path, whole[:2], whole[2:], cut)
    assert found.backwards == {}
    assert {stored.offset for _, _, stored in found.shard.offsets.offsets_of(GroupId("g"))} == {7}


@pytest.mark.parametrize("ends", ["commit", "abort", None])
def test_transactional_commits_count_from_their_commit_marker_on(tmp_path: Path, ends: str | None) -> None:
    """Those of aborted and open transactions never do."""
    batches: list[list[Record] | bytes] = [[commit("g", 0, 9)]]
    for offset in (8, 2):
        records = [commit("g", 0, offset)]
        batch = encode_batch(records, producer_id=7, producer_epoch=0, is_transactional=True)
        place_batch(batch, 0, len(batches), 0)
        batches.append(bytes(batch))
    if ends is not None:
        marker = encode_marker(EndMarker(ends == "commit", 0), 7, 0, NOW)
        place_batch(marker, 0, len(batches), 0)
        batches.append(bytes(marker))
    found = replayed(tmp_path, *batches)
    stored = found.shard.offsets.get(GroupId("g"), TopicName("t"), 0)
    counts = ends == "commit"
    assert stored is not None and stored.offset == (2 if counts else 9)
    assert sum(each.count for each in found.backwards.values()) == counts
