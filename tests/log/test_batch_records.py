"""Records taken out of batches all at once are the records `headgate.log` reads one by one."""

from __future__ import annotations

import random

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import MACHINE_CODE, NUMPY, PLAIN, WAYS, read_by
from tests.spark.support import numbered
from tests.spark.unpacked import CODECS, as_records, read

from headgate.log import batch_records, record_fields
from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records

_texts = st.text(max_size=5).map(str.encode)
_records = st.builds(
    Record,
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=200),
    timestamp=st.integers(0, 253_402_300_799_999),
    headers=st.lists(st.tuples(_texts, st.none() | st.binary(max_size=20)), max_size=3).map(tuple),
)


def expected(data: bytes | bytearray) -> list[tuple[int, Record]]:
    """The same by the other way."""
    return [
        (offset, record._replace(headers=tuple(record.headers))) for offset, record in iterate_records(data)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.lists(_records, min_size=1, max_size=8), st.sampled_from(list(CODECS.values())))),
    st.sampled_from([(NUMPY, 1), (NUMPY, 3), (NUMPY, 1000), (PLAIN, 0), (MACHINE_CODE, 0)]),
)
def test_columns_equal_the_records_read_one_by_one(
    batches: list[tuple[list[Record], int]], way: tuple[str, int]
) -> None:
    """Whatever the records and codecs, and whichever of the walks finds them, nothing differs."""
    data, offset = bytearray(), 100
    for records, codec in batches:
        data += encode_batch(records, base_offset=offset, codec=codec)
        offset += len(records)
    with pytest.MonkeyPatch.context() as patch:
        read_by(way[0], patch)
        patch.setattr(record_fields, "WALK_IN_STEP_FROM", way[1])
        pieces, corruptions = read(data)
        assert as_records(pieces) == expected(data)
    assert corruptions == []


def test_batches_of_very_different_lengths_are_walked_in_step_and_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the threshold as it ships, a mix of many short batches and a few long ones comes out whole."""
    read_by(NUMPY, monkeypatch)
    data, offset = bytearray(), 0
    for count in [1] * 60 + [3] * 50 + [700, 5, 2000]:
        data += numbered(count, offset)
        offset += count
    pieces, _ = read(data)
    assert [at for at, _ in as_records(pieces)] == list(range(offset))
    assert as_records(pieces) == expected(data)


def test_unpacked_batches_are_handed_on_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much data in few compressed bytes does not have to be in memory all at once."""
    monkeypatch.setattr(batch_records, "UNPACKED_BYTES", 2000)
    data = b"".join(numbered(50, at, codec=4) for at in range(0, 1000, 50))
    pieces, _ = read(data)
    assert len(pieces) > 5
    assert max(len(piece.payload) for piece in pieces) < 5000
    assert as_records(pieces) == expected(data)


def test_log_append_time_replaces_the_records_own() -> None:
    """A batch stamped by the broker gives its one time to all its records."""
    batch = numbered(3)
    batch[22] |= 0x08
    resum(batch)
    pieces, _ = read(batch)
    assert {record.timestamp for _, record in as_records(pieces)} == {1_700_000_000_002}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_that_lies_under_a_right_crc_is_left_out_and_blamed(
    codec: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may sum nonsense correctly: that batch alone is refused, and nothing is raised."""
    read_by(way, monkeypatch)
    lying = numbered(4, 10, codec=codec)
    if codec:
        lying[61:] = b"\xff" * len(lying[61:])
    else:
        lying[61] = 0x7E  # the first record's length
    resum(lying)
    pieces, corruptions = read(numbered(5, 0) + lying + numbered(5, 14))
    assert [at for at, _ in as_records(pieces)] == [0, 1, 2, 3, 4, 14, 15, 16, 17, 18]
    assert [(found.base_offset, found.size) for found in corruptions] == [(10, len(lying))]


@pytest.mark.parametrize("way", WAYS)
def test_garbage_under_a_right_crc_never_raises(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 random changes inside batches: each is either read as `headgate.log` reads it, or blamed."""
    read_by(way, monkeypatch)
    dice = random.Random(5)
    header = Record(b"key", b"value" * 30, 1_700_000_000_000, ((b"h", b"x"), (b"i", None)))
    whole = encode_batch([header, Record(None, b"", 1_700_000_000_001), header])
    refused = 0
    for _ in range(1_500):
        batch = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            batch[dice.randrange(61, len(batch))] = dice.randrange(256)
        resum(batch)
        pieces, corruptions = read(batch)
        found = [record[:3] for _, record in as_records(pieces)]
        try:
            assert found == [record[:3] for _, record in iterate_records(batch)]
            assert not corruptions
        except CorruptBatch:
            assert len(corruptions) == 1
            assert not found
            refused += 1
    assert 150 < refused < 1_350


def resum(batch: bytearray) -> None:
    """Set a batch's CRC to what its bytes sum to."""
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
