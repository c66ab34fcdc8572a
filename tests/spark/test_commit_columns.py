"""Offset commits read all at once equal those that `headgate.records` reads one by one."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import MACHINE_CODE, NUMPY, PLAIN, read_by
from tests.spark.support import rows_of, write_segment
from tests.spark.unpacked import read

from headgate.domain.ids import TopicName, TopicPartition
from headgate.log.batch import Record, encode_batch
from headgate.records import MalformedRecord, OffsetCommit, OffsetTombstone, decode
from headgate.records.runs import RunPlace
from headgate.spark import commit_columns
from headgate.spark.schemas import OFFSET_COMMITS
from headgate.spark.source import INCOMPLETE_COMMITS_VIEW, OFFSET_COMMITS_VIEW

LAST_MS = 253_402_300_799_999
_names = st.text(max_size=12)
_int32 = st.integers(-(2**31), 2**31 - 1)
_int64 = st.integers(-(2**63), 2**63 - 1)


def text(value: str) -> bytes:
    """Return a string after an int16 size."""
    return struct.pack(">h", len(value.encode())) + value.encode()


def key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """Return an OffsetCommitKey."""
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def value(version: int, offset: int, epoch: int, metadata: str, at: int, expires: int) -> bytes:
    """Return an OffsetCommitValue in Kafka's layout of this version."""
    parts = [struct.pack(">hq", version, offset)]
    if version >= 3:
        parts.append(struct.pack(">i", epoch))
    parts.append(text(metadata) if version < 4 else compact(metadata))
    parts.append(struct.pack(">q", at))
    if version == 1:
        parts.append(struct.pack(">q", expires))
    if version >= 4:
        parts.append(b"\x01\x00\x10" + bytes(range(16)))  # one tagged field: the topic id
    return b"".join(parts)


def compact(value: str) -> bytes:
    """Return a string after an unsigned varint of its size + 1."""
    size, out = len(value.encode()) + 1, bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(out) + bytes([size]) + value.encode()


_keys = st.builds(key, _names, _names, _int32, st.sampled_from([0, 1]))
_values = st.builds(
    value,
    st.integers(0, 4),
    _int64,
    st.integers(0, 2**31 - 1),
    st.text(max_size=200),
    st.integers(0, LAST_MS),
    st.integers(0, LAST_MS),
)


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Draw mostly offset commits, some cut or lengthened, and some other records."""
    cut = st.sampled_from([0, 0, 0, 1, 2, 7])
    one = draw(_keys | st.binary(max_size=20))
    other = draw(st.none() | _values | st.binary(max_size=20))
    one = one[: len(one) - draw(cut)]
    if other is not None and (
        len(other) < 2 or other[1] != 4
    ):  # a version 4 ends in fields that are not read
        other = other[: len(other) - draw(cut)] + draw(st.sampled_from([b"", b"", b"x"]))
    return one, other


def columns(pairs: list[tuple[bytes | None, bytes | None]]) -> list[dict[str, Any]]:
    """Return the rows for keys and values, by all ways."""
    batch = encode_batch([Record(one, other, 5) for one, other in pairs])
    (records,), _ = read(batch)
    tables: list[dict[str, list[Any]]] = []
    for way in (NUMPY, PLAIN, *([MACHINE_CODE] if find_spec("numba") else [])):
        with pytest.MonkeyPatch.context() as patch:
            read_by(way, patch)
            found = commit_columns.rows(records, TopicPartition(TopicName("t"), 3))
            tables.append({name: column().to_pylist() for name, column in found.columns.items()})
    table = tables[0]
    assert [table] * len(tables) == tables
    return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]


def by_records(offset: int, one: bytes | None, other: bytes | None) -> dict[str, Any] | None:
    """Return the row of one record by `headgate.records`; None if it is no offset commit."""
    try:
        found = decode(one, other)
    except MalformedRecord:
        return None
    match found:
        case OffsetTombstone():
            return {"log_offset": offset, "group_id": found.group_id, "topic": found.topic}
        case OffsetCommit():
            return {
                "log_offset": offset,
                "group_id": found.group_id,
                "topic": found.topic,
                "partition": found.partition,
                "committed_offset": found.offset,
                "leader_epoch": None if found.leader_epoch == -1 else found.leader_epoch,
                "metadata": found.metadata,
                "commit_timestamp": found.commit_timestamp,
                "expire_timestamp": None if found.expire_timestamp == -1 else found.expire_timestamp,
            }
    return None


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the reader in the form of `by_records`."""
    if row["is_tombstone"]:
        return {name: row[name] for name in ("log_offset", "group_id", "topic")}
    names = ("log_offset", "group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata")
    times = ("commit_timestamp", "expire_timestamp")
    plain = {name: row[name] for name in names}
    return plain | {name: row[name] and round(row[name].timestamp() * 1000) for name in times}


@settings(max_examples=120, deadline=None)
@given(st.lists(_pairs(), min_size=1, max_size=12))
def test_rows_equal_the_records_read_one_by_one(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    """Every value version, tombstones and damaged records: the same rows, and the same records left out."""
    expected = [by_records(offset, *pair) for offset, pair in enumerate(pairs)]
    known = [row for row in columns(pairs) if row["value_version"] is None or row["value_version"] <= 4]
    assert [comparable(row) for row in known if _is_plain(row)] == [
        row for row in expected if row is not None and _is_plain_time(row)
    ]


def _is_plain(row: dict[str, Any]) -> bool:
    return row["is_tombstone"] or row["commit_timestamp"] is not None


def _is_plain_time(row: dict[str, Any]) -> bool:
    return "commit_timestamp" not in row or 0 <= row["commit_timestamp"] <= LAST_MS


def test_a_value_of_a_version_to_come_keeps_its_row() -> None:
    """Its key is read; of its value only the version."""
    (row,) = columns([(key("g", "t", 4), struct.pack(">h", 5) + b"anything")])
    assert (row["group_id"], row["topic"], row["partition"], row["value_version"]) == ("g", "t", 4, 5)
    assert row["committed_offset"] is row["metadata"] is row["commit_timestamp"] is None
    assert not row["is_tombstone"]


def test_a_tombstone_is_a_row_with_nothing_committed() -> None:
    """A removal is a row with `is_tombstone`."""
    (row,) = columns([(key("g", "t", 4), None)])
    assert row["is_tombstone"]
    assert row["committed_offset"] is row["value_version"] is row["metadata"] is None
    assert (row["group_id"], row["partition"]) == ("g", 4)


def test_transactional_commits_say_so(tmp_path: Path) -> None:
    """Readers can distinguish pending commits, by producer, from others."""
    pair = Record(key("g", "t", 0), value(3, 7, -1, "", 1000, -1), 1000)
    plain = encode_batch([pair])
    pending = encode_batch([pair], base_offset=1, producer_id=44, producer_epoch=0, is_transactional=True)
    write_segment(tmp_path, "__consumer_offsets", 2, [plain, pending])
    rows = rows_of(OFFSET_COMMITS_VIEW, tmp_path, "__consumer_offsets")
    assert [(row["is_transactional"], row["producer_id"]) for row in rows] == [(False, None), (True, 44)]
    assert list(rows[0]) == OFFSET_COMMITS.fieldNames()
    assert {row["log_partition"] for row in rows} == {2}


def run_batches(total: int, size: int, first: int) -> list[bytearray]:
    """Return the batches of a run of `total` commits, `size` in each."""
    batches = []
    for begin in range(0, total, size):
        records = [
            Record(key("g", "t", at), value(3, at, -1, "", 5, 0), 5, (RunPlace(first, at, total).header(),))
            for at in range(begin, min(begin + size, total))
        ]
        batches.append(encode_batch(records, base_offset=first + begin))
    return batches


def test_commits_of_an_incomplete_run_are_a_table_of_their_own(tmp_path: Path) -> None:
    """A run is complete if its last record exists, in any segment and in any task."""
    plain = encode_batch([Record(key("g", "t", 9), value(3, 1, -1, "", 5, 0), 5)], base_offset=6)
    torn, whole = run_batches(9, 3, 0)[:2], run_batches(8, 2, 7)
    late = run_batches(5, 1, 15)[:2]
    write_segment(tmp_path, "__consumer_offsets", 0, [*torn, plain, whole[0]])
    write_segment(tmp_path, "__consumer_offsets", 0, whole[1:3], 9)
    write_segment(tmp_path, "__consumer_offsets", 0, [whole[3], *late], 13)
    for tasks in ("1", "3"):
        found = [
            [row["log_offset"] for row in rows_of(view, tmp_path, "__consumer_offsets", minPartitions=tasks)]
            for view in (OFFSET_COMMITS_VIEW, INCOMPLETE_COMMITS_VIEW)
        ]
        assert found == [[*range(6, 15)], [*range(6), 15, 16]]
