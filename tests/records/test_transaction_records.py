"""The records of `__transaction_state` against Kafka's schemas, and bytes that are no such records."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import Millis, TopicName
from headgate.records import MalformedRecord
from headgate.records.reader import Reader
from headgate.records.transactions import (
    TransactionMetadata,
    TransactionState,
    TransactionTombstone,
    decode_transaction,
    encode_transaction,
)

KEY = b"\x00\x00\x00\x01x"
VERSION_0 = (
    struct.pack(">hqhib", 0, 7, 3, 60_000, 1)
    + struct.pack(">i", 1)
    + struct.pack(">h1sii", 1, b"t", 1, 5)
    + struct.pack(">qq", 2_000, 1_000)
)
ONGOING = TransactionMetadata(
    transactional_id="x",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions={TopicName("t"): frozenset({5})},
    start_timestamp=Millis(1_000),
    last_update_timestamp=Millis(2_000),
)
VERSION_1 = (
    struct.pack(">hqhib", 1, 7, 3, 60_000, 1)
    + b"\x02" + b"\x02t" + b"\x02" + struct.pack(">i", 5) + b"\x00"
    + struct.pack(">qq", 2_000, 1_000)
)  # fmt: skip


def test_version_0_is_read() -> None:
    """As a broker of before transaction.version wrote it: what it does not know is unknown."""
    assert decode_transaction(KEY, VERSION_0) == ONGOING


def test_version_1_of_kafka_is_read() -> None:
    """Without tagged fields, and with those of Kafka and one of a later version."""
    assert decode_transaction(KEY, VERSION_1 + b"\x00") == ONGOING
    tags = b"\x03" + b"\x00\x08" + struct.pack(">q", 6) + b"\x02\x02\x00\x02" + b"\x09\x01?"
    found = decode_transaction(KEY, VERSION_1 + tags)
    assert isinstance(found, TransactionMetadata)
    assert (found.previous_producer_id, found.next_producer_id, found.client_transaction_version) == (
        6,
        -1,
        2,
    )


def test_a_tombstone_has_no_value() -> None:
    """It removes the transactional id."""
    tombstone = TransactionTombstone("x")
    assert encode_transaction(tombstone) == (KEY, None)
    assert decode_transaction(KEY, None) == tombstone


def test_the_states_of_a_transaction_take_the_same_room() -> None:
    """A transaction whose partitions just fit into a record can also be ended."""
    sizes = set()
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        for producer_id in (-1, 2**63 - 1):
            record = TransactionMetadata(
                transactional_id="x",
                producer_id=7,
                producer_epoch=32_767,
                last_producer_epoch=-1 if producer_id < 0 else 32_766,
                previous_producer_id=producer_id,
                next_producer_id=producer_id,
                timeout_ms=1,
                state=state,
                partitions=ONGOING.partitions,
                last_update_timestamp=Millis(0),
                client_transaction_version=2,
            )
            key, value = encode_transaction(record)
            assert value is not None and decode_transaction(key, value) == record
            sizes.add(len(value))
    assert len(sizes) == 1


@pytest.mark.parametrize("size", range(len(VERSION_1)))
def test_a_value_that_ends_too_early_is_malformed(size: int) -> None:
    """Wherever it is cut."""
    with pytest.raises(MalformedRecord):
        decode_transaction(KEY, VERSION_1[:size])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VERSION_0),
        (b"\x00\x01\x00\x01x", VERSION_0),
        (KEY + b"?", VERSION_0),
        (KEY, VERSION_0 + b"?"),
        (KEY, b"\x00\x02" + VERSION_0[2:]),
        (KEY, VERSION_0[:16] + b"\x08" + VERSION_0[17:]),
        (KEY, VERSION_1 + b"\x01\x00\x07" + bytes(7)),
    ],
    ids=["no key", "key version", "long key", "long value", "value version", "state", "tag"],
)
def test_bytes_that_are_no_record_are_malformed(key: bytes | None, value: bytes) -> None:
    """A shard with such a log is not loaded."""
    with pytest.raises(MalformedRecord):
        decode_transaction(key, value)


def record_with(partitions: dict[TopicName, frozenset[int]]) -> TransactionMetadata:
    return replace(ONGOING, partitions=partitions)


@given(
    st.dictionaries(
        st.text(max_size=140).map(TopicName), st.frozensets(st.integers(0, 2**31 - 1), min_size=1), max_size=5
    )
)
def test_partitions_of_any_names_and_numbers_are_read_as_written(
    partitions: dict[TopicName, frozenset[int]],
) -> None:
    """Topics in the usual form are read many at a time, others one by one."""
    record = record_with(partitions)
    assert decode_transaction(*encode_transaction(record)) == record


@given(st.data())
def test_bytes_that_are_cut_or_changed_are_refused_or_another_record(data: st.DataObject) -> None:
    """And raise nothing else: a topic that is named twice, an array without end, text that is no UTF-8."""
    topics = {TopicName(f"t{number}"): frozenset({number}) for number in range(4)}
    key, value = encode_transaction(record_with(topics))
    assert value is not None
    changed = bytearray(value[: data.draw(st.integers(0, len(value)))])
    if changed:
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedRecord):
        decode_transaction(key, bytes(changed))


def test_a_topic_that_is_named_twice_has_the_partitions_of_both() -> None:
    """And one without partitions is left out."""
    rows = b"\x04" + b"\x02t\x02\x00\x00\x00\x05\x00" + b"\x02t\x02\x00\x00\x00\x06\x00" + b"\x02u\x01\x00"
    value = VERSION_1.replace(b"\x02\x02t\x02\x00\x00\x00\x05\x00", rows) + b"\x00"
    assert decode_transaction(KEY, value) == record_with({TopicName("t"): frozenset({5, 6})})


def test_a_record_of_ten_thousand_topics_is_read_without_a_call_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It held the loop for 40 ms."""
    takes = 0
    take = Reader.take

    def counted(reader: Reader, size: int) -> bytes:
        nonlocal takes
        takes += 1
        return take(reader, size)

    key, value = encode_transaction(
        record_with({TopicName(f"topic-{number}"): frozenset({number}) for number in range(10_000)})
    )
    monkeypatch.setattr(Reader, "take", counted)
    found = decode_transaction(key, value)
    assert isinstance(found, TransactionMetadata) and len(found.partitions) == 10_000
    assert takes < 100
