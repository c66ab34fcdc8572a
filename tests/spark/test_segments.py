"""A topic is read out of a data directory: which files, which offsets, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.support import numbered, rows_of, write_segment

from headgate.log.batch import Record, encode_batch
from headgate.spark import segments
from headgate.spark.options import parse
from headgate.spark.scan import CorruptLog
from headgate.spark.segments import MissingData
from headgate.spark.source import RECORDS_VIEW, CorruptionsReader

TOPIC = "flights"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two partitions; partition 0 has the segments 0-9, 10-19 and 20-24, partition 1 has 0-3."""
    write_segment(tmp_path, TOPIC, 0, [numbered(4, 0), numbered(6, 4)])
    write_segment(tmp_path, TOPIC, 0, [numbered(10, 10)], 10)
    write_segment(tmp_path, TOPIC, 0, [numbered(5, 20)], 20)
    write_segment(tmp_path, TOPIC, 1, [numbered(4, 0)])
    return tmp_path


def offsets(directory: Path, **options: str) -> dict[int, list[int]]:
    """The offsets read, by partition."""
    found: dict[int, list[int]] = {}
    for row in rows_of(RECORDS_VIEW, directory, TOPIC, **options):
        found.setdefault(row["partition"], []).append(row["offset"])
    return found


def corruptions(directory: Path) -> list[dict[str, Any]]:
    """What cannot be read."""
    reader = CorruptionsReader(parse({"path": str(directory), "topic": TOPIC}))
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def test_all_segments_of_all_partitions_are_read(directory: Path) -> None:
    """Every record once, with its columns."""
    assert offsets(directory) == {0: list(range(25)), 1: list(range(4))}
    row = rows_of(RECORDS_VIEW, directory, TOPIC)[7]
    assert (row["topic"], row["key"], row["value"], row["headers"]) == (TOPIC, b"k7", b"v7", None)
    assert (row["timestamp"].timestamp() * 1000, row["timestamp_type"]) == (1_700_000_000_007, 0)


def test_only_segment_files_of_the_topic_are_looked_at(directory: Path) -> None:
    """Indexes, other topics, deleted segments and strangers in the directory do not disturb."""
    folder = directory / f"{TOPIC}-0"
    for name in ("00000000000000000000.index", "00000000000000000010.log.deleted", "leader-epoch-checkpoint"):
        (folder / name).write_bytes(b"not a batch at all")
    (directory / f"{TOPIC}-0-stray").mkdir()
    (directory / f"more-{TOPIC}-0").mkdir()
    (directory / "meta.properties").write_text("x=1")
    write_segment(directory, f"{TOPIC}-2", 0, [numbered(9)])
    assert offsets(directory) == {0: list(range(25)), 1: list(range(4))}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 25, range(25)), (3, 5, range(3, 5)), (9, 11, range(9, 11)), (10, 20, range(10, 20)), (24, 25, [24])],
)
def test_offsets_asked_for_are_exact(directory: Path, start: int, end: int, expected: list[int]) -> None:
    """Start inclusive, end exclusive, within batches and across segments; other partitions are read whole."""
    found = offsets(
        directory,
        startingOffsets=f'{{"{TOPIC}": {{"0": {start}}}}}',
        endingOffsets=f'{{"{TOPIC}": {{"0": {end}}}}}',
    )
    assert found == {0: list(expected), 1: list(range(4))}


def test_segments_without_wanted_offsets_are_not_opened(directory: Path) -> None:
    """A read of the end does not cost a read of the beginning."""
    for base in (0, 10):
        (directory / f"{TOPIC}-0" / f"{base:020}.log").write_bytes(b"garbage")
    assert offsets(directory, startingOffsets='{"flights": {"0": 20}}')[0] == [20, 21, 22, 23, 24]


def test_offsets_that_are_not_in_the_log_fail_unless_told_otherwise(directory: Path) -> None:
    """Asked for by number, gone or not yet there: an error, or with failOnDataLoss=false what there is."""
    (directory / f"{TOPIC}-0" / f"{0:020}.log").unlink()
    for options in (
        {"startingOffsets": '{"flights": {"0": 9}}'},
        {"endingOffsets": '{"flights": {"1": 5}}'},
    ):
        with pytest.raises(MissingData, match="failOnDataLoss"):
            offsets(directory, **options)
        assert offsets(directory, failOnDataLoss="false", **options)[0] == list(range(10, 25))


def test_a_missing_directory_or_topic_is_named(directory: Path) -> None:
    """And so is what is there instead."""
    with pytest.raises(MissingData, match="no data directory"):
        offsets(directory / "elsewhere")
    with pytest.raises(MissingData, match=r"'flihgts'.*topics there: flights"):
        rows_of(RECORDS_VIEW, directory, "flihgts")


def test_a_live_log_is_read_up_to_its_first_incomplete_batch(directory: Path) -> None:
    """However much of the last batch is there already: no error, no part of it, and a row that says so."""
    file = directory / f"{TOPIC}-0" / f"{20:020}.log"
    whole, growing = file.read_bytes(), numbered(3, 25)
    for size in (8, 11, 12, 60, 61, 62, len(growing) - 1):
        file.write_bytes(whole + growing[:size])
        assert offsets(directory)[0] == list(range(25))
        (row,) = corruptions(directory)
        assert (row["is_tail"], row["position"], row["size"]) == (True, len(whole), size)
    file.write_bytes(whole + growing)
    assert offsets(directory)[0] == list(range(28))
    assert corruptions(directory) == []


def test_what_is_written_after_planning_is_not_read(directory: Path) -> None:
    """A read covers one moment, however long its tasks wait."""
    (task,) = segments.plan(parse({"path": str(directory), "topic": TOPIC, "minPartitions": "1"}))
    file = directory / f"{TOPIC}-1" / f"{0:020}.log"
    file.write_bytes(file.read_bytes() + numbered(3, 4))
    read = [scan.batches.last_offset.tolist() for piece in task.pieces for scan in piece.scans()]
    assert read[-1] == [3]


def test_what_is_written_into_space_set_aside_after_planning_is_not_read(directory: Path) -> None:
    """The file does not grow by it, and yet what a read covers is what was there when it was planned."""
    file = directory / f"{TOPIC}-1" / f"{0:020}.log"
    there = file.read_bytes()
    ends_with_zeros = bytes(encode_batch([Record(b"k", bytes(300), 1000)], base_offset=4))
    file.write_bytes(there + ends_with_zeros + bytes(5000))
    (task,) = segments.plan(parse({"path": str(directory), "topic": TOPIC, "minPartitions": "1"}))
    file.write_bytes(there + ends_with_zeros + numbered(3, 5) + bytes(4000))
    read = [scan.batches.last_offset.tolist() for piece in task.pieces for scan in piece.scans()]
    assert read[-1] == [3, 4]


def test_space_set_aside_at_the_end_is_not_corrupt(directory: Path) -> None:
    """A broker may preallocate: zeros behind the last batch are no batch."""
    file = directory / f"{TOPIC}-0" / f"{20:020}.log"
    file.write_bytes(file.read_bytes() + bytes(5000))
    assert offsets(directory)[0] == list(range(25))
    assert corruptions(directory) == []


def test_a_corrupt_batch_fails_with_file_and_position(directory: Path) -> None:
    """Nothing is guessed: the message says where, and what can be done."""
    file = spoil(directory, 10, 90)
    with pytest.raises(CorruptLog, match=r"position 0 \(offset 10\): CRC is .*failOnCorrupt") as raised:
        offsets(directory)
    assert str(file) in str(raised.value)


def test_corrupt_batches_are_skipped_and_counted_when_told_so(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else is read, and how much is missing is said."""
    spoil(directory, 0, 70)
    assert offsets(directory, failOnCorrupt="false")[0] == list(range(4, 25))
    assert "skipped 1 unreadable stretches" in capsys.readouterr().err
    (row,) = corruptions(directory)
    assert (row["position"], row["size"], row["is_tail"]) == (0, len(numbered(4, 0)), False)


def test_a_segment_that_is_not_the_last_must_end_with_a_whole_batch(directory: Path) -> None:
    """What is a tail in the last segment is a loss in any other."""
    file = directory / f"{TOPIC}-0" / f"{10:020}.log"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptLog, match="ends in the middle of a batch"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(10), *range(20, 25)]


def test_a_length_that_cannot_be_costs_the_rest_of_its_segment_only(directory: Path) -> None:
    """There is no finding the next batch without the length of this one."""
    spoil(directory, 0, len(numbered(4, 0)) + 8)
    with pytest.raises(CorruptLog, match="length"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(4), *range(10, 25)]


@pytest.mark.parametrize("chunk_bytes", [1, 61, 100, 333, 1 << 20])
def test_batches_larger_than_a_chunk_are_read_whole(
    directory: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file is cut for reading makes no difference."""
    monkeypatch.setattr(segments, "CHUNK_BYTES", chunk_bytes)
    write_segment(directory, TOPIC, 1, [numbered(100, 0), numbered(1, 100), numbered(300, 101)])
    assert offsets(directory) == {0: list(range(25)), 1: list(range(401))}


def spoil(directory: Path, base_offset: int, position: int) -> Path:
    """Change one byte of a segment of partition 0."""
    file = directory / f"{TOPIC}-0" / f"{base_offset:020}.log"
    data = bytearray(file.read_bytes())
    data[position] ^= 0x80
    file.write_bytes(data)
    return file
