"""The records of many batches as columns: the same as one by one, or nothing at all."""

from __future__ import annotations

import pytest
from tests.topics.raw_batches import raw_batch, raw_record

from headgate.log.batch import Record, encode_batch, iterate_records, read_header, varint
from headgate.log.record_columns import RecordColumns, read_columns


def columns_of(*batches: bytes) -> RecordColumns | None:
    """What is read of these batches together."""
    return read_columns([(read_header(batch), batch) for batch in batches])


def assert_alike(*batches: bytes) -> None:
    """Every record is what it is when it is read alone, and stands where it should."""
    found = columns_of(*batches)
    assert found is not None
    expected = [pair for batch in batches for pair in iterate_records(batch)]
    assert len(found) == len(expected)
    for at, (offset, record) in enumerate(expected):
        assert (int(found.offsets[at]), int(found.timestamps[at])) == (offset, record.timestamp)
        assert (found.key(at), found.value(at)) == (record.key, record.value)
        assert bool(found.has_headers[at]) is bool(record.headers)
        assert found.ends[at] <= len(found.data) - 64


def batch(*values: bytes | None, base: int = 0, codec: int = 0) -> bytes:
    """A batch with a key, a time and a value for each record."""
    records = [Record(b"k%d" % at, value, 1000 + 7 * at) for at, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=base, codec=codec))


@pytest.mark.parametrize("count", [1, 2, 11, 12, 13, 23, 24, 25, 36, 37, 100])
@pytest.mark.parametrize("size", [0, 40, 57, 58, 59, 60, 121, 122, 9000])
def test_records_of_one_size_are_found_together(count: int, size: int) -> None:
    """However many, and however many bytes their length takes; with others before, between and behind."""
    alike = [b"x" * size] * count
    assert_alike(batch(*alike))
    assert_alike(batch(b"first", *alike, b"between", *alike, b"last"))
    assert_alike(batch(*alike), batch(*alike, base=count), batch(b"other", base=5000))


def test_records_of_all_sizes_follow_each_other() -> None:
    """No two alike, then some, then none again."""
    sizes = [*range(130), *[7] * 30, *range(16_380, 16_390), *[8] * 11, 3, *[8] * 12, 70_000]
    assert_alike(batch(*(b"v" * size for size in sizes)))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_stand_between_others(codec: int) -> None:
    """Each is unpacked for itself."""
    assert_alike(batch(b"a", b"b"), batch(b"c" * 500, None, base=2, codec=codec), batch(b"d", base=9))


def test_what_a_record_may_lack_or_have_is_reported() -> None:
    """Null and empty keys and values, headers, negative times; and batches with gaps, or none left."""
    records = [
        Record(None, None, 5),
        Record(b"", b"", 3),
        Record(b"k", None, -1, ((b"h", b"v"),)),
        Record(None, b"v", 5 + 2**34 - 1),
    ]
    assert_alike(bytes(encode_batch(records)))
    assert_alike(bytes(encode_batch([*records, Record(None, b"v", 5 + 2**34)])))  # a delta of six bytes
    assert_alike(raw_batch(varint(13) + b"\0" + b"\x80" * 5 + b"\1\0\x02k\x02v\0", 1))
    gaps = raw_record(offset=1) + raw_record(offset=5) + raw_record(offset=200)
    assert_alike(
        raw_batch(gaps, 3, last_delta=200, base_offset=70), raw_batch(raw_record(), 1, base_offset=400)
    )
    assert_alike(raw_batch(b"", 0, last_delta=9), raw_batch(raw_record(), 1))
    assert_alike()
    assert_alike(raw_batch(b"", 0, last_delta=9))


def test_a_topic_with_the_brokers_time_has_one_time_a_batch() -> None:
    """The header's, and the others' times stay their own."""
    body = raw_record(time=5) + raw_record(time=9, offset=1)
    assert_alike(raw_batch(body, 2), raw_batch(body, 2, attributes=8, max_time=77), raw_batch(body, 2))
    found = columns_of(raw_batch(body, 2, base_time=0), raw_batch(body, 2, attributes=8, max_time=77))
    assert found is not None
    assert found.timestamps.tolist() == [5, 9, 77, 77]


GOOD = raw_record() + raw_record(offset=1)


@pytest.mark.parametrize(
    ("body", "count", "last_delta"),
    [
        (GOOD, 1, 1),
        (GOOD, 3, 3),
        (GOOD + b"\0", 2, 1),
        (GOOD[:-1], 2, 1),
        (GOOD, -1, 1),
        (GOOD, 2, 0),
        (raw_record() * 2, 2, 1),
        (raw_record(offset=1) + raw_record(), 2, 1),
        (raw_record(offset=-1), 1, 0),
        (varint(-3) + b"\0\0\0\1\1\0", 1, 0),
        (varint(7) + b"\0\0\0" + varint(-2) + varint(1) + b"v\0", 1, 0),
        (varint(7) + b"\0\0\0" + varint(1) + b"k" + varint(-2) + b"\0", 1, 0),
        (varint(7) + b"\0\0\0" + varint(40) + b"k\x02v\0", 1, 0),
        (varint(7) + b"\0\0\0\x02k" + varint(2) + b"v\0", 1, 0),
        (varint(9) + b"\0\0\0\x02k\x02v\0\0", 1, 0),
        (b"\xff" * 20, 1, 0),
    ],
)
def test_what_is_not_as_it_should_be_is_left_to_who_reads_one_by_one(
    body: bytes, count: int, last_delta: int
) -> None:
    """Alone, before another batch or behind it, and a dozen times in a row."""
    wrong = raw_batch(body, count, last_delta=last_delta)
    right = raw_batch(raw_record(), 1)
    for batches in ([wrong], [right, wrong], [wrong, right], [right] * 12 + [wrong]):
        assert columns_of(*batches) is None


def test_batches_of_another_format_are_left_too() -> None:
    """Only the present one has such records."""
    header = read_header(raw_batch(GOOD, 2))
    assert read_columns([(header._replace(magic=1), raw_batch(GOOD, 2))]) is None
