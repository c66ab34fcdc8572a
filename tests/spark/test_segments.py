"""A topic is read from a data directory: its files, its offsets, and its faults."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from tests.spark.support import numbered, rows_of, write_segment

from headgate.log.batch import Record, encode_batch
from headgate.log.batch_scan import CorruptLog
from headgate.log.index import OffsetIndex
from headgate.log.swap import CompactionState
from headgate.spark import directory as directory_source
from headgate.spark import segments
from headgate.spark.directory import CompactedWhileRead
from headgate.spark.formats import HeadgateDataSource
from headgate.spark.options import OptionError, parse
from headgate.spark.plan import MissingData
from headgate.spark.source import FEWEST_ROWS, RECORDS_VIEW, CorruptionsReader, ViewReader, joined

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
    """Return the offsets read, by partition."""
    found: dict[int, list[int]] = {}
    for row in rows_of(RECORDS_VIEW, directory, TOPIC, **options):
        found.setdefault(row["partition"], []).append(row["offset"])
    return found


def corruptions(directory: Path) -> list[dict[str, Any]]:
    """Return the unreadable parts."""
    reader = CorruptionsReader(parse({"path": str(directory), "topic": TOPIC}))
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def test_all_segments_of_all_partitions_are_read(directory: Path) -> None:
    """Every record once, with its columns."""
    assert offsets(directory) == {0: list(range(25)), 1: list(range(4))}
    row = rows_of(RECORDS_VIEW, directory, TOPIC)[7]
    assert (row["topic"], row["key"], row["value"], row["headers"]) == (TOPIC, b"k7", b"v7", None)
    assert (row["timestamp"].timestamp() * 1000, row["timestampType"]) == (1_700_000_000_007, 0)


def test_only_segment_files_of_the_topic_are_looked_at(directory: Path) -> None:
    """Indexes, other topics, deleted segments and unknown files in the directory are ignored."""
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
    """A read of the end does not read the start."""
    for base in (0, 10):
        (directory / f"{TOPIC}-0" / f"{base:020}.log").write_bytes(b"garbage")
    assert offsets(directory, startingOffsets='{"flights": {"0": 20}}')[0] == [20, 21, 22, 23, 24]


def test_offsets_that_are_not_in_the_log_fail_unless_configured_otherwise(directory: Path) -> None:
    """Deleted or future offsets: an error, or with failOnDataLoss=false the existing records."""
    (directory / f"{TOPIC}-0" / f"{0:020}.log").unlink()
    for options in (
        {"startingOffsets": '{"flights": {"0": 9}}'},
        {"endingOffsets": '{"flights": {"1": 5}}'},
    ):
        with pytest.raises(MissingData, match="failOnDataLoss"):
            offsets(directory, **options)
        assert offsets(directory, failOnDataLoss="false", **options)[0] == list(range(10, 25))


def test_a_missing_directory_or_topic_is_named(directory: Path) -> None:
    """The error lists the existing ones."""
    with pytest.raises(MissingData, match="no data directory"):
        offsets(directory / "elsewhere")
    with pytest.raises(MissingData, match=r"'flihgts'.*topics there: flights"):
        rows_of(RECORDS_VIEW, directory, "flihgts")


def test_a_live_log_is_read_up_to_its_first_incomplete_batch(directory: Path) -> None:
    """Whatever its length, the last batch is no error and no row, except in the table of corruptions."""
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
    """The plan fixes the extent of a read, however long its tasks wait."""
    (task,) = segments.plan(parse({"path": str(directory), "topic": TOPIC, "minPartitions": "1"}))
    file = directory / f"{TOPIC}-1" / f"{0:020}.log"
    file.write_bytes(file.read_bytes() + numbered(3, 4))
    read = [scan.batches.last_offset.tolist() for _, scan in task.scans()]
    assert read[-1] == [3]


def test_what_is_written_into_space_set_aside_after_planning_is_not_read(directory: Path) -> None:
    """The file does not grow, but the read has only the records that existed at its plan."""
    file = directory / f"{TOPIC}-1" / f"{0:020}.log"
    there = file.read_bytes()
    ends_with_zeros = bytes(encode_batch([Record(b"k", bytes(300), 1000)], base_offset=4))
    file.write_bytes(there + ends_with_zeros + bytes(5000))
    (task,) = segments.plan(parse({"path": str(directory), "topic": TOPIC, "minPartitions": "1"}))
    file.write_bytes(there + ends_with_zeros + numbered(3, 5) + bytes(4000))
    read = [scan.batches.last_offset.tolist() for _, scan in task.scans()]
    assert read[-1] == [3, 4]


def test_space_set_aside_at_the_end_is_not_corrupt(directory: Path) -> None:
    """A broker may preallocate: zeros after the last batch are no batch."""
    file = directory / f"{TOPIC}-0" / f"{20:020}.log"
    file.write_bytes(file.read_bytes() + bytes(5000))
    assert offsets(directory)[0] == list(range(25))
    assert corruptions(directory) == []


def test_a_corrupt_batch_fails_with_file_and_position(directory: Path) -> None:
    """The message has the position, and what can be done."""
    file = spoil(directory, 10, 90)
    with pytest.raises(CorruptLog, match=r"position 0 \(offset 10\): CRC is .*failOnCorrupt") as raised:
        offsets(directory)
    assert str(file) in str(raised.value)


def test_corrupt_batches_are_skipped_and_counted_when_configured(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All other records are read, and the size of the missing part is reported."""
    spoil(directory, 0, 70)
    assert offsets(directory, failOnCorrupt="false")[0] == list(range(4, 25))
    assert "skipped 1 unreadable part" in capsys.readouterr().err
    (row,) = corruptions(directory)
    assert (row["position"], row["size"], row["is_tail"]) == (0, len(numbered(4, 0)), False)


def test_a_segment_that_is_not_the_last_must_end_with_a_whole_batch(directory: Path) -> None:
    """An incomplete batch is a tail in the last segment only, and a loss in any other."""
    file = directory / f"{TOPIC}-0" / f"{10:020}.log"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptLog, match="ends in the middle of a batch"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(10), *range(20, 25)]


def test_a_length_that_cannot_be_costs_the_rest_of_its_segment_only(directory: Path) -> None:
    """Without the length of this batch the next one cannot be found."""
    spoil(directory, 0, len(numbered(4, 0)) + 8)
    with pytest.raises(CorruptLog, match="length"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(4), *range(10, 25)]


@pytest.mark.parametrize("chunk_bytes", [1, 61, 100, 333, 1 << 20])
def test_batches_larger_than_a_chunk_are_read_whole(
    directory: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The division of the file into chunks makes no difference."""
    monkeypatch.setattr(segments, "CHUNK_BYTES", chunk_bytes)
    write_segment(directory, TOPIC, 1, [numbered(100, 0), numbered(1, 100), numbered(300, 101)])
    assert offsets(directory) == {0: list(range(25)), 1: list(range(401))}


@pytest.mark.parametrize("base_offset", [0, 10])
@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
def test_every_flipped_bit_of_a_base_offset_is_found(
    directory: Path, base_offset: int, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CRC does not cover it, but batches follow each other: every lost or duplicate row is reported."""
    monkeypatch.setattr(segments, "CHUNK_BYTES", chunk_bytes)
    write_segment(directory, TOPIC, 0, [numbered(4, 0), numbered(2, 4), numbered(4, 6)])
    write_segment(directory, TOPIC, 0, [numbered(3, 10), numbered(3, 13), numbered(4, 16)], 10)
    file = directory / f"{TOPIC}-0" / f"{base_offset:020}.log"
    whole = file.read_bytes()
    at = len(numbered(4, 0)) if base_offset == 0 else len(numbered(3, 10))
    unreported = []
    for bit in range(64):
        data = bytearray(whole)
        data[at + 7 - bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        try:
            offsets(directory)
            unreported.append(bit)
        except CorruptLog:
            pass
    assert unreported == []


@pytest.mark.parametrize("bit", [0, 1, 3, 20, 62, 63])
def test_only_the_batch_with_the_flipped_bit_is_skipped(directory: Path, bit: int) -> None:
    """Its neighbours contradict its offset."""
    batches = [numbered(5, at) for at in range(0, 50, 5)]
    batches[4][7 - bit // 8] ^= 1 << bit % 8
    write_segment(directory, "many", 0, batches)
    rows = rows_of(RECORDS_VIEW, directory, "many", failOnCorrupt="false")
    assert [row["offset"] for row in rows] == [*range(20), *range(25, 50)]


@pytest.mark.parametrize("chunk_bytes", [100, 300, 1 << 20])
def test_zeros_with_batches_behind_them_are_corrupt(
    directory: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preallocated space is only after all data; batches after zeros are read."""
    monkeypatch.setattr(segments, "CHUNK_BYTES", chunk_bytes)
    batches = [numbered(1, at) for at in range(20, 30)]
    size = len(batches[0])
    data = bytearray(b"".join(batches))
    data[5 * size : 8 * size] = bytes(3 * size)
    file = directory / f"{TOPIC}-0" / f"{20:020}.log"
    file.write_bytes(data + bytes(700))
    with pytest.raises(CorruptLog, match=f"position {5 * size} .*zeros"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(25), 28, 29]
    (row,) = corruptions(directory)
    assert (row["position"], row["size"], row["is_tail"]) == (5 * size, 3 * size, False)


def test_a_spoilt_length_is_no_end_of_the_log(directory: Path) -> None:
    """A batch that ends after the file, with complete batches after it, is not one being written."""
    batches = [numbered(1, at) for at in range(20, 30)]
    batches[3][9] ^= 0x40
    file = directory / f"{TOPIC}-0" / f"{20:020}.log"
    file.write_bytes(b"".join(batches))
    with pytest.raises(CorruptLog, match=f"position {3 * len(batches[0])}"):
        offsets(directory)
    assert offsets(directory, failOnCorrupt="false")[0] == [*range(23), *range(24, 30)]


def test_files_that_compaction_replaced_since_planning_are_not_read(directory: Path) -> None:
    """The remaining files lack keys that were moved to other files."""
    folder = directory / f"{TOPIC}-0"
    options = parse({"path": str(directory), "topic": TOPIC, "minPartitions": "1"})
    (task,) = segments.plan(options)
    compacted = folder / "compacted"
    compacted.write_bytes(numbered(1, 19))
    compacted.replace(folder / f"{10:020}.log")
    with pytest.raises(
        CompactedWhileRead, match="compacted after its read was planned: run again, with a new DataFrame"
    ):
        list(task.scans())
    (task,) = segments.plan(options)
    (folder / f"{10:020}.log").unlink()
    with pytest.raises(CompactedWhileRead) as caught:
        list(task.scans())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "as it leaves a process"


def test_files_that_retention_deleted_since_planning_are_lost_data(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error, or with failOnDataLoss=false the remaining records."""
    given = {"path": str(directory), "topic": TOPIC, "minPartitions": "1"}
    (strict,) = segments.plan(parse(given))
    (lenient,) = segments.plan(parse(given | {"failOnDataLoss": "false"}))
    (directory / f"{TOPIC}-0" / f"{0:020}.log").unlink()
    with pytest.raises(MissingData, match="failOnDataLoss"):
        list(strict.scans())
    read = [scan.batches.base_offset.tolist() for _, scan in lenient.scans()]
    assert read == [[10], [20], [0]]
    assert "is skipped" in capsys.readouterr().err


def test_a_replacement_under_way_is_read_as_it_will_be(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the state file of the compaction says; a killed broker finishes it at its next start."""
    monkeypatch.setattr(directory_source, "SETTLE_S", 0.05)
    folder = directory / f"{TOPIC}-0"
    (folder / f"{0:020}.log.cleaned").write_bytes(numbered(2, 3))
    state = CompactionState(compacted_to=20, removed=(0, 10), added=(0,))
    (folder / "headgate.compaction").write_bytes(state.to_bytes())
    assert offsets(directory)[0] == [3, 4, *range(20, 25)]
    (folder / f"{0:020}.log.cleaned").replace(folder / f"{0:020}.log")
    assert offsets(directory)[0] == [3, 4, *range(20, 25)]
    (folder / "headgate.compaction").unlink()
    (folder / f"{0:020}.log.swap").write_bytes(b"")
    with pytest.raises(MissingData, match="cut short"):
        offsets(directory)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_large_segment_is_several_tasks(
    directory: Path, monkeypatch: pytest.MonkeyPatch, has_index: bool
) -> None:
    """Divided between batches: by its index, or where a complete batch is found."""
    monkeypatch.setattr(segments, "LEAST_PART_BYTES", 1000)
    batches = [numbered(5, at) for at in range(0, 400, 5)]
    file = write_segment(directory, "large", 0, batches)
    file.write_bytes(file.read_bytes() + bytes(3000))
    if has_index:
        index, position = OffsetIndex(), 0
        for at, batch in enumerate(batches):
            if at and not at % 7:
                index.append(at * 5 + 4, position)
            position += len(batch)
        file.with_suffix(".index").write_bytes(index.to_bytes() + bytes(800))
    options = parse({"path": str(directory), "topic": "large", "minPartitions": "4"})
    tasks = segments.plan(options)
    assert len(tasks) == 4
    read = [offset for task in tasks for _, scan in task.scans() for offset in scan.batches.base_offset]
    assert sorted(read) == list(range(0, 400, 5))
    wanted = {"startingOffsets": '{"large": {"0": 203}}', "endingOffsets": '{"large": {"0": 301}}'}
    rows = rows_of(RECORDS_VIEW, directory, "large", minPartitions="4", **wanted)
    assert [row["offset"] for row in rows] == list(range(203, 301))


@pytest.mark.parametrize(("start", "end"), [(203, 301), (399, 400), (0, 1), (0, 395), (395, 400)])
def test_a_few_offsets_of_a_large_segment_are_read_from_a_part_of_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch, start: int, end: int
) -> None:
    """A single task reads the parts that have the offsets, and no others."""
    monkeypatch.setattr(segments, "LEAST_PART_BYTES", 1000)
    file = write_segment(directory, "large", 0, [numbered(5, at) for at in range(0, 400, 5)])
    wanted = {
        "startingOffsets": f'{{"large": {{"0": {start}}}}}',
        "endingOffsets": f'{{"large": {{"0": {end}}}}}',
    }
    options = parse({"path": str(directory), "topic": "large", "minPartitions": "1", **wanted})
    (task,) = segments.plan(options)
    assert isinstance(task, segments.SegmentTask)
    most = file.stat().st_size * (end - start) // 400 + 3 * 1000
    assert sum(part.weight for part in task.parts) < most
    rows = rows_of(RECORDS_VIEW, directory, "large", minPartitions="1", **wanted)
    assert [row["offset"] for row in rows] == list(range(start, end))


def test_several_topics_are_one_read(directory: Path) -> None:
    """By their names, or by a pattern, or as single partitions."""
    write_segment(directory, "fares", 2, [numbered(2)])

    def read(**options: str) -> list[tuple[str, int, int]]:
        reader = ViewReader(RECORDS_VIEW, parse({"path": f"file://{directory}", **options}))
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)

    fares = [("fares", 2, 0), ("fares", 2, 1)]
    assert read(subscribe="fares") == fares
    assert read(subscribe="fares,flights") == read(subscribePattern="f.*")
    assert len(read(subscribePattern="f.*")) == 31
    some = read(
        assign='{"fares": [2], "flights": [1]}',
        startingOffsets='{"fares": {"2": 1}, "flights": {"1": 3}}',
    )
    assert some == [("fares", 2, 1), ("flights", 1, 3)]
    with pytest.raises(MissingData, match="no partition flights-7"):
        read(assign='{"flights": [7]}')
    with pytest.raises(OptionError, match="partitions that do not exist: flights-9"):
        read(subscribe="flights", startingOffsets='{"flights": {"9": 1}}')
    assert read(subscribe="fares", startingOffsets='{"fares": {"2": 50}}') == []


def test_a_schema_chooses_columns(directory: Path) -> None:
    """Those that it names, by current or earlier names; nothing else is decoded."""
    schema = StructType([StructField("timestamp_type", IntegerType()), StructField("offset", LongType())])
    source = HeadgateDataSource({"path": str(directory), "subscribe": TOPIC})
    reader = source.reader(schema)
    assert isinstance(reader, ViewReader)
    assert reader.names == ["timestamp_type", "offset"]
    (batch, *_) = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert batch.schema.names == ["timestamp_type", "offset"]
    with pytest.raises(OptionError, match="column offset is bigint, not string"):
        source.reader(StructType([StructField("offset", StringType())]))
    without = HeadgateDataSource({"path": str(directory), "subscribe": TOPIC, "includeHeaders": "false"})
    assert without.schema().fieldNames() == source.schema().fieldNames()[:-1]


def spoil(directory: Path, base_offset: int, position: int) -> Path:
    """Change one byte of a segment of partition 0."""
    file = directory / f"{TOPIC}-0" / f"{base_offset:020}.log"
    data = bytearray(file.read_bytes())
    data[position] ^= 0x80
    file.write_bytes(data)
    return file


def test_small_record_batches_are_joined_for_spark() -> None:
    """In order, and without a copy of those that are large enough."""
    numbers = iter(range(1_000_000))

    def batch(size: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"n": [next(numbers) for _ in range(size)]})

    small, large = [batch(7) for _ in range(3000)], batch(FEWEST_ROWS)
    found = list(joined([*small, large, batch(1)]))
    assert [each.num_rows for each in found] == [10_003, 10_003, 994 + FEWEST_ROWS, 1]
    assert [n for each in found for n in each["n"].to_pylist()] == list(range(21_000 + FEWEST_ROWS + 1))
    assert next(joined([large])) is large
    assert list(joined([])) == []
