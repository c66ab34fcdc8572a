"""Lookups by offset and by time, and reads of whole batches."""

from __future__ import annotations

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, filled, first_at, memory, names, newest

from headgate.log.batch import CorruptBatch, Record, encode_batch, read_header
from headgate.log.filesystem import MemoryFileSystem
from headgate.log.log import LogSettings, OffsetOutOfRange
from headgate.log.swap import save_compacted_to
from headgate.log.time_search import Search


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("interval", [0, 200, 4096])
def test_every_offset_is_found(files: MemoryFileSystem, is_reopened: bool, interval: int) -> None:
    """A read at any offset begins with the batch that has it, at the tail and by the index."""
    place = Place(files, settings=LogSettings(segment_bytes=1000, index_interval_bytes=interval))
    log = place.open()
    for count in (1, 3, 2) * 12:
        append(log, count)
    if is_reopened:
        log.close()
        log = place.open(clean=True)
    for offset in range(log.log_end_offset):
        header = read_header(log.read(offset, 1))
        assert header.base_offset <= offset < header.next_offset


def test_consecutive_reads_return_all_batches(place: Place) -> None:
    """Each batch once, within the limit of each read."""
    log, batches = filled(place)
    got = bytearray()
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 250)
        assert 0 < len(data) <= 250
        got += data
        offset += len(data) // len(batches[0])
    assert got == b"".join(batches)


def test_a_read_never_reaches_up_to(place: Place) -> None:
    """Batches that reach `up_to` are not returned."""
    log = place.open()
    batches = [append(log, 2) for _ in range(5)]
    assert log.read(0, 10_000, up_to=4) == b"".join(batches[:2])
    assert log.read(0, 10_000, up_to=5) == b"".join(batches[:2])
    assert log.read(4, 10_000, up_to=4) == b""
    assert log.read(6, 10_000, up_to=4) == b""
    assert log.read(0, 10_000, up_to=100) == b"".join(batches)


def test_a_large_first_batch_is_returned_with_minimum_one(place: Place) -> None:
    """Without it, nothing is returned."""
    log = place.open()
    batch = append(log, size=500)
    append(log)
    for max_bytes in (0, 5, 60, len(batch) - 1):
        assert log.read(0, max_bytes) == batch
        assert log.read(0, max_bytes, minimum_one=False) == b""
    assert log.read(0, len(batch), minimum_one=False) == batch


def test_reading_outside_the_log_is_refused(place: Place) -> None:
    """Offsets before the start or past the end are out of range; a read at the end is empty."""
    log = place.open()
    append(log, 3)
    log.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)
    assert log.read(3, 100) == b""
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(4)


def test_reads_skip_gaps_of_compaction(files: MemoryFileSystem) -> None:
    """They return the next batch, in a closed segment or after it."""
    place = Place(files)
    log, batches = filled(place, 20)
    log.close()
    kept = [0, 3, 4]
    path = DIRECTORY / f"{0:020d}.log"
    file = files.open(path)
    file.truncate(0)
    file.pwrite(b"".join(batches[at] for at in kept), 0)
    files.remove(path.with_suffix(".index"))
    files.remove(path.with_suffix(".timeindex"))
    save_compacted_to(files, DIRECTORY, int(names(place, ".log")[1][:20]))
    for is_clean in (True, False):
        log = place.open(clean=is_clean)
        assert log.log_end_offset == 20
        following = int(names(place, ".log")[1][:20])
        for offset, found in ((0, 0), (1, 3), (3, 3), (4, 4), (5, following), (following, following)):
            assert read_header(log.read(offset, 1)).base_offset == found
        assert first_at(log, 1002) == (1003, 3)
    assert not place.reported


def test_records_are_found_by_time(place: Place) -> None:
    """The first record at or after a time, in a batch and across segments, after the log start."""
    log = place.open()
    for at in range(40):
        append(log, 2, timestamp=1000 + 10 * at)
    assert first_at(log, 0) == (1000, 0)
    assert first_at(log, 1001) == (1001, 1)
    assert first_at(log, 1002) == (1010, 2)
    assert first_at(log, 1391) == (1391, 79)
    assert first_at(log, 1392) is None
    assert newest(log) == (1391, 79)
    log.delete_before(51)
    assert first_at(log, 0) == (1251, 51)


def test_the_largest_timestamp_need_not_be_the_last(place: Place) -> None:
    """It is found until the log starts after it; without timestamps there is none."""
    log = place.open()
    append(log, timestamp=100)
    append(log, timestamp=9000)
    for _ in range(20):
        append(log, timestamp=200)
    assert newest(log) == (9000, 1)
    assert first_at(log, 300) == (9000, 1)
    log.delete_before(2)
    assert newest(log) == (200, 2)
    assert first_at(log, 300) is None
    timeless = Place(memory()).open()
    append(timeless, timestamp=-1)
    assert newest(timeless) is None


def test_an_iteration_ends_at_the_log_end_of_its_start(place: Place) -> None:
    """Batches appended meanwhile are not included."""
    log, batches = filled(place, 10)
    iterator = log.batches(3)
    first = next(iterator)
    append(log)
    assert [first[1], *(batch for _, batch in iterator)] == batches[3:]
    assert [header.base_offset for header, _ in log.batches(2, up_to=5)] == [2, 3, 4]


def test_batches_larger_than_a_chunk_are_read_whole() -> None:
    """By an iteration, among small ones."""
    place = Place(settings=LogSettings())
    log = place.open()
    batches = [append(log, size=size) for size in (10, 3 << 20, 10, (1 << 20) - 200, 1 << 20, 10)]
    assert contents(log) == batches
    assert contents(place.open()) == batches
    assert not place.reported


def test_a_read_of_a_file_cut_by_others_raises(files: MemoryFileSystem, place: Place) -> None:
    """It is damage, not an empty result."""
    log, _ = filled(place, 5)
    files.open(DIRECTORY / f"{0:020d}.log").truncate(100)
    with pytest.raises(CorruptBatch, match="ends at"):
        log.read(0, 10_000)


def _searched(search: Search) -> tuple[tuple[int, int] | None, list[bool]]:
    """What a search comes to, and for each of its steps whether it was for a thread."""
    steps: list[bool] = []
    while True:
        try:
            work = next(search)
        except StopIteration as end:
            return end.value, steps
        steps.append(work is not None)
        if work is not None:
            work()


@pytest.mark.parametrize(("count", "codec", "is_aside"), [(10, 0, False), (10, 4, True), (3000, 0, True)])
def test_large_batches_are_searched_in_a_thread(count: int, codec: int, is_aside: bool) -> None:
    """Many records, or compressed ones; for both searches."""
    log = Place(settings=LogSettings()).open()
    records = [Record(b"k", b"v", 1000 + at) for at in range(count)]
    batch = bytes(encode_batch(records, codec=codec))
    log.append(batch, [read_header(batch)])
    assert _searched(log.search_timestamp(1005)) == ((1005, 5), [True] * is_aside)
    found, steps = _searched(log.search_largest_timestamp())
    assert found == (1000 + count - 1, count - 1)
    assert any(steps) is is_aside


def test_a_search_among_many_batches_pauses() -> None:
    """If the record with the largest timestamp was deleted, all batches may have to be searched."""
    log = Place(settings=LogSettings()).open()
    for timestamp in (9000, *range(1000, 1600)):
        append(log, timestamp=timestamp)
    log.delete_before(1)
    found, steps = _searched(log.search_largest_timestamp())
    assert found == (1599, 600)
    assert len(steps) >= 6 and not any(steps)


def test_a_search_continues_in_a_changing_log() -> None:
    """Records deleted meanwhile are not found, and do not end the search."""
    log = Place(settings=LogSettings()).open()
    for timestamp in range(1000, 1600):
        append(log, timestamp=timestamp)
    append(log, timestamp=500)
    search = log.search_largest_timestamp()
    assert next(search) is None
    log.delete_before(600)
    log.close_files()
    assert _searched(search)[0] in ((500, 600), (1599, 599))
    assert newest(log) == (500, 600)
