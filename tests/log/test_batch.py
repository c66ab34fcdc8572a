"""Record batches, compared with hand-written bytes, other implementations, and random bytes."""

from __future__ import annotations

import struct

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st
from tests.log.peers import DefaultRecordBatchBuilder, MemoryRecords, read_batch_by_kio
from tests.log.support import headers_of

from headgate.log import compression
from headgate.log.batch import (
    CorruptBatch,
    Record,
    encode_batch,
    iterate_records,
    place_batch,
    read_header,
    set_log_append_time,
)

CODECS = [0, compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]

GOLDEN_BODY = bytes.fromhex(
    "0000"  # attributes: no compression, create time
    "00000001"  # last offset delta
    "0000018bcfe56800"  # base timestamp 1700000000000
    "0000018bcfe56807"  # max timestamp, 7 ms later
    "ffffffffffffffff"  # no producer id
    "ffff"  # no producer epoch
    "ffffffff"  # no base sequence
    "00000002"  # two records
    # record 0: length 9, attributes, timestamp +0, offset +0, key "k", value "v1", no headers
    "12 00 00 00 02 6b 04 7631 00"
    # record 1: length 13, attributes, timestamp +7, offset +1, null key, null value, headers h=x and i=null
    "1a 00 0e 02 01 01 04 02 68 02 78 02 69 01"
)
GOLDEN = (
    bytes.fromhex("000000000000002a")  # base offset 42
    + struct.pack(">i", len(GOLDEN_BODY) + 9)  # batch length
    + bytes.fromhex("0000000502")  # leader epoch 5, magic 2
    + struct.pack(">I", crc32c(GOLDEN_BODY))
    + GOLDEN_BODY
)
GOLDEN_RECORDS = [
    Record(b"k", b"v1", 1_700_000_000_000),
    Record(None, None, 1_700_000_000_007, [(b"h", b"x"), (b"i", None)]),
]

optional_bytes = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    optional_bytes,
    optional_bytes | st.binary(min_size=1000, max_size=9000),
    st.integers(min_value=-1, max_value=2**55),
    st.lists(st.tuples(st.binary(max_size=20), optional_bytes), max_size=3),
)
record_lists = st.lists(records, min_size=1, max_size=12)


def plain(record: Record) -> tuple[object, ...]:
    """A record with its headers as a list, however they are held."""
    return (record.key, record.value, record.timestamp, list(record.headers))


def resummed(batch: bytes | bytearray) -> bytes:
    """The batch with a CRC that agrees with what it holds."""
    return bytes(batch[:17]) + struct.pack(">I", crc32c(bytes(batch[21:]))) + bytes(batch[21:])


def test_a_batch_is_exactly_kafkas_bytes() -> None:
    """Two records with a null key, a tombstone and headers give the bytes written down by hand."""
    assert encode_batch(GOLDEN_RECORDS, base_offset=42, leader_epoch=5) == GOLDEN


def test_kafkas_bytes_are_decoded() -> None:
    """Into the offsets, keys, values, timestamps and headers in them."""
    assert [(offset, plain(record)) for offset, record in iterate_records(GOLDEN)] == [
        (42, plain(GOLDEN_RECORDS[0])),
        (43, plain(GOLDEN_RECORDS[1])),
    ]


def test_header_fields() -> None:
    """Every field and every derived property."""
    batch = encode_batch(
        [Record(b"a", b"b", 30), Record(b"a", b"b", 10), Record(b"a", b"b", 20)],
        base_offset=7,
        leader_epoch=3,
        producer_id=99,
        producer_epoch=4,
        base_sequence=2**31 - 2,
        is_transactional=True,
        codec=compression.ZSTD,
    )
    header = read_header(b"xyz" + batch, 3)
    assert header.base_offset == 7
    assert header.size == len(batch)
    assert (header.leader_epoch, header.magic) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (30, 30)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (99, 4, 2**31 - 2)
    assert (header.last_offset, header.next_offset, header.record_count) == (9, 10, 3)
    assert header.last_sequence == 0, "sequences wrap after the largest int"
    assert header.codec == compression.ZSTD
    assert header.is_transactional and not header.is_control and not header.uses_log_append_time
    assert headers_of(batch) == [header]


def test_control_batches_are_marked() -> None:
    """The header says so, and the batch is read like any other."""
    batch = encode_batch([Record(b"\0\0\0\1", b"\0\0\0\0\0\0", 5)], is_control=True)
    assert read_header(batch).is_control
    assert [record.key for _, record in iterate_records(batch)] == [b"\0\0\0\1"]


@given(record_lists, st.sampled_from(CODECS), st.integers(min_value=0, max_value=2**62))
def test_encoded_records_are_decoded(sent: list[Record], codec: int, base_offset: int) -> None:
    """Any records with any codec are equal, at consecutive offsets, in a valid batch."""
    batch = encode_batch(sent, base_offset=base_offset, codec=codec)
    (header,) = headers_of(batch)
    assert header.max_timestamp == max(record.timestamp for record in sent)
    read = list(iterate_records(batch))
    assert [offset for offset, _ in read] == list(range(base_offset, base_offset + len(sent)))
    assert [plain(record) for _, record in read] == [plain(record) for record in sent]


@given(st.lists(record_lists, max_size=4))
def test_concatenated_batches_are_read_in_order(runs: list[list[Record]]) -> None:
    """Their records are the concatenated records."""
    buffer, offset = bytearray(), 0
    for run in runs:
        buffer += encode_batch(run, base_offset=offset)
        offset += len(run)
    assert [header.record_count for header in headers_of(buffer)] == [len(run) for run in runs]
    expected = [plain(record) for run in runs for record in run]
    assert [plain(record) for _, record in iterate_records(memoryview(buffer))] == expected


@given(record_lists)
def test_kio_reads_our_batches(sent: list[Record]) -> None:
    """Another implementation of the format decodes the same records."""
    # kio gives datetimes, which end in the year 9999.
    sent = [record._replace(timestamp=record.timestamp % 2**40) for record in sent]
    encoded = bytes(encode_batch(sent, base_offset=5))
    batch, size = read_batch_by_kio(encoded, 0)
    assert (batch.base_offset, size) == (5, len(encoded))
    assert [(r.key, r.value, [(h.key, h.value) for h in r.headers]) for r in batch.records] == [
        (r.key, r.value, list(r.headers)) for r in sent
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_every_codec_written_here(codec: int) -> None:
    """A client library unpacks each codec and finds the CRC right."""
    sent = [Record(b"k%d" % at, b"value " * at, 1000 + at, [(b"h", b"x")]) for at in range(100)]
    batch = MemoryRecords(bytes(encode_batch(sent, codec=codec))).next_batch()
    assert batch.validate_crc()
    assert [(r.key, r.value, r.timestamp) for r in batch] == [(r.key, r.value, r.timestamp) for r in sent]


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_pythons_batches_are_read(codec: int) -> None:
    """Whatever framing its codec uses."""
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for at in range(100):
        builder.append(at, timestamp=1000 + at, key=b"k", value=b"value " * at, headers=[("h", b"x")])
    built = bytes(builder.build())
    (header,) = headers_of(built)
    assert header.codec == codec
    read = [record for _, record in iterate_records(built)]
    assert [record.value for record in read] == [b"value " * at for at in range(100)]
    assert list(read[0].headers) == [(b"h", b"x")]


def test_placing_a_batch_keeps_its_crc_valid() -> None:
    """Base offset and leader epoch change in place."""
    buffer = bytearray(b"??") + encode_batch([Record(b"k", b"v", 1)] * 3)
    place_batch(buffer, 2, 1234, 9)
    (header,) = headers_of(buffer[2:])
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (1234, 9, 1237)


def test_log_append_time_replaces_record_timestamps() -> None:
    """Every record has the append time, and the CRC is correct."""
    buffer = encode_batch([Record(b"k", b"v", 1), Record(b"k", b"v", 2)])
    set_log_append_time(buffer, 0, 777)
    (header,) = headers_of(buffer)
    assert header.uses_log_append_time and header.max_timestamp == 777
    assert [record.timestamp for _, record in iterate_records(buffer)] == [777, 777]


def test_a_batch_needs_a_record() -> None:
    """An empty batch cannot be encoded."""
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_a_batch_cut_anywhere_is_refused(size: int) -> None:
    """No prefix of a batch is accepted, before others or alone."""
    if size:
        with pytest.raises(CorruptBatch):
            list(iterate_records(GOLDEN[:size]))
        with pytest.raises(CorruptBatch):
            list(iterate_records(GOLDEN + GOLDEN[:size]))
    with pytest.raises(CorruptBatch):
        read_header(GOLDEN[: min(size, 60)])


@pytest.mark.parametrize(
    ("records_hex", "reason"),
    [
        ("", "end within a record"),
        ("0e 00 00 00 01 01 00", "claims 7 bytes, 6 are left"),
        ("01 00 00 00 01 01 00", "claims -1 bytes"),
        ("0e 00 00 00 01 01 00 00", "ends 1 bytes early"),
        ("0a 00 00 00 01 01 00", "claims 5 bytes|ends 1 bytes late"),
        ("0c 00 00 00 fe0f 01 00", "a field claims 1023 bytes"),
        ("0c 00 00 00 14 01 00", "end within a record"),
        ("0c 00 00 00 03 01 00", "a length is -2"),
        ("0c 00 00 02 01 01 00", "offset delta 1 follows -1"),
        ("0c 00 00 01 01 01 00", "offset delta -1 follows -1"),
        ("0c 00 00 00 01 01 01", "claims -1 headers"),
        ("0e 00 00 00 01 01 8001", "claims 64 headers"),
        ("10 00 00 00 01 01 02 01 01", "a header has no key"),
        ("ffffffffffffffffffffff01", "more than 64 bits"),
        ("80808080808080808002", "more than 64 bits"),
        ("0c 00 00 00 01 01 00 00", "1 bytes are left after the last record"),
    ],
)
def test_malformed_records_are_refused_with_a_reason(records_hex: str, reason: str) -> None:
    """Each inconsistency of a record raises CorruptBatch."""
    batch = encode_batch([Record(b"", b"", 0)])
    body = bytes.fromhex(records_hex)
    spoilt = batch[:8] + struct.pack(">i", 49 + len(body)) + batch[12:61] + body
    with pytest.raises(CorruptBatch, match=reason):
        list(iterate_records(spoilt))


@given(record_lists, st.sampled_from(CODECS), st.data())
def test_mutated_batches_raise_corrupt_batch_or_nothing(
    sent: list[Record], codec: int, data: st.DataObject
) -> None:
    """Bytes changed, cut or added anywhere never raise anything else, even with a correct CRC."""
    spoilt = encode_batch(sent, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(spoilt) - 1))
        replacement = data.draw(st.binary(max_size=4))
        spoilt[at : at + data.draw(st.integers(0, 4))] = replacement
        if not spoilt:
            return
    for attempt in (bytes(spoilt), resummed(spoilt) if len(spoilt) > 21 else b"\0"):
        try:
            list(iterate_records(attempt))
        except CorruptBatch as refusal:
            assert refusal.reason


@given(st.binary(max_size=300))
@example(b"\0" * 61)
@example(b"\xff" * 100)
def test_random_bytes_are_no_batch(nonsense: bytes) -> None:
    """They raise CorruptBatch and nothing else."""
    if nonsense:
        with pytest.raises(CorruptBatch):
            list(iterate_records(nonsense))


@pytest.mark.parametrize("codec", CODECS[1:])
@given(data=st.binary(max_size=100))
def test_random_bytes_decompress_or_raise_corrupt_batch(codec: int, data: bytes) -> None:
    """With every codec."""
    try:
        assert isinstance(compression.decompress(codec, data), bytes)
    except CorruptBatch as refusal:
        assert refusal.reason


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compression_round_trip(codec: int) -> None:
    """With every codec: no bytes, few, and more than one block."""
    for data in (b"", b"x", bytes(range(256)) * 2000):
        assert compression.decompress(codec, compression.compress(codec, data)) == data


def test_lz4_blocks_are_independent_as_java_requires() -> None:
    """The frame descriptor's independence bit is set even with several blocks."""
    assert compression.compress(compression.LZ4, bytes(300_000))[4] & 0x20


def test_xerial_framed_snappy_is_read_block_by_block() -> None:
    """The framing of Java and kafka-python is decompressed; a block with a wrong size is refused."""
    blocks = [b"first " * 50, b"second " * 50]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for block in blocks:
        packed = bytes(cramjam.snappy.compress_raw(block))
        framed += struct.pack(">i", len(packed)) + packed
    assert compression.decompress(compression.SNAPPY, framed) == b"".join(blocks)
    with pytest.raises(CorruptBatch, match="snappy block claims"):
        compression.decompress(compression.SNAPPY, framed + struct.pack(">i", 1000))
    with pytest.raises(CorruptBatch, match="within its header"):
        compression.decompress(compression.SNAPPY, b"\x82SNAPPY\x00\0\0")


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_decompresses_to_too_much_is_refused(codec: int) -> None:
    """Before its result is in memory."""
    bomb = compression.compress(codec, bytes(compression.LARGEST_OUTPUT_BYTES + 1))
    if 64 * len(bomb) < compression.LARGEST_OUTPUT_BYTES:
        with pytest.raises(CorruptBatch, match="unpack"):
            compression.decompress(codec, bomb)


def test_an_unknown_codec_is_refused() -> None:
    """There are four codecs."""
    with pytest.raises(CorruptBatch, match="codec 5 is unknown"):
        compression.decompress(5, b"")
    with pytest.raises(ValueError, match="number 5"):
        compression.compress(5, b"")
