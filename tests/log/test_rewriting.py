"""Batches without some of their records, and the batches that compaction processes as a group."""

from __future__ import annotations

import pytest

from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records, read_header, seal_batch
from headgate.log.batch_group import (
    LARGEST_BATCH_BYTES,
    LARGEST_BATCH_RECORDS,
    MOST_RECORDS,
    BatchGroup,
    keys_of,
    plain_columns,
)
from headgate.log.header import HEADER_BYTES
from headgate.log.recompression import with_codec
from headgate.log.rewriting import BatchRewriter, check_sum, emptied, unpacked

CODECS = [0, 1, 2, 3, 4]
RECORDS = [
    Record(b"a", b"first", 1000),
    Record(b"b", None, 3000, ((b"h", b"v"),)),
    Record(None, b"x" * 300, 2000),
    Record(b"d", b"", 1500),
]
LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40


def batch_of(codec: int = 0, attributes: int = 0) -> bytes:
    """The records from offset 70 on, by producer 9."""
    batch = bytes(encode_batch(RECORDS, base_offset=70, codec=codec))
    header = read_header(batch)
    body = batch[HEADER_BYTES:]
    fields = header._replace(attributes=header.attributes | attributes, producer_id=9, base_sequence=5)
    return bytes(seal_batch(fields, body))


def rewritten(batch: bytes, keep: list[int], horizon: int | None = None) -> bytes:
    header = read_header(batch)
    rewriter = BatchRewriter(header, horizon)
    assert (rewriter.count, rewriter.size_bytes) == (0, 0)
    for at, (offset, record) in enumerate(iterate_records(batch)):
        if at in keep:
            rewriter.add(offset, record)
    assert rewriter.count == len(keep)
    packed = rewriter.pack()
    if not header.codec:
        assert rewriter.size_bytes == len(packed) - HEADER_BYTES
    check_sum(read_header(packed), packed)
    return packed


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keep", [[0, 1, 2, 3], [1], [0, 3], [2], []])
@pytest.mark.parametrize("horizon", [None, 99_000])
def test_remaining_records_of_a_batch_do_not_change(codec: int, keep: list[int], horizon: int | None) -> None:
    """Offsets, timestamps, codec and the producer's sequence; the header has the largest remaining
    timestamp.
    """
    batch = batch_of(codec)
    before, pairs = read_header(batch), list(iterate_records(batch))
    packed = rewritten(batch, keep, horizon)
    header = read_header(packed)
    assert list(iterate_records(packed)) == [pairs[at] for at in keep]
    assert header == before._replace(
        size=len(packed),
        crc=header.crc,
        record_count=len(keep),
        max_timestamp=max((RECORDS[at].timestamp for at in keep), default=-1),
        base_timestamp=before.base_timestamp if horizon is None else horizon,
        attributes=before.attributes if horizon is None else before.attributes | DELETE_HORIZON,
    )
    if not horizon and len(keep) == 4:
        assert packed == batch


def test_the_log_append_time_of_a_batch_is_kept() -> None:
    """Whichever records remain."""
    batch = batch_of(attributes=LOG_APPEND_TIME)
    assert read_header(rewritten(batch, [0])).max_timestamp == 3000


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_batch_keeps_its_offsets_and_its_sequence(codec: int) -> None:
    """Without codec or delete horizon, with its largest timestamp for both."""
    batch = batch_of(codec, DELETE_HORIZON | LOG_APPEND_TIME)
    empty = emptied(read_header(batch))
    header = read_header(empty)
    check_sum(header, empty)
    assert header == read_header(batch)._replace(
        size=HEADER_BYTES,
        crc=header.crc,
        record_count=0,
        base_timestamp=3000,
        max_timestamp=3000,
        attributes=LOG_APPEND_TIME,
    )


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("to", CODECS)
def test_a_batch_is_recompressed(codec: int, to: int) -> None:
    """The records do not change; a delete horizon from a producer is ignored."""
    batch = batch_of(codec, LOG_APPEND_TIME)
    plain = unpacked(read_header(batch), batch)
    assert plain[HEADER_BYTES:] == batch_of()[HEADER_BYTES:]
    header = read_header(plain)
    assert (header.codec, header.attributes, header.size) == (0, LOG_APPEND_TIME, len(plain))
    again = bytes(
        with_codec(header._replace(attributes=DELETE_HORIZON | 0x08), plain[HEADER_BYTES:], to, None)
    )
    assert read_header(again).attributes == to | LOG_APPEND_TIME
    check_sum(read_header(again), again)
    assert list(iterate_records(again)) == list(iterate_records(batch))


def test_a_wrong_crc_is_detected() -> None:
    """In the first and in the last byte that it covers."""
    batch = batch_of()
    for at in (21, len(batch) - 1):
        spoilt = batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]
        with pytest.raises(CorruptBatch, match="at offset 70 is wrong"):
            check_sum(read_header(batch), spoilt)
        with pytest.raises(CorruptBatch):
            plain_columns([(read_header(batch), spoilt)])


def test_only_ordinary_batches_go_into_a_group() -> None:
    """With limited records and bytes, no codec, no control batch, no transaction."""
    header = read_header(batch_of())
    cases: list[tuple[dict[str, int], bool]] = [
        ({}, True),
        ({"record_count": 0}, False),
        ({"record_count": 1}, True),
        ({"record_count": LARGEST_BATCH_RECORDS}, True),
        ({"record_count": LARGEST_BATCH_RECORDS + 1}, False),
        ({"size": LARGEST_BATCH_BYTES}, True),
        ({"size": LARGEST_BATCH_BYTES + 1}, False),
        ({"attributes": 1}, False),
        ({"attributes": 0x20}, False),
        ({"attributes": 0x10}, False),
        ({"attributes": LOG_APPEND_TIME}, True),
    ]
    for fields, is_taken in cases:
        assert BatchGroup.takes(header._replace(**fields)) is is_taken, fields


def test_a_group_is_full_by_its_number_of_records() -> None:
    """Counted over its batches; `take` empties it."""
    header = read_header(batch_of())
    group = BatchGroup()
    group.add(header._replace(record_count=MOST_RECORDS - 4), b"")
    assert not group.is_full
    group.add(header, b"x")
    assert (group.is_full, group.record_count) == (True, MOST_RECORDS)
    assert [batch for _, batch in group.take()] == [b"", b"x"]
    assert (group.is_full, group.record_count, group.take()) == (False, 0, [])


def test_plain_records_have_keys_and_no_headers() -> None:
    """Others are processed one by one."""
    plain = [Record(b"a", b"1", 5), Record(b"", None, 5), Record(b"ccc", b"3", 5)]

    def columns(*records: Record) -> list[bytes] | None:
        batch = bytes(encode_batch(list(records)))
        found = plain_columns([(read_header(batch), batch)])
        return None if found is None else keys_of(found)

    assert columns(*plain) == [b"a", b"", b"ccc"]
    assert columns(*plain, Record(None, b"x", 5)) is None
    assert columns(*plain, Record(b"k", b"x", 5, ((b"h", None),))) is None
