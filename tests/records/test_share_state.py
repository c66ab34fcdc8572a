"""The records of `__share_group_state` in Kafka's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.inspect.share_state_records import share_state_record
from headgate.records.errors import MalformedRecord
from headgate.records.share_batches import StateBatch, StateBatches
from headgate.records.share_state import decode_share, encode_share
from headgate.records.share_state_model import (
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
    UnknownShareRecord,
)

KEY = ShareKey(GroupId("g1"), TopicId(bytes(range(16))), 7)
BATCHES = StateBatches.of([StateBatch(5, 9, 2, 1), StateBatch(2**62, 2**62 + 1, 4, 300)])
SNAPSHOT = ShareSnapshot(
    key=KEY,
    snapshot_epoch=1,
    state_epoch=2,
    leader_epoch=3,
    start_offset=4,
    created=Millis(5),
    written=Millis(6),
    batches=BATCHES,
)
UPDATE = ShareUpdate(key=KEY, snapshot_epoch=1, leader_epoch=3, start_offset=-1, batches=BATCHES)

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
rows = st.lists(
    st.builds(StateBatch, int64s, int64s, st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1))
)


def test_a_snapshot_has_kafkas_bytes() -> None:
    """Key type 0; the fields in the schema's order; the count as tag 0, unless it is unknown."""
    key, value = encode_share(SNAPSHOT)
    assert key.hex() == "000000026731000102030405060708090a0b0c0d0e0f00000007"
    batches = "0300000000000000050000000000000009020001004000000000000000400000000000000104012c00"
    head = "0000000000010000000200000003000000000000000400000000000000050000000000000006"
    assert value is not None
    assert value.hex() == head + batches + "00"


def test_an_update_has_kafkas_bytes() -> None:
    """Key type 1, without state epoch and times."""
    record = ShareUpdate(
        key=KEY, snapshot_epoch=1, leader_epoch=3, start_offset=-1, delivery_complete_count=9
    )
    key, value = encode_share(record)
    assert key[:2] == b"\x00\x01"
    assert value is not None
    assert value.hex() == "00000000000100000003ffffffffffffffff0101000400000009"


@given(int32s, int64s, rows)
@settings(max_examples=30)
def test_records_are_read_as_they_were_written(number: int, offset: int, batches: list[StateBatch]) -> None:
    """Snapshots, updates, tombstones, and records of key types of the future."""
    many = StateBatches.of(batches)
    records: list[ShareRecord] = [
        ShareSnapshot(
            key=KEY,
            snapshot_epoch=number,
            state_epoch=number,
            leader_epoch=number,
            start_offset=offset,
            delivery_complete_count=number,
            created=Millis(offset),
            written=Millis(offset),
            batches=many,
        ),
        ShareUpdate(
            key=KEY,
            snapshot_epoch=number,
            leader_epoch=number,
            start_offset=offset,
            delivery_complete_count=number,
            batches=many,
        ),
        ShareTombstone(KEY),
        UnknownShareRecord(b"\x00\x09key", b"value"),
    ]
    for record in records:
        assert decode_share(*encode_share(record), Millis(0)) == record


@pytest.mark.parametrize("record", [SNAPSHOT, UPDATE])
def test_bytes_that_end_too_early_or_too_late_are_refused(record: ShareRecord) -> None:
    """At every length, with an error that names the record."""
    key, value = encode_share(record)
    assert value is not None
    for size in range(len(value)):
        with pytest.raises(MalformedRecord, match="share"):
            decode_share(key, value[:size], Millis(0))
    for size in range(1, len(key)):
        with pytest.raises(MalformedRecord):
            decode_share(key[:size], value, Millis(0))
    for bad in (value + b"\x00", b"\x00\x01" + value[2:]):
        with pytest.raises(MalformedRecord):
            decode_share(key, bad, Millis(0))
    with pytest.raises(MalformedRecord):
        decode_share(None, value, Millis(0))


@pytest.mark.parametrize(
    ("record", "words", "details"),
    [
        (
            SNAPSHOT,
            '"g1" in partition 7 of topic AAECAwQFBgcICQoLDA0ODw begins at 4 with 2 state batches',
            {"kind": "share-snapshot", "state_epoch": 2, "batch_count": 2, "delivery_complete_count": None},
        ),
        (
            UPDATE,
            '"g1" in partition 7 of topic AAECAwQFBgcICQoLDA0ODw is updated with 2 state batches',
            {"kind": "share-update", "start_offset": None, "leader_epoch": 3},
        ),
        (
            ShareTombstone(KEY),
            'tombstone: "g1" in partition 7 of topic AAECAwQFBgcICQoLDA0ODw has no state any more',
            {"kind": "share-state-tombstone", "group": "g1", "partition": 7},
        ),
    ],
)
def test_records_are_explained(record: ShareRecord, words: str, details: dict[str, object]) -> None:
    """For `headgate log dump`, in a sentence and as JSON."""
    meaning = share_state_record(*encode_share(record))
    assert meaning["words"] == words
    assert {name: meaning[name] for name in details} == details


def test_records_that_cannot_be_explained_say_so() -> None:
    """Malformed bytes, and key types of the future."""
    assert share_state_record(b"\x00\x00", b"")["kind"] == "malformed"
    assert share_state_record(b"\x00\x09", b"")["kind"] == "unknown"
