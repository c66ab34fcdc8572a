"""Checks of produced batches: which are accepted, and as which bytes; compared with Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.topics.disk import NOW, batch
from tests.topics.raw_batches import THREE, YEARS_MS, raw_batch, raw_record

from headgate.domain.errors import ErrorCode
from headgate.domain.settings import Settings
from headgate.log.batch import CorruptBatch, iterate_records, read_header, varint
from headgate.log.compression import LARGEST_OUTPUT_BYTES, compress
from headgate.log.header import UnpacksToMore
from headgate.topics.admission import Admitted, AppendResult, admit, weight_of
from headgate.topics.policy import TopicPolicy, policy_of

CODECS = (0, 1, 2, 3, 4)
GOOD = raw_batch(THREE, 3)
INVALID, CORRUPT, TIME = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_TIMESTAMP


def policy(**overrides: str) -> TopicPolicy:
    """Return the policy of a topic with these settings; underscores for dots."""
    texts = {name.replace("_", "."): text for name, text in overrides.items()}
    return policy_of(Settings(), texts, is_always_compacted=False)


def refusal_of(data: bytes, **overrides: str) -> AppendResult:
    """Return the refusal of a batch."""
    answer = admit(data, policy(**overrides), NOW)
    assert isinstance(answer, AppendResult), "it was admitted"
    return answer


def admitted(data: bytes, **overrides: str) -> Admitted:
    """Return the batch as it is to be appended."""
    answer = admit(data, policy(**overrides), NOW)
    assert isinstance(answer, Admitted), answer
    assert read_header(answer.batch) == answer.header
    return answer


REFUSED: list[tuple[str, bytes, ErrorCode]] = [
    ("garbage for records", raw_batch(b"\xff" * 40, 3), INVALID),
    ("other garbage", raw_batch(bytes(range(40)), 3), INVALID),
    ("no records for three", raw_batch(b"", 3), INVALID),
    ("two records for three", raw_batch(raw_record() + raw_record(offset=1), 3), INVALID),
    ("four records for three", raw_batch(THREE + raw_record(offset=3), 3), INVALID),
    ("two of three, compressed", raw_batch(raw_record() + raw_record(offset=1), 3, codec=1), INVALID),
    ("four of three, compressed", raw_batch(THREE + raw_record(offset=3), 3, codec=4), INVALID),
    ("a count of 0", raw_batch(b"", 0), INVALID),
    ("a negative count", raw_batch(b"", -5), INVALID),
    ("a count of 2^31-1", raw_batch(THREE, 2**31 - 1), INVALID),
    ("a last delta that is no count", raw_batch(THREE, 3, last_delta=5), INVALID),
    ("offset deltas 0 0 0", raw_batch(raw_record() * 3, 3), INVALID),
    ("offset deltas 0 0 0, compressed", raw_batch(raw_record() * 3, 3, codec=1), INVALID),
    ("a negative offset delta", raw_batch(raw_record(offset=-1), 1), INVALID),
    ("a record longer than the batch", raw_batch(varint(200) + THREE, 1), INVALID),
    ("bytes left in a record", raw_batch(varint(20) + b"\0\0\0\x02k\x02v\0" + bytes(12), 1), INVALID),
    ("a record of negative length", raw_batch(varint(-3) + b"\0\0\0\1\1\0", 1), INVALID),
    ("an endless length", raw_batch(b"\xff" * 20, 1), INVALID),
    ("a key length of -5", raw_batch(varint(7) + b"\0\0\0" + varint(-5) + varint(1) + b"v\0", 1), INVALID),
    (
        "a value length of -5",
        raw_batch(varint(7) + b"\0\0\0" + varint(1) + b"k" + varint(-5) + b"\0", 1),
        INVALID,
    ),
    ("a key into the next record", raw_batch(varint(7) + b"\0\0\0" + varint(40) + THREE + THREE, 3), INVALID),
    ("-1 headers", raw_batch(raw_record(headers=varint(-1)), 1), INVALID),
    ("1000 headers in no bytes", raw_batch(raw_record(headers=varint(1000)), 1), INVALID),
    ("a header without key", raw_batch(raw_record(headers=varint(1) + varint(-1) + varint(0)), 1), INVALID),
    ("a header value of -2", raw_batch(raw_record(headers=varint(1) + varint(0) + varint(-2)), 1), INVALID),
    (
        "header bytes beyond the record",
        raw_batch(raw_record(headers=varint(1) + varint(9) + b"x"), 1),
        INVALID,
    ),
    ("unknown codec 5", raw_batch(THREE, 3, attributes=5), INVALID),
    ("unknown codec 7", raw_batch(THREE, 3, attributes=7), INVALID),
    *((f"not codec {codec}", raw_batch(THREE, 3, attributes=codec), INVALID) for codec in CODECS[1:]),
    ("a control batch", raw_batch(THREE, 3, attributes=0x20), INVALID),
    ("a producer without sequence", raw_batch(THREE, 3, producer=(1, 0, -1)), INVALID),
    ("a sequence of -2", raw_batch(THREE, 3, producer=(1, 0, -2)), INVALID),
    ("a base offset", raw_batch(THREE, 3, base_offset=5), INVALID),
    ("a transaction of no producer", raw_batch(THREE, 3, attributes=0x10), ErrorCode.INVALID_RECORD),
    ("magic 0", GOOD[:16] + b"\0" + GOOD[17:], INVALID),
    ("magic 1", GOOD[:16] + b"\1" + GOOD[17:], INVALID),
    ("magic 3", GOOD[:16] + b"\3" + GOOD[17:], CORRUPT),
    ("magic -1", GOOD[:16] + b"\xff" + GOOD[17:], CORRUPT),
    ("a length of -1", GOOD[:8] + b"\xff" * 4 + GOOD[12:], CORRUPT),
    ("a length of 13", GOOD[:11] + b"\x0d" + GOOD[12:], CORRUPT),
    ("a length of 14", GOOD[:11] + b"\x0e" + GOOD[12:], CORRUPT),
    ("a length less than a header", GOOD[:11] + b"\x30" + GOOD[12:], CORRUPT),
    ("a length of 2^31-1", GOOD[:8] + b"\x7f\xff\xff\xff" + GOOD[12:], INVALID),
    ("11 bytes", GOOD[:11], INVALID),
    ("16 bytes", GOOD[:16], INVALID),
    ("60 bytes", GOOD[:60], INVALID),
    ("an old message of the smallest size", bytes(8) + b"\0\0\0\x0e" + bytes(14), INVALID),
    ("an old message below it", bytes(8) + b"\0\0\0\x0d" + bytes(14), CORRUPT),
    ("a length of -1 behind a batch", GOOD + b"\xff" * 12, CORRUPT),
    ("two batches", GOOD + GOOD, INVALID),
    ("a batch and what is none", GOOD + b"\xff" * 17, CORRUPT),
    ("a flipped bit", GOOD[:-1] + bytes([GOOD[-1] ^ 1]), CORRUPT),
    ("years ahead, not by the header", raw_batch(raw_record(time=YEARS_MS), 1, max_time=NOW), TIME),
    ("years ahead, compressed", raw_batch(raw_record(time=YEARS_MS), 1, codec=4), TIME),
    ("a time of -2^63", raw_batch(raw_record(), 1, base_time=-(2**63)), TIME),
    ("a time of 2^63-1", raw_batch(raw_record(), 1, base_time=2**63 - 1), TIME),
    ("a time past 2^63", raw_batch(raw_record(time=10), 1, base_time=2**63 - 1), TIME),
    ("a time before -2^63", raw_batch(raw_record(time=-10), 1, base_time=-(2**63) + 5), TIME),
    ("the broker's time", raw_batch(THREE, 3, attributes=8), TIME),
]


@pytest.mark.parametrize(("data", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_unreadable_batch_is_refused(data: bytes, error: ErrorCode) -> None:
    """A batch with inconsistent parts gets Kafka's error code, or the one in the module's docstring."""
    assert refusal_of(data).error == error


TAKEN: list[tuple[str, bytes]] = [
    ("a key that is empty", raw_batch(raw_record(key=b""), 1)),
    ("no key and no value", raw_batch(raw_record(value=None, key=None), 1)),
    ("a header without value", raw_batch(raw_record(headers=varint(1) + varint(1) + b"x" + varint(-1)), 1)),
    ("no timestamp", raw_batch(raw_record(), 1, base_time=-1)),
    ("a time before 1970", raw_batch(raw_record(), 1, base_time=-5, max_time=-1)),
    ("a producer at the ends", raw_batch(THREE, 3, producer=(2**63 - 1, 2**15 - 1, 2**31 - 1))),
    ("a producer of epoch -1", raw_batch(THREE, 3, producer=(2, -1, 0))),
    ("a producer id below -1", raw_batch(THREE, 3, producer=(-5, 0, 0))),
    ("a sequence of nobody", raw_batch(THREE, 3, producer=(-1, -1, 5))),
    ("unused attributes", raw_batch(THREE, 3, attributes=0x7F80)),
    ("attributes in a record", raw_batch(varint(8) + b"\xff\0\0\x02k\x02v\0", 1)),
    *((f"codec {codec}", raw_batch(THREE, 3, codec=codec)) for codec in CODECS),
]


@pytest.mark.parametrize("data", [row[1] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_an_unusual_but_valid_batch_is_accepted_unchanged(data: bytes) -> None:
    """Batches that Kafka accepts are accepted, byte for byte."""
    assert admitted(data).batch == data


@pytest.mark.parametrize("tail", [b"\xff" * 10, GOOD[:-5], b"\0" * 11])
def test_trailing_bytes_that_are_no_whole_batch_are_dropped(tail: bytes) -> None:
    """As in Kafka, the batch is accepted without them."""
    assert admitted(GOOD + tail).batch == GOOD


@pytest.mark.parametrize("claimed", [NOW - 1000, NOW + YEARS_MS, -1])
def test_the_maximum_timestamp_is_computed_from_the_records(claimed: int) -> None:
    """A wrong one in the header is corrected, and the checksum with it."""
    body = raw_record(time=5) + raw_record(offset=1, time=3)
    header = admitted(raw_batch(body, 2, max_time=claimed)).header
    assert header.max_timestamp == NOW + 5
    assert refusal_of(raw_batch(body, 2, max_time=claimed)[:-1] + b"\1").error == CORRUPT
    assert admitted(bytes(admitted(raw_batch(body, 2, max_time=claimed)).batch)).header == header


def test_invalid_timestamps_and_missing_keys_are_listed_together() -> None:
    """A record with both errors is listed for its key; the batch's error is that of the timestamps."""
    body = (
        raw_record(time=YEARS_MS)
        + raw_record(key=None, offset=1, time=YEARS_MS)
        + raw_record(offset=2)
        + raw_record(key=None, offset=3)
    )
    refusal = refusal_of(raw_batch(body, 4), cleanup_policy="compact")
    assert refusal.error == TIME
    assert [error.batch_index for error in refusal.record_errors] == [0, 1, 3]
    assert "out of range" in refusal.record_errors[0].message
    assert "without key" in refusal.record_errors[1].message


BEFORE, AFTER = 1000, 500


@pytest.mark.parametrize(
    ("time", "is_taken"),
    [
        (-BEFORE, True),
        (-BEFORE - 1, False),
        (AFTER, True),
        (AFTER + 1, False),
        (-NOW - 1, True),
        (-NOW - 2, False),
    ],
)
def test_timestamp_bounds_are_inclusive(time: int, is_taken: bool) -> None:
    """The oldest and the newest allowed millisecond are accepted; -1 is no timestamp, -2 is one."""
    limits = {"message_timestamp_before_max_ms": str(BEFORE), "message_timestamp_after_max_ms": str(AFTER)}
    for codec in CODECS:
        times = (0, time, -BEFORE, AFTER, -NOW - 1)
        body = b"".join(raw_record(offset=at, time=delta) for at, delta in enumerate(times))
        answer = admit(raw_batch(body, len(times), codec=codec), policy(**limits), NOW)
        assert isinstance(answer, Admitted) is is_taken
        if isinstance(answer, AppendResult):
            assert [error.batch_index for error in answer.record_errors] == [1]


def test_log_append_time_accepts_any_timestamp() -> None:
    """The producer's timestamps are replaced."""
    far = raw_batch(raw_record(time=YEARS_MS), 1)
    assert admitted(far, message_timestamp_type="LogAppendTime").header.record_count == 1


@pytest.mark.parametrize(
    ("setting", "error"),
    [("max_message_bytes", ErrorCode.MESSAGE_TOO_LARGE), ("segment_bytes", ErrorCode.RECORD_LIST_TOO_LARGE)],
)
def test_a_batch_of_the_maximum_size_is_accepted(setting: str, error: ErrorCode) -> None:
    """One more byte is too large."""
    data = batch(b"x" * 2000)
    assert admitted(data, **{setting: str(len(data))}).batch == data
    assert refusal_of(data, **{setting: str(len(data) - 1)}).error == error


def test_the_number_of_listed_record_errors_is_limited() -> None:
    """A thousand are listed; the batch is refused for all of them."""
    keyless = b"".join(raw_record(key=None, offset=delta) for delta in range(1500))
    refusal = refusal_of(raw_batch(keyless, 1500), cleanup_policy="compact")
    assert refusal.error == INVALID
    assert [error.batch_index for error in refusal.record_errors] == list(range(1000))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_that_decompress_to_more_than_allowed_raise(codec: int) -> None:
    """Exactly the allowed number of bytes is decompressed; with one byte less `admit` raises, for a check in
    another thread.
    """
    data = raw_batch(THREE, 3, codec=codec)
    assert isinstance(admit(data, policy(), NOW, unpacked_bytes=len(THREE)), Admitted)
    with pytest.raises(UnpacksToMore):
        admit(data, policy(), NOW, unpacked_bytes=len(THREE) - 1)


def test_a_decompression_bomb_is_too_large() -> None:
    """The error makes producers split the batch; its records are not checked."""
    bomb = raw_record(value=b"\0" * LARGEST_OUTPUT_BYTES)
    assert refusal_of(raw_batch(bomb, 1, codec=4)).error == ErrorCode.MESSAGE_TOO_LARGE


TYPES = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("sent", CODECS)
def test_batches_get_the_topics_compression_type(sent: int, wanted: str) -> None:
    """The records are the same, and so is a batch that has that codec already."""
    body = b"".join(raw_record(b"value" * 50, offset=delta, time=delta) for delta in range(300))
    data = raw_batch(body, 300, codec=sent, producer=(7, 3, 11), max_time=NOW + 299)
    stored = admitted(data, compression_type=wanted)
    assert stored.header.codec == TYPES[wanted]
    assert list(iterate_records(stored.batch)) == list(iterate_records(data))
    kept = {"attributes": 0, "crc": 0, "size": 0}
    assert stored.header._replace(**kept) == read_header(data)._replace(**kept)
    assert (stored.batch == data) is (sent == TYPES[wanted])


def test_a_higher_level_compresses_more() -> None:
    """A level of another codec has no effect."""
    body = b"".join(raw_record(str(delta * 7919).encode() * 9, offset=delta) for delta in range(2000))

    def size(**overrides: Any) -> int:
        return len(admitted(raw_batch(body, 2000), **overrides).batch)

    for codec, low, high in (("gzip", "1", "9"), ("zstd", "-50", "19"), ("lz4", "9", "12")):
        levels = [{f"compression_{codec}_level": level} for level in (low, high)]
        assert size(compression_type=codec, **levels[0]) > size(compression_type=codec, **levels[1])
        assert size(compression_type="snappy", **levels[0]) == size(compression_type="snappy")


def test_a_batch_too_large_after_recompression_is_refused() -> None:
    """The limit applies to the size as stored."""
    data = raw_batch(raw_record(b"\0" * 10_000), 1, codec=4)
    assert refusal_of(data, compression_type="uncompressed", max_message_bytes="5000").error == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    exact = len(admitted(data, compression_type="uncompressed").batch)
    assert admitted(data, compression_type="uncompressed", max_message_bytes=str(exact))
    assert refusal_of(data, compression_type="uncompressed", max_message_bytes=str(exact - 1))


@given(st.binary(max_size=80), st.integers(0, 9), st.sampled_from(CODECS))
def test_every_accepted_batch_can_be_read(body: bytes, count: int, codec: int) -> None:
    """Whatever the bytes with a correct checksum: the batch is refused, or every record can be read."""
    assert _is_taken_only_if_readable(raw_batch(body, count, codec=codec))


@given(st.integers(0, len(THREE) - 1), st.integers(0, 255), st.sampled_from(CODECS))
def test_a_changed_byte_is_refused_or_read(at: int, byte: int, codec: int) -> None:
    """The same for records with one changed byte."""
    body = bytearray(THREE)
    body[at] = byte
    assert _is_taken_only_if_readable(raw_batch(bytes(body), 3, codec=codec))


def _is_taken_only_if_readable(data: bytes) -> bool:
    answer = admit(data, policy(message_timestamp_after_max_ms=str(2**63 - 1)), NOW)
    try:
        offsets = [offset for offset, _ in iterate_records(data)]
    except CorruptBatch:
        return isinstance(answer, AppendResult)
    count = read_header(data).record_count
    is_sound = bool(count) and offsets == list(range(count))
    if isinstance(answer, AppendResult) and answer.error == TIME:
        return True  # an absurd delta
    return isinstance(answer, Admitted) is is_sound


def test_records_may_be_larger_than_a_window() -> None:
    """A large decompressed batch is checked in parts, into which a record need not fit."""
    sizes = (10, 3_000_000, 5, 1_048_576, 700_000, 700_000, 1)
    parts = [raw_record(b"\0" * size, offset=delta) for delta, size in enumerate(sizes)]
    body = b"".join(parts)
    assert admitted(raw_batch(body, len(sizes), codec=4)).header.record_count == len(sizes)
    for spoilt in (body + b"\0", body[:-1]):
        assert refusal_of(raw_batch(spoilt, len(sizes), codec=4)).error == INVALID
    keyless = body + raw_record(key=None, offset=len(sizes))
    refusal = refusal_of(raw_batch(keyless, len(sizes) + 1, codec=4), cleanup_policy="compact")
    assert [error.batch_index for error in refusal.record_errors] == [len(sizes)]


def test_a_gzip_stream_with_trailing_bytes_is_refused() -> None:
    """It could not be read back."""
    packed = compress(1, THREE) + b"zz"
    data = bytearray(raw_batch(packed, 3, attributes=1))
    assert refusal_of(bytes(data)).error == INVALID


def test_the_cost_of_a_check_is_estimated_from_the_header() -> None:
    """For compressed records it is the count in the header, for others at most what fits into the bytes;
    compression adds to it.
    """
    small, kib = GOOD[:60], GOOD + bytes(1024 * 3 - len(GOOD))
    assert weight_of(small, policy()) == 32
    assert weight_of(GOOD[:61], policy()) == 32 + 3
    assert weight_of(kib, policy()) == 32 + 3 + 3
    endless = raw_batch(THREE, 2**31 - 1)
    assert weight_of(endless, policy()) == 32 + len(endless) // 7
    assert weight_of(raw_batch(THREE, -5), policy()) == 32
    packed = raw_batch(THREE, 70_000, codec=1)
    for data, weight in ((packed, 32 + 70_000 + len(packed) // 64), (raw_batch(THREE, -5, codec=4), 32 + 1)):
        assert weight_of(data, policy()) == weight
    assert weight_of(packed, policy(compression_type="gzip")) == weight_of(packed, policy())
    assert (
        weight_of(packed, policy(compression_type="zstd")) == weight_of(packed, policy()) + len(packed) // 8
    )
    assert weight_of(kib, policy(compression_type="uncompressed")) == weight_of(kib, policy())
