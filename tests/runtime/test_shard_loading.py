"""Fast loading: for any log, the result equals that of reading record by record."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columns import column_batch
from tests.core.kinds_of_shard import consumer_groups
from tests.core.shard_states import changes, commits, state_of

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records, place_batch, read_header
from headgate.log.header import CONTROL, BatchHeader
from headgate.log.markers import EndMarker, encode_marker, read_marker
from headgate.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTombstone,
    ConsumerRecordType,
    GroupMetadata,
    MalformedRecord,
    OffsetCommit,
    decode,
    encode,
)
from headgate.records.consumer_model import NEVER
from headgate.records.runs import HEADER_KEY, RunPlace, RunReader, run_place
from headgate.runtime import log_slices, shard_loading
from headgate.runtime.log_slices import slices
from headgate.runtime.shard_loading import LogLoading
from headgate.shards.group_batches import TurnBatches
from headgate.shards.groups import GROUP_RECORDS

Batches = list[tuple[BatchHeader, bytes]]

commands = st.lists(changes, min_size=1, max_size=12)
pieces = st.one_of(
    st.tuples(st.just("turn"), st.lists(commands, min_size=1, max_size=4)),
    st.tuples(st.just("run"), commands, st.integers(1, 9), st.integers(0, 30)),
    st.tuples(st.just("headers"), commands),
    st.tuples(st.just("codec"), commands, st.integers(1, 4)),
    st.tuples(st.just("old"), commits, st.integers(0, 4)),
    st.tuples(st.just("control")),
    st.tuples(st.just("transaction"), st.integers(1, 2), commands, st.sampled_from([None, True, False])),
    st.tuples(st.just("gaps"), commands, st.integers(1, 300)),
)


class LogText:
    """Batches at consecutive offsets."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.end = 0

    def add(self, batch: bytearray) -> None:
        place_batch(batch, 0, self.end, 0)
        header = read_header(batch)
        self.end = header.next_offset
        self.batches.append((header, bytes(batch)))

    def add_records(self, records: list[Record], **given: Any) -> None:
        self.add(encode_batch(records, **given))


def _singles(changes: list[Any]) -> list[Any]:
    return [one for change in changes for one in (change.each() if hasattr(change, "each") else (change,))]


def _as_records(changes: list[Any], headers: Any = ()) -> list[Record]:
    return [Record(*encode(one), 11, headers) for one in _singles(changes)]


def log_of(script: list[Any]) -> Batches:
    """Make the log that a script describes."""
    log = LogText()
    for piece in script:
        match piece:
            case ("turn", turn):
                for batch in TurnBatches().of(turn, log.end, Millis(11)):
                    log.add(batch)
            case ("run", changes, batch_size, missing):
                records, first = _as_records(changes), log.end
                placed = [
                    record._replace(headers=(RunPlace(first, before, len(records)).header(),))
                    for before, record in enumerate(records)
                ]
                placed = placed[: max(len(placed) - missing, 0)] if missing < 10 else placed
                for start in range(0, len(placed), batch_size):
                    log.add_records(placed[start : start + batch_size])
            case ("headers", changes):
                log.add_records(_as_records(changes, ((b"trace", b"1"), (HEADER_KEY, b"short"))))
            case ("codec", changes, codec):
                log.add_records(_as_records(changes), codec=codec)
            case ("old", commit, version):
                key, value = encode(commit)
                assert value is not None
                log.add_records([Record(key, version.to_bytes(2, "big") + value[2:], 11)])
            case ("control",):
                log.add_records([Record(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", 11)])
                header, marked = log.batches[-1]
                log.batches[-1] = (header._replace(attributes=header.attributes | CONTROL), marked)
            case ("transaction", producer_id, changes, is_committed):
                of = {"producer_id": producer_id, "producer_epoch": 3, "is_transactional": True}
                log.add_records(_as_records(changes), **of)
                if is_committed is not None:
                    log.add(encode_marker(EndMarker(is_committed, 0), producer_id, 3, 11))
            case ("gaps", changes, gap):
                # As after a compaction: records are missing, times differ.
                gapped = encode_batch(_as_records(changes))
                gapped[23:27] = (int.from_bytes(gapped[23:27], "big") + gap).to_bytes(4, "big")
                log.add(gapped)
    return log.batches


def load_one_by_one(shard: GroupShard, batches: Batches) -> list[Any]:
    """Load by definition: decode and apply every record in order, except those of incomplete runs."""
    runs: RunReader[tuple[int, Record]] = RunReader()
    for header, batch in batches:
        producer = Producer(header.producer_id, header.producer_epoch)
        if header.is_control:
            if (marker := read_marker(batch)) is not None:
                shard.end_transaction(TransactionEnd(producer, *marker), header.base_offset)
            continue
        for offset, record in iterate_records(batch):
            if header.is_transactional:
                runs.take((offset, record), None)
                shard.apply(decode(record.key, record.value, Millis(record.timestamp)), offset, producer)
            elif record.headers or runs.is_open:
                for at, complete in runs.take((offset, record), run_place(record.headers)):
                    shard.apply(decode(complete.key, complete.value, Millis(complete.timestamp)), at)
            else:
                shard.apply(decode(record.key, record.value, Millis(record.timestamp)), offset)
    return [decode(record.key, record.value) for _, record in runs.end()]


def load_quickly(shard: GroupShard, batches: Batches, at_once: int) -> list[Any]:
    with patch.object(log_slices, "RECORDS_AT_ONCE", at_once):
        loading = LogLoading(shard, GROUP_RECORDS)
        for held in slices(batches):
            for _ in loading.steps(held):
                pass
    return loading.torn()


def outcome(load: Any) -> Any:
    shard = GroupShard(Settings({}))
    try:
        torn = load(shard)
    except (CorruptBatch, MalformedRecord) as problem:
        return type(problem)
    return torn, state_of(shard)


@given(st.lists(pieces, max_size=14), st.sampled_from([1, 7, 60, 10_000]), st.booleans())
@settings(deadline=None, max_examples=100)
def test_quick_loading_leads_where_record_by_record_leads(
    script: list[Any], at_once: int, is_patient: bool
) -> None:
    """Commits, tombstones, groups, complete and incomplete runs, markers, changing times, in any slices."""
    batches = log_of(script)
    expected = outcome(lambda shard: load_one_by_one(shard, batches))
    with patch.object(shard_loading, "_FEWEST_BETWEEN", 1 if is_patient else 16):
        assert outcome(lambda shard: load_quickly(shard, batches, at_once)) == expected


@given(st.lists(pieces, min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=100)
def test_a_damaged_log_is_refused_quickly_where_it_is_refused_slowly(script: list[Any], data: Any) -> None:
    """Any byte of the records may change: both ways read the same, or both fail."""
    batches = log_of(script)
    if not batches:
        return
    at = data.draw(st.integers(0, len(batches) - 1))
    header, batch = batches[at]
    place = data.draw(st.integers(57, len(batch) - 1))
    damaged = bytearray(batch)
    damaged[place] = data.draw(st.integers(0, 255))
    batches[at] = (read_header(damaged)._replace(attributes=header.attributes), bytes(damaged))
    expected = outcome(lambda shard: load_one_by_one(shard, batches))
    with patch.object(shard_loading, "_FEWEST_BETWEEN", 1):
        found = outcome(lambda shard: load_quickly(shard, batches, 10_000))
    if isinstance(expected, type) and isinstance(found, type):
        return
    assert found == expected


@pytest.mark.interpreted
def test_a_wide_log_is_not_read_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of a thousand partitions, with single records of groups between, are loaded as columns."""
    changes: list[list[Any]] = []
    for group in range(20):
        numbers = np.arange(1000)
        changes.append(
            [column_batch(GroupId(f"g{group}"), TopicName("t"), numbers, numbers, numbers, "", Millis(1))]
        )
        changes.append([GroupMetadata(GroupId(f"g{group}"), "consumer", 1, None, None, Millis(1))])
    log = LogText()
    for batch in TurnBatches().of(changes, 0, Millis(1)):
        log.add(batch)
    shard = GroupShard(Settings({}))
    applied: list[Any] = []
    apply = shard.apply

    def watch(record: Any, position: int) -> None:
        applied.append(record)
        apply(record, position)

    monkeypatch.setattr(shard, "apply", watch)
    load_quickly(shard, log.batches, 5000)
    assert len(shard.offsets) == 20_000
    assert {type(record) for record in applied} == {GroupMetadata}
    assert len(applied) == 20


@pytest.mark.interpreted
def test_a_commit_over_several_batches_is_not_read_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run between other commits is loaded as columns, and so is the next run."""
    numbers = np.arange(30_000)
    log = LogText()
    for number, group in enumerate(["a", "wide", "b", "wide", "wide"]):
        count = len(numbers) if group == "wide" else 5
        held = numbers[:count]
        change = column_batch(GroupId(group), TopicName("t"), held, held + number, held, "", Millis(1))
        for batch in TurnBatches().of([[change]], log.end, Millis(1)):
            log.add(batch)
    assert len(log.batches) > 8
    shard = GroupShard(Settings({}))
    monkeypatch.setattr(shard, "apply", lambda record, position: pytest.fail("one by one"))
    assert load_quickly(shard, log.batches, 4000) == []
    assert len(shard.offsets) == 30_010
    found = shard.offsets.get(GroupId("wide"), TopicName("t"), 29_999)
    assert found is not None
    assert found.offset == 30_003


def test_a_group_is_not_empty_whatever_order_compaction_left_its_records_in() -> None:
    """Its own record may precede those of its members; it does not say when the group became empty."""
    group_id, member_id = GroupId("g"), MemberId("m")
    member = ConsumerGroupMemberMetadata(group_id=group_id, member_id=member_id)
    own = ConsumerGroupMetadata(group_id=group_id, epoch=1)
    found: list[Any] = []
    for records in ((member, own), (own, member)):
        log = LogText()
        for record in records:
            log.add_records([Record(*encode(record), 1_000)])
        shard = GroupShard(Settings({}))
        for _ in LogLoading(shard, GROUP_RECORDS).steps(log.batches):
            pass
        found.append(list(consumer_groups(shard).by_id[group_id].records()))
    assert found == [[member, own]] * 2


@pytest.mark.parametrize("with_plain_offsets", [False, True])
def test_an_empty_group_that_kafka_wrote_is_empty_since_its_last_epoch(with_plain_offsets: bool) -> None:
    """Kafka raises the epoch when the last member leaves; the time is that of the record (R0.4)."""
    group_id, member_id = GroupId("g"), MemberId("m")
    member = ConsumerGroupMemberMetadata(group_id=group_id, member_id=member_id)
    log = LogText()
    written: list[tuple[int, Any]] = [
        (1_000, member),
        (1_000, ConsumerGroupMetadata(group_id=group_id, epoch=1)),
        (5_000, ConsumerGroupTombstone(ConsumerRecordType.MEMBER, group_id, member_id)),
        (5_000, ConsumerGroupMetadata(group_id=group_id, epoch=2)),
    ]
    if with_plain_offsets:
        offset = OffsetCommit(group_id, TopicName("t"), 0, 1, -1, "", Millis(900))
        written = [(900, offset), *written[:2], *([(2_000, offset)] * 40), *written[2:]]
    for time, record in written:
        log.add_records([Record(*encode(record), time)])
    for applied, expected in ((written[:-2], NEVER), (written, Millis(5_000))):
        shard = GroupShard(Settings({}))
        for _ in LogLoading(shard, GROUP_RECORDS).steps(log.batches[: len(applied)]):
            pass
        assert consumer_groups(shard).by_id[group_id].empty_since == expected
