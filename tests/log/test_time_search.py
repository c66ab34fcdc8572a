"""Searches by time: the first record at or after a time, and the first one with the largest timestamp."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.log.support import DIRECTORY, Place, append, contents, first_at, memory, names, newest

from headgate.log.batch import (
    BatchHeader,
    Record,
    encode_batch,
    iterate_records,
    read_header,
    set_log_append_time,
)
from headgate.log.filesystem import MemoryFileSystem
from headgate.log.log import Log, LogSettings
from headgate.log.rewriting import emptied
from headgate.log.time_search import Search, search_largest_timestamp

GZIP = 1


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


def put(log: Log, *timestamps: int, codec: int = 0) -> None:
    """Append one batch with these timestamps."""
    records = [Record(b"k", b"v", timestamp) for timestamp in timestamps]
    batch = bytes(encode_batch(records, base_offset=log.log_end_offset, codec=codec))
    log.append(batch, [read_header(batch)])


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


@pytest.mark.parametrize(("count", "codec", "is_aside"), [(10, 0, False), (10, 4, True), (3000, 0, True)])
def test_large_batches_are_searched_in_a_thread(count: int, codec: int, is_aside: bool) -> None:
    """Many records, or compressed ones; for both searches."""
    log = Place(settings=LogSettings()).open()
    records = [Record(b"k", b"v", 1000 + at) for at in range(count)]
    batch = bytes(encode_batch(records, codec=codec))
    log.append(batch, [read_header(batch)])
    assert _searched(log.search_timestamp(1005)) == ((1005, 5), [True] * is_aside)
    found, steps = _searched(log.search_largest_timestamp(log.log_end_offset))
    assert found == (1000 + count - 1, count - 1)
    assert any(steps) is is_aside


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([[5] * 10], (5, 0)),
        ([[1, 9, 9, 1], [1, 2]], (9, 1)),
        ([[5], [9, 1], [9, 9], [3, 9, 1]], (9, 1)),
        ([[9, 1], [1, 9, 2]], (9, 0)),
        ([[3], [1, 8, 7], [8, 2]], (8, 2)),
    ],
)
@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("segment_bytes", [100, 1 << 20])
def test_the_first_record_with_the_largest_timestamp_is_found(
    batches: list[list[int]], found: tuple[int, int], codec: int, segment_bytes: int
) -> None:
    """As in Kafka: of the records of a batch, of batches, and of segments."""
    place = Place(settings=LogSettings(segment_bytes=segment_bytes))
    log = place.open()
    for timestamps in batches:
        put(log, *timestamps, codec=codec)
    assert newest(log) == found
    log.close()
    assert newest(place.open(clean=True)) == found


def test_the_first_record_of_an_append_time_is_found() -> None:
    """All records of a batch have the time of its append."""
    log = Place().open()
    for time in (100, 300, 300):
        batch = encode_batch([Record(b"k", b"v", at) for at in (7, 9, 8)], base_offset=log.log_end_offset)
        set_log_append_time(batch, 0, time)
        log.append(bytes(batch), [read_header(batch)])
    assert newest(log) == (300, 3)


def test_only_the_batch_with_the_largest_timestamp_is_unpacked() -> None:
    """Wherever it is in the log and its record in the batch; headers tell which batch that is."""
    log = Place(settings=LogSettings(segment_bytes=2000, index_interval_bytes=300)).open()
    for at in range(100):
        put(log, 1000 + at, 1000 + at, 900 + at, codec=GZIP)
    assert _searched(log.search_largest_timestamp(300)) == ((1099, 297), [True])
    assert _searched(log.search_largest_timestamp(150)) == ((1049, 147), [True])
    put(log, 10, codec=GZIP)
    assert _searched(log.search_largest_timestamp(301)) == ((1099, 297), [True])


class CountedBatches:
    """A log that counts the batches whose headers a search looks at."""

    def __init__(self, log: Log) -> None:
        self.log_start_offset = log.log_start_offset
        self.count = 0
        self._log = log

    def batches(self, from_offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
        for found in self._log.batches(from_offset, limit):
            self.count += 1
            yield found


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_time_index_leads_to_the_largest_timestamp(is_reopened: bool) -> None:
    """Below the end of the log, too, only few headers are looked at: some batches are not durable yet."""
    place = Place(settings=LogSettings(index_interval_bytes=200))
    log = place.open()
    for _ in range(1000):
        append(log)
    if is_reopened:
        log.close()
        log = place.open(clean=True)
    for end, most in ((1000, 1), (999, 10), (500, 10)):
        counted = CountedBatches(log)
        found, _ = _searched(search_largest_timestamp(counted, log.segments, end))
        assert found == (999 + end, end - 1)
        assert counted.count <= most


def test_the_indexes_of_one_segment_are_read_in_a_step() -> None:
    """A log with many segments holds up nobody, and their largest timestamps are read once."""
    place = Place()
    log = place.open()
    for _ in range(200):
        append(log)
    log.close()
    for search in (Log.search_timestamp, Log.search_largest_timestamp):
        log = place.open(clean=True)
        unknown = len([one for one in log.segments if not one.is_newest_known])
        assert unknown > 15
        argument = 1199 if search is Log.search_timestamp else 200
        steps = search(log, argument)
        for number in range(unknown - 1):
            assert next(steps) is None
            assert len([one for one in log.segments if not one.is_newest_known]) == unknown - 1 - number
        assert _searched(steps)[0] == (1199, 199)
        log.close_files()
        assert _searched(search(log, argument)) == ((1199, 199), [])


def test_a_deleted_record_costs_the_unpacking_of_two_batches() -> None:
    """The one whose largest timestamp is deleted, and the one that has the largest of those that remain."""
    log = Place(settings=LogSettings()).open()
    put(log, 5000, 1010, 1020, codec=GZIP)
    for at in range(100):
        put(log, 1000 + at, 900 + at, codec=GZIP)
    log.delete_before(1)
    found, steps = _searched(log.search_largest_timestamp(log.log_end_offset))
    assert (found, sum(steps)) == ((1099, 201), 2)
    log.delete_before(202)
    assert newest(log) == (999, 202)


@pytest.mark.parametrize("interval", [0, 200, 4096])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_largest_timestamp_below_an_offset(interval: int, is_reopened: bool) -> None:
    """Whatever is above that offset, and however the timestamps before it rise and fall."""
    place = Place(settings=LogSettings(segment_bytes=1500, index_interval_bytes=interval))
    log = place.open()
    for at in range(90):
        put(log, 1000 + at * 37 % 50, 1000 + at * 11 % 60)
    if is_reopened:
        log.close()
        log = place.open(clean=True)
    records = list(iterate_records(b"".join(contents(log))))
    for start in (0, 77):
        log.delete_before(start)
        for end in range(start + start % 2, 181, 2):
            times = [(-record.timestamp, offset) for offset, record in records if start <= offset < end]
            expected = min(times, default=None)
            assert newest(log, end) == (None if expected is None else (-expected[0], expected[1]))


def test_a_batch_without_records_has_no_largest_timestamp() -> None:
    """Compaction leaves such batches, with the timestamps that they had."""
    log = Place().open()
    put(log, 100, 200)
    empty = bytes(emptied(read_header(encode_batch([Record(b"k", b"v", 900)], base_offset=2))))
    log.append(empty, [read_header(empty)])
    put(log, 200)
    assert newest(log) == (200, 1)


@pytest.mark.parametrize(
    "entry", [b"\0" * 6 + b"\x23\x28" + b"\0\0\0\x05", b"\0" * 7 + b"\x64" + b"\0\0\0\x05"]
)
def test_a_wrong_time_index_is_noticed(files: MemoryFileSystem, entry: bytes) -> None:
    """An entry for another batch, with a timestamp that is too large or that it does not have."""
    place = Place(files, settings=LogSettings(index_interval_bytes=10_000))
    log = place.open()
    for timestamp in (100, 9000, 200, 300, 400, 500, 600):
        append(log, timestamp=timestamp)
    log.close()
    files.open(DIRECTORY / names(place, ".timeindex")[0]).pwrite(entry, 0)
    log = place.open(clean=True)
    assert newest(log) == (9000, 1)
    assert newest(log, 5) == (9000, 1)


def test_a_search_among_many_batches_pauses() -> None:
    """If the record with the largest timestamp was deleted, all batches may have to be searched."""
    log = Place(settings=LogSettings()).open()
    for timestamp in (9000, *range(1000, 3000)):
        append(log, timestamp=timestamp)
    log.delete_before(1)
    found, steps = _searched(log.search_largest_timestamp(log.log_end_offset))
    assert found == (2999, 2000)
    assert len(steps) >= 3 and not any(steps)


def test_a_search_by_time_pauses_among_batches_before_that_time() -> None:
    """After a record from the future, no entry of the time index leads to those that come later still."""
    log = Place(settings=LogSettings()).open()
    for timestamp in (9000, *range(1000, 3000), 9500):
        append(log, timestamp=timestamp)
    found, steps = _searched(log.search_timestamp(9001))
    assert found == (9500, 2001)
    assert len(steps) >= 3 and not any(steps)


def test_a_search_continues_in_a_changing_log() -> None:
    """Records deleted meanwhile are not found, and do not end the search."""
    log = Place(settings=LogSettings()).open()
    for timestamp in (9000, *range(1000, 3000), 500):
        append(log, timestamp=timestamp)
    log.delete_before(1)
    search = log.search_largest_timestamp(log.log_end_offset)
    assert next(search) is None
    log.delete_before(2001)
    log.close_files()
    assert _searched(search)[0] in ((500, 2001), (1499, 500))
    assert newest(log) == (500, 2001)
