"""Compaction: records that are kept and dropped, and operations meanwhile."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.log.compacting import (
    NOW,
    RETENTION,
    Collecting,
    Pair,
    advance,
    all_records,
    compacted,
    drive,
    order,
    put,
    put_run,
    record,
    replayed,
    write,
)
from tests.log.support import Place, contents, delete, sync

from headgate.log.batch import CorruptBatch, iterate_records, read_header
from headgate.log.compaction import CompactionCancelled, compact
from headgate.log.header import BatchHeader
from headgate.log.log import Log, LogSettings


@pytest.fixture
def place() -> Place:
    """A fresh data directory; segments take about six batches of one record."""
    return Place(settings=LogSettings(segment_bytes=500, index_interval_bytes=150))


def roll(log: Log) -> None:
    """Close the active segment, so that all that is there so far can be compacted."""
    segment_bytes = log.settings.segment_bytes
    log.settings = LogSettings(segment_bytes=1, index_interval_bytes=log.settings.index_interval_bytes)
    put(log, [("last", "x")])
    log.settings = LogSettings(segment_bytes, index_interval_bytes=log.settings.index_interval_bytes)
    sync(log)


def headers(log: Log) -> list[BatchHeader]:
    """The headers of all batches that may be read."""
    return [header for header, _ in log.batches(log.log_start_offset)]


def test_the_last_record_of_each_key_is_kept(place: Place) -> None:
    """Offsets, timestamps and values do not change."""
    log = place.open()
    for at in range(40):
        put(log, [(f"k{at % 3}", f"v{at}")])
    roll(log)
    before, end = all_records(log), log.log_end_offset
    result = compacted(log)
    after = all_records(log)
    assert sorted(after) == [37, 38, 39, 40]
    assert all(before[offset] == one for offset, one in after.items())
    assert (log.log_start_offset, log.log_end_offset, log.compacted_to) == (0, end, 40)
    assert (result.records_read, result.records_dropped) == (40, 37)
    assert result.bytes_after < result.bytes_before / 5
    assert log.segment_count == 2, "the copies were put together"


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_loses_records_keeps_offsets_codec_and_producer(place: Place, codec: int) -> None:
    """Base offset, last offset, sequence and codec are as before; the remaining records can be read."""
    log = place.open()
    put(log, [("a", "1" * 5000), ("b", "2"), ("a", "3" * 5000), ("c", "4")], codec=codec, producer=(7, 5))
    put(log, [("c", "5")])
    roll(log)
    before = headers(log)[0]
    compacted(log)
    after, batch = next(log.batches())
    assert [offset for offset, _ in iterate_records(batch)] == [1, 2]
    for name in ("base_offset", "last_offset", "codec", "producer_id", "base_sequence", "last_sequence"):
        assert getattr(after, name) == getattr(before, name)
    assert after.record_count == 2


def test_a_tombstone_is_kept_until_its_delete_horizon(place: Place) -> None:
    """The records it replaces are dropped at once. The first compaction that finds it sets the horizon, as in
    Kafka.
    """
    log = place.open()
    put(log, [("a", "1")])
    put(log, [("a", None), ("b", "2")])
    roll(log)
    compacted(log, now=NOW)
    (header, batch), *_ = log.batches()
    assert [(offset, one.value) for offset, one in iterate_records(batch)] == [(1, None), (2, b"2")]
    assert [one.timestamp for _, one in iterate_records(batch)] == [1, 1]
    assert header.delete_horizon_ms == header.base_timestamp == NOW + RETENTION
    roll(log)
    compacted(log, now=NOW + RETENTION - 1)
    assert 1 in all_records(log)
    roll(log)
    compacted(log, now=NOW + RETENTION)
    assert 1 not in all_records(log)
    assert replayed(log) == {"b": "2", "last": "x"}


def test_records_without_keys_are_dropped(place: Place) -> None:
    """A record without a key replaces nothing."""
    log = place.open()
    write(log, [record("a", "1", 5), record("", None, 5)._replace(key=None)])
    put(log, [("a", "2")])
    roll(log)
    compacted(log)
    assert sorted(all_records(log)) == [2, 3]
    assert log.compacted_to == 3


def test_the_header_of_a_producers_last_batch_is_kept(place: Place) -> None:
    """With its sequence, until the producer expires; earlier batches are removed completely."""
    log = place.open()
    put(log, [("a", "1")], producer=(7, 0))
    put(log, [("a", "2"), ("b", "2")], producer=(7, 1))
    put(log, [("a", "3"), ("b", "3")])
    roll(log)
    compacted(log)
    kept = [header for header in headers(log) if header.producer_id == 7]
    assert [(h.base_offset, h.last_offset, h.last_sequence, h.record_count) for h in kept] == [(1, 2, 2, 0)]
    put(log, [("c", "1")], producer=(7, 3))
    roll(log)
    compacted(log)
    assert [h.base_offset for h in headers(log) if h.producer_id == 7] == [6]
    put(log, [("c", "2")])
    roll(log)
    compacted(log, producers_since=NOW)
    assert not [h for h in headers(log) if h.producer_id == 7]


def test_a_segment_never_becomes_empty(place: Place) -> None:
    """Without remaining records a header is kept, and the log still starts there."""
    log = place.open()
    for at in range(12):
        put(log, [("a", str(at) * 30)])
    roll(log)
    write(log, [record("", None, 5)._replace(key=None)])
    roll(log)
    log.delete_before(3)
    compacted(log)
    log = place.open()
    assert log.log_start_offset == 3
    assert replayed(log) == {"a": "11" * 30, "last": "x"}
    for offset in range(3, log.log_end_offset):
        assert log.read(offset, 1000)


def test_an_incomplete_run_is_dropped_and_a_complete_one_loses_its_headers(place: Place) -> None:
    """An incomplete commit replaces nothing; the remaining records of a complete one are independent of the
    rest.
    """
    log = place.open()
    put(log, [("a", "1"), ("b", "1")])
    put_run(log, [("a", "2"), ("b", "2"), ("c", "2")], batches=2, whole=False)
    put_run(log, [("b", "3"), ("c", "3"), ("d", "3")], batches=2)
    put(log, [("c", "4")])
    roll(log)
    before = replayed(log)
    compacted(log)
    records = all_records(log)
    assert sorted(records) == [0, 4, 6, 7, 8]
    assert records[4].headers == [(b"x", b"y")]
    assert replayed(log) == before == {"a": "1", "b": "3", "c": "4", "d": "3", "last": "x"}


def test_an_open_run_ends_the_compaction(place: Place) -> None:
    """It is unknown whether its records will count; they are kept, and those they would replace."""
    log = place.open()
    put(log, [("a", "1")])
    put(log, [("a", "2")])
    put_run(log, [("a", "3"), ("a", "4")], batches=1, whole=False)
    log.settings = LogSettings(segment_bytes=1)
    put_run(log, [("z", "5")], batches=1)
    sync(log)
    first_run = read_header(contents(log)[2])
    compacted(log, not_beyond=3)
    assert log.compacted_to == first_run.base_offset == 2
    assert sorted(all_records(log)) == [1, 2, 3]


def test_superseded_records_are_offered_and_settled_before_they_are_dropped(place: Place) -> None:
    """The history gets every record that counted, and no other."""
    log = place.open()
    put(log, [("a", "1"), ("b", "1")])
    put_run(log, [("a", "2"), ("b", "2")], batches=1, whole=False)
    put(log, [("a", "3")])
    roll(log)
    keeping = Collecting()
    steps = compact(log, order(log, dropped=keeping))
    for work in steps:
        if work is not None:
            work()
        if 0 not in all_records(log):
            assert keeping.settled == 1
    assert [(offset, one.value) for offset, one in keeping.offered] == [(0, b"1")]


def test_a_small_table_takes_several_passes(place: Place) -> None:
    """Each pass goes as far as its table allows; the result is that of one pass."""
    log = place.open()
    for at in range(400):
        put(log, [(f"k{at % 150}", str(at))])
    roll(log)
    before = replayed(log)
    ends = []
    while log.compacted_to < 400:
        compacted(log, table_bytes=0)
        ends.append(log.compacted_to)
    assert len(ends) > 3
    assert ends == sorted(set(ends))
    assert replayed(log) == before
    assert len(all_records(log)) == 151


def test_the_table_grows_for_a_large_run(place: Place) -> None:
    """A run must fit, whatever the limit."""
    log = place.open()
    put_run(log, [(f"k{at}", "1") for at in range(300)], batches=30)
    put_run(log, [(f"k{at}", "2") for at in range(300)], batches=30)
    roll(log)
    while log.compacted_to < 600:
        compacted(log, table_bytes=0)
    assert sorted(all_records(log)) == [*range(300, 600), 600]


def test_compaction_allows_appends_and_waits_for_iterations(place: Place) -> None:
    """A load in progress reads the old log; batches appended meanwhile are neither lost nor compacted."""
    log = place.open()
    for at in range(40):
        put(log, [(f"k{at % 3}", f"v{at}")])
    roll(log)
    reader = log.batches()
    seen = [next(reader)[0].base_offset]
    steps = compact(log, order(log))
    for _ in range(1500):
        advance(steps)
        if log.log_end_offset < 60:
            put(log, [("k1", "new")])
    seen += [header.base_offset for header, _ in reader]
    assert seen == list(range(41))
    assert len(all_records(log)) == 60, "nothing was replaced under the reader"
    drive(steps)
    assert sorted(all_records(log))[:4] == [37, 38, 39, 40]
    assert replayed(log) == {"k0": "v39", "k1": "new", "k2": "v38", "last": "x"}


@pytest.mark.parametrize("what", ["truncate", "delete", "delete_before", "recover", "fail"])
def test_changes_of_the_log_cancel_its_compaction(place: Place, what: str) -> None:
    """At every step; the log is valid and no temporary file is left."""
    for patience in range(1, 400):
        place = Place(settings=place.settings)
        log = place.open()
        for at in range(20):
            put(log, [(f"k{at % 3}", f"v{at}")])
        roll(log)
        steps = compact(log, order(log))
        try:
            for _ in range(patience):
                advance(steps)
        except StopIteration:
            return
        compacted_to = log.compacted_to
        match what:
            case "truncate":
                log.truncate(10)
            case "delete":
                delete(log)
            case "delete_before":
                log.delete_before(15)
            case "recover":
                log.recover()
            case "fail":
                log.fail(OSError(5, "broken"))
        if what == "delete_before" or compacted_to:
            with suppress(CompactionCancelled):
                drive(steps)
        else:
            with pytest.raises(CompactionCancelled):
                drive(steps)
        if what == "delete":
            assert not place.files.exists(place.directory)
            continue
        if what == "fail":
            log.recover()
        state = replayed(log)
        expected = {f"k{at % 3}": f"v{at}" for at in range(10 if what == "truncate" else 20)}
        if what != "truncate":
            expected["last"] = "x"
        if what == "delete_before":
            assert state.items() <= expected.items()
        elif what != "truncate" or not compacted_to:
            assert state == expected
        assert not [name for name in place.files.listdir(place.directory) if ".cleaned" in name]
        put(log, [("k0", "more")])
        assert place.open().log_end_offset == log.log_end_offset
    raise AssertionError("the compaction never ended")


def test_a_corrupt_batch_stops_compaction_and_is_not_sealed_with_a_new_checksum(place: Place) -> None:
    """Bit rot stays detectable: the log is unchanged."""
    log = place.open()
    for at in range(20):
        put(log, [("a", f"v{at}"), ("b", "x" * 20)])
    roll(log)
    file = place.files.open(place.directory / f"{0:020d}.log")
    byte = file.pread(1, 80)
    file.pwrite(bytes([byte[0] ^ 1]), 80)
    with pytest.raises(CorruptBatch):
        compacted(log)
    assert log.compacted_to == 0
    assert log.segment_count > 2


KEYS = st.sampled_from("abcdef")
VALUES = st.one_of(st.none(), st.sampled_from(["1", "2", "3" * 40]))
PAIRS: st.SearchStrategy[list[Pair]] = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
WRITES: st.SearchStrategy[tuple[str, list[Pair], int]] = st.tuples(
    st.sampled_from(["batch", "batch", "run", "torn", "compact"]), PAIRS, st.integers(1, 4)
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    writes=st.lists(WRITES, min_size=5, max_size=40),
    cut=st.floats(0, 1),
    table_bytes=st.sampled_from([0, 1 << 20]),
    segment_bytes=st.sampled_from([200, 500, 2000]),
)
def test_a_compacted_log_replays_to_the_same_state(
    writes: list[tuple[str, list[Pair], int]], cut: float, table_bytes: int, segment_bytes: int
) -> None:
    """For any history, compactions in between and any time; every offset is readable. A second compaction at
    the same time changes nothing, nor does a restart.
    """
    place = Place(settings=LogSettings(segment_bytes, index_interval_bytes=100))
    plain = Place(settings=LogSettings())
    log, twin = place.open(), plain.open()
    now = NOW
    for kind, pairs, number in writes:
        if kind == "compact":
            sync(log)
            now += number * RETENTION // 2
            compacted(log, now=now, table_bytes=table_bytes, not_beyond=round(cut * log.log_end_offset))
            continue
        for one in (log, twin):
            match kind:
                case "batch":
                    put(one, pairs, codec=number)
                case "run":
                    put_run(one, pairs, number)
                case "torn":
                    put_run(one, pairs, number, whole=False)
    sync(log)
    state = replayed(twin)
    assert replayed(log) == state
    cut_at = round(cut * log.log_end_offset)
    compacted(log, now=now, table_bytes=table_bytes, not_beyond=cut_at)
    assert replayed(log) == state
    assert log.log_end_offset == twin.log_end_offset
    once = contents(log)
    compacted_to = log.compacted_to
    compacted(log, now=now, table_bytes=table_bytes, not_beyond=compacted_to)
    assert contents(log) == once
    everything = all_records(twin)
    for offset, found in all_records(log).items():
        assert found._replace(headers=()) == everything[offset]._replace(headers=())
    for offset in range(log.log_start_offset, log.log_end_offset):
        batch = log.read(offset, 1)
        assert not batch or read_header(batch).last_offset >= offset
    log = place.open()
    assert (contents(log), log.compacted_to) == (once, compacted_to)
    assert not place.reported
