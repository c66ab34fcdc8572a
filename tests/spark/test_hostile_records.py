"""Records that a hostile producer may write under a right CRC: each way reads the same rows, or refuses.

The batches are good except for what is drawn: varints of up to eleven bytes, with numbers at the bounds of
31, 32, 63 and 64 bits, in the place of any field; wrong counts; bytes that are changed, cut or added.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import MACHINE_CODE, NUMPY, PLAIN, WAYS, read_by
from tests.spark.support import numbered
from tests.spark.test_commit_columns import key, value
from tests.spark.unpacked import as_records, read
from tests.topics.raw_batches import raw_batch

from headgate.domain.ids import TopicName, TopicPartition
from headgate.log import record_fields
from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records, varint
from headgate.log.batch_records import Records
from headgate.log.batch_scan import Corruption
from headgate.spark import arrow, commit_columns

WHERE = TopicPartition(TopicName("t"), 3)
BOUNDS = [0, 1, 12, 1 << 31, 1 << 32, 1 << 62, 1 << 63]
NUMBERS = sorted({sign * bound + near for bound in BOUNDS for sign in (1, -1) for near in (-2, -1, 0, 1)})
FIELDS = ("length", "time", "offset", "key", "value", "headers", "header key", "header value")


def wide(number: int, width: int) -> bytes:
    """Return a zigzag varint of so many bytes at least; of a number with more than 64 bits, too."""
    doubled = number << 1 if number >= 0 else (-number << 1) - 1
    octets = bytearray()
    while doubled >= 0x80 or len(octets) + 1 < width:
        octets.append(doubled & 0x7F | 0x80)
        doubled >>= 7
    return bytes(octets) + bytes([doubled])


@st.composite
def _varints(draw: st.DrawFn, right: int) -> bytes:
    """Draw the right number, mostly; or it in many bytes, another, or bytes that are no number at all."""
    match draw(st.sampled_from(["right"] * 6 + ["long", "bound", "octets"])):
        case "right":
            return varint(right)
        case "long":
            return wide(right, draw(st.integers(2, 11)))
        case "bound":
            return wide(draw(st.sampled_from(NUMBERS)), draw(st.integers(1, 10)))
        case _:
            last = draw(st.sampled_from([0, 1, 2, 0x7E, 0x7F, 0xFF]))
            return draw(st.sampled_from([b"\x80", b"\xff", b"\xfe"])) * draw(st.integers(1, 9)) + bytes(
                [last]
            )


@st.composite
def _record(draw: st.DrawFn, offset: int) -> bytes:
    name = draw(st.sampled_from([b"", b"k", key("group", "topic", 7), key("group", "topic", 7, 0)]))
    version = draw(st.integers(0, 5))
    content = draw(st.sampled_from([b"", b"v" * 200, value(version, 7, 1, "metadata", 5, 9)]))
    content = content[: len(content) - draw(st.sampled_from([0, 0, 0, 1, 9]))]
    body = b"\0" + draw(_varints(draw(st.sampled_from([0, 5])))) + draw(_varints(offset))
    body += draw(_varints(len(name))) + name
    body += draw(_varints(len(content))) + content if draw(st.booleans()) else varint(-1)
    if draw(st.integers(0, 3)):
        body += draw(_varints(0))
    else:
        body += draw(_varints(1)) + draw(_varints(1)) + b"h" + draw(_varints(2)) + b"hv"
    return draw(_varints(len(body))) + body


@st.composite
def _batches(draw: st.DrawFn) -> list[bytes]:
    """Draw hostile batches between good ones; each has a right CRC and room for ten offsets."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 6))
        body = bytearray(b"".join(draw(_record(offset)) for offset in range(count)))
        for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
            if body:
                body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        body = body[: len(body) - draw(st.sampled_from([0, 0, 0, 1, 5]))] + draw(
            st.sampled_from([b"", b"", b"\0"])
        )
        claimed = max(count + draw(st.sampled_from([0, 0, 0, 0, 1, -1])), 0)
        found.append(
            raw_batch(
                bytes(body),
                claimed,
                last_delta=9,
                base_offset=10 * number,
                codec=draw(st.sampled_from([0, 3])),
            )
        )
    return [*found, bytes(numbered(10, 10 * len(found)))]


def tables(pieces: list[Records]) -> list[dict[str, list[Any]]]:
    """Return what Spark gets: the columns of all records, and those of the offset commits among them."""
    found = []
    for records in pieces:
        payload = records.payload
        found.append(
            {
                "offset": records.offset.tolist(),
                "time": records.timestamp_ms.tolist(),
                "key": arrow.binaries(payload, records.key_at, records.key_size).to_pylist(),
                "value": arrow.binaries(payload, records.value_at, records.value_size).to_pylist(),
                "text": arrow.strings(payload, records.value_at, records.value_size).to_pylist(),
                "headers": arrow.headers(records).to_pylist(),
            }
        )
        commits = commit_columns.rows(records, WHERE)
        found.append({name: column().to_pylist() for name, column in commits.columns.items()})
    return found


def blamed(corruptions: list[Corruption]) -> list[tuple[int, int]]:
    """Return the batches that were refused. Of two faults in a batch a way may find either first."""
    return [(one.base_offset, one.size) for one in corruptions]


def by_all_ways(data: bytes) -> tuple[list[dict[str, list[Any]]], list[tuple[int, int]]]:
    """Return rows and refusals, which are the same by all ways."""
    results = []
    for way in WAYS if find_spec("numba") else (NUMPY, PLAIN):
        for in_step_from in (1, record_fields.WALK_IN_STEP_FROM) if way == NUMPY else (0,):
            with pytest.MonkeyPatch.context() as patch:
                read_by(way, patch)
                patch.setattr(record_fields, "WALK_IN_STEP_FROM", in_step_from)
                pieces, corruptions = read(data)
                results.append((tables(pieces), sorted(blamed(corruptions))))
    assert results[1:] == results[:-1]
    return results[0]


def by_records(batch: bytes) -> list[tuple[int, Record]] | None:
    """Return the records of a batch one by one; None if it is refused."""
    try:
        return list(iterate_records(batch))
    except CorruptBatch:
        return None


@settings(max_examples=300)
@given(_batches())
def test_every_way_reads_the_same_of_hostile_batches(batches: list[bytes]) -> None:
    """The same as one by one, too: which batches are refused, and what the others have."""
    found, refused = by_all_ways(b"".join(batches))
    expected = [by_records(batch) for batch in batches]
    assert refused == [(10 * at, len(batches[at])) for at, records in enumerate(expected) if records is None]
    rows = [
        pair
        for piece in found[::2]
        for pair in zip(piece["offset"], piece["key"], piece["value"], strict=True)
    ]
    assert rows == [(at, record.key, record.value) for records in expected for at, record in records or ()]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_number_at_a_bound_in_any_field_is_read_or_refused(field: str, number: int) -> None:
    """Where sums wrap, and where a doubled number no longer fits: never a read elsewhere."""
    right = dict.fromkeys(FIELDS, 1) | {"time": 0, "offset": 0}
    wrong = right | {field: number}
    body = b"\0" + wide(wrong["time"], 1) + wide(wrong["offset"], 1) + wide(wrong["key"], 1) + b"k"
    body += wide(wrong["value"], 1) + b"v" + wide(wrong["headers"], 1)
    body += wide(wrong["header key"], 1) + b"h" + wide(wrong["header value"], 1) + b"x"
    length = wide(number, 1) if field == "length" else varint(len(body))
    hostile, good = raw_batch(length + body, 1), bytes(numbered(3, 1))
    found, refused = by_all_ways(hostile + good)
    expected = by_records(hostile)
    assert refused == ([] if expected else [(0, len(hostile))])
    assert found[0]["offset"] == [*([0] if expected else []), 1, 2, 3]


@pytest.mark.parametrize("way", WAYS)
def test_values_that_look_like_lengths_are_not_taken_for_records(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bytes of a length of three are equal here wherever records of the first one's size would begin."""
    read_by(way, monkeypatch)
    # With their other fields 8,192 and 16,384 bytes long: lengths of 80 80 01 and 80 80 02.
    values = [b"\x80" * (8192 - 7), *[b"\x80" * (16384 - 8)] * 30]
    data = bytes(encode_batch([Record(b"", value, 0) for value in values]))
    assert data[61:64] == b"\x80\x80\x01"
    pieces, corruptions = read(data)
    assert not corruptions
    assert [record for _, record in as_records(pieces)] == [record for _, record in iterate_records(data)]


@pytest.mark.parametrize("count", [(1 << 31) - 1, 1 << 30, -1, -(1 << 31), 1000])
@pytest.mark.parametrize("way", WAYS)
def test_a_count_without_room_allocates_nothing(
    way: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is the header's alone, and may be anything."""
    read_by(way, monkeypatch)
    hostile = raw_batch(b"\x0e\0\0\0\1\1\0" * 3, count, last_delta=(1 << 31) - 1)
    pieces, corruptions = read(hostile)
    assert sum(map(len, pieces)) == 0
    assert blamed(corruptions) == [(0, len(hostile))]


@pytest.mark.parametrize("way", WAYS)
def test_no_batch_and_batches_without_records_are_read(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction leaves batches without records."""
    read_by(way, monkeypatch)
    empty = raw_batch(b"", 0, last_delta=4)
    for data, count in ((b"", 0), (empty, 0), (empty + bytes(numbered(1, 9)), 1)):
        pieces, corruptions = read(data)
        assert not corruptions
        assert sum(len(table["offset"]) for table in tables(pieces)[::2]) == count


def test_arrays_of_other_types_are_refused() -> None:
    """They are neither compiled for nor read as something else."""
    if find_spec("numba") is None:
        pytest.skip("numba is not installed")
    records = read(bytes(numbered(5)))[0][0]
    with pytest.MonkeyPatch.context() as patch:
        read_by(MACHINE_CODE, patch)
        at = records.key_at
        others: list[Any] = [at.astype(np.int32), at.astype(">i8"), at.astype(np.float64)]
        for wrong in others:
            with pytest.raises(TypeError):
                arrow.binaries(records.payload, wrong, records.key_size)
        apart = np.repeat(records.key_at, 2)[::2]
        assert not apart.flags.c_contiguous
        column = arrow.binaries(records.payload, apart, records.key_size)
        assert column.to_pylist() == [b"k%d" % at for at in range(5)]


def test_machine_code_with_checked_indexes_reads_the_same(tmp_path: Path) -> None:
    """The same attack again, with numba's own checks in the machine code: they raise IndexError."""
    if find_spec("numba") is None:
        pytest.skip("numba is not installed")
    if os.environ.get("NUMBA_BOUNDSCHECK"):
        pytest.skip("this is that attack")
    checks = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **checks},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
