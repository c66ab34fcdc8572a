"""The check of produced records, compared with decoding them one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.log.batch import (
    CorruptBatch,
    InvalidBatch,
    Record,
    RecordHeader,
    encode_batch,
    encode_record,
    read_header,
    records_of,
    varint,
)
from headgate.log.record_check import check_records

LENGTHS = [0, 1, 63, 64, 65, 8191, 8192, 8200]
"""Those where a varint becomes a byte longer are among them."""
texts = st.sampled_from([bytes(b"x" * length) for length in LENGTHS])
maybe_texts = st.one_of(st.none(), texts)
deltas = st.one_of(st.integers(-70, 70), st.sampled_from([8191, 8192, -8192, -8193, 2**41, -(2**62), 2**62]))
headers = st.lists(st.tuples(st.sampled_from([b"", b"h", b"h" * 64, b"h" * 8192]), maybe_texts), max_size=3)
Parts = tuple[bytes | None, bytes | None, int, list[RecordHeader]]
records: st.SearchStrategy[Parts] = st.tuples(maybe_texts, maybe_texts, deltas, headers)


def body_of(parts: list[Parts], first_offset: int = 0) -> bytes:
    """The records as they stand behind a batch's header."""
    out: list[bytes] = []
    for offset_delta, (key, value, timestamp_delta, more) in enumerate(parts, first_offset):
        encode_record(out, key, value, timestamp_delta, offset_delta, more)
    return b"".join(out)


def is_read(body: bytes, count: int) -> bool:
    """Whether reading the records one by one, offsets aside, comes to the end of them."""
    header = read_header(encode_batch([Record(None, None)]))._replace(
        record_count=count, last_offset_delta=2**40
    )
    try:
        for _ in records_of(header, body):
            pass
    except CorruptBatch:
        return False
    return True


@given(st.lists(records, min_size=1, max_size=5), st.integers(0, 9), st.sampled_from([0, 1, 70]))
def test_the_check_agrees_with_decoded_records(parts: list[Parts], at: int, first_offset: int) -> None:
    """Timestamps, keys and offsets, at any position and in any buffer."""
    data = bytes(range(200, 200 + at)) + body_of(parts, first_offset)
    for given_as in (data, bytearray(data), memoryview(data)):
        found = check_records(given_as, at, len(parts))
        assert found.walked == len(parts)
        assert found.keyless == sum(key is None for key, *_ in parts)
        assert found.smallest_timestamp_delta == min(delta for _, _, delta, _ in parts)
        assert found.largest_timestamp_delta == max(delta for _, _, delta, _ in parts)
        assert found.is_contiguous == (first_offset == 0)


def test_offset_deltas_that_do_not_count_up_are_detected() -> None:
    """In one byte and in two."""
    many: list[Parts] = [(b"k", b"v", 0, [])] * 200
    body = body_of(many)
    assert check_records(body, 0, 200).is_contiguous
    assert not check_records(body + body_of(many[:1], 199), 0, 201).is_contiguous
    assert not check_records(body_of(many[:1]) * 2, 0, 2).is_contiguous


short = st.sampled_from([None, b"", b"k", b"k" * 70])
short_records: st.SearchStrategy[Parts] = st.tuples(
    short, short, st.integers(-70, 70), st.lists(st.tuples(st.sampled_from([b"", b"hk"]), short), max_size=2)
)


@given(st.data(), st.lists(short_records, min_size=1, max_size=3))
def test_the_check_accepts_exactly_decodable_records(data: st.DataObject, parts: list[Parts]) -> None:
    """Bytes that were changed, cut off, added or miscounted."""
    body = bytearray(body_of(parts))
    count = len(parts) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=2)):
        body[at] = data.draw(
            st.sampled_from([0, 1, 2, 3, 5, 0x7F, 0x80, 0x81, 0xFF, body[at] ^ 1, body[at] + 2 & 255])
        )
    del body[data.draw(st.one_of(st.just(len(body)), st.integers(0, len(body)))) :]
    body += data.draw(st.sampled_from([b"", b"", b"\0", b"\x10"]))
    for given_as in (bytes(body), memoryview(body)):
        try:
            is_contiguous = check_records(given_as, 0, count).is_contiguous
        except InvalidBatch:
            assert not is_read(bytes(body), count)
        else:
            assert is_read(bytes(body), count) or not is_contiguous


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [
        (varint(8) + b"\0\0\0\x02k\x02v\0", True),
        (varint(8) + b"\0\0\0\x02k\x02v\0" + b"\0", False),
        (varint(9) + b"\0\0\0\x02k\x02v\0", False),
        (varint(7) + b"\0\0\0\x02k\x02v\0", False),
        (b"\x90\x80\x80\x80\x80\x80\x80\x80\x80\0" + b"\0\0\0\x02k\x02v\0", True),
        (b"\x90\x80\x80\x80\x80\x80\x80\x80\x80\x80\0" + b"\0\0\0\x02k\x02v\0", False),
        (varint(10) + b"\0\0\0\x02k\x02v\x02\0\1", True),
        (varint(10) + b"\0\0\0\x02k\x02v\x04\0\1", False),
        (varint(10) + b"\0\0\0\x02k\x02v\x02\0\3", False),
        (varint(10) + b"\0\0\0\x02k\x02v\x03\0\1", False),
        (varint(10) + b"\0\0\0\x02k\x02v\x02\1\1", False),
    ],
)
def test_lengths_of_records(body: bytes, is_whole: bool) -> None:
    """A length may take more bytes than necessary, but at most ten."""
    if is_whole:
        assert check_records(body, 0, 1).walked == 1
    else:
        with pytest.raises(InvalidBatch):
            check_records(body, 0, 1)


@pytest.mark.interpreted
@given(
    st.lists(records, min_size=1, max_size=8), st.sampled_from([8, 100, 9000]), st.sampled_from([1, 2, 3, 50])
)
def test_a_check_in_parts_has_the_same_result(
    parts: list[Parts], window_bytes: int, slice_records: int
) -> None:
    """However bytes and records are divided."""
    body, count = body_of(parts), len(parts)
    whole = check_records(body, 0, count)
    pauses: list[int] = []

    def facts(found: Any) -> list[Any]:
        return [getattr(found, name) for name in type(found).__slots__]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headgate.log.record_check._WINDOW_BYTES", window_bytes)
        patched.setattr("headgate.log.record_check._SLICE_RECORDS", slice_records)
        for given_as, at in ((body, 0), (memoryview(b"123" + body), 3)):
            pauses.clear()
            assert facts(check_records(given_as, at, count, lambda: pauses.append(1))) == facts(whole)
            assert len(pauses) >= (count - 1) // slice_records
            assert facts(check_records(given_as, at, count)) == facts(whole)
            for wrong in (count - 1, count + 1):
                with pytest.raises(InvalidBatch):
                    check_records(given_as, at, wrong)


def test_a_long_check_pauses() -> None:
    """After some thousand records, and after each megabyte that is copied."""
    many = body_of([(b"k", b"v", 0, [])] * 10_000)
    large = body_of([(b"k", bytes(600_000), 0, [])] * 6)
    for data, count, least in ((many, 10_000, 2), (memoryview(many), 10_000, 2), (memoryview(large), 6, 3)):
        pauses: list[int] = []
        check_records(data, 0, count, lambda: pauses.append(1))  # noqa: B023
        assert least <= len(pauses) <= least + 3
