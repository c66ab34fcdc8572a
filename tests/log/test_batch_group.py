"""Batches that compaction processes as a group have the same results as single records."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.log.compacting import NOW, RETENTION, Collecting, Pair, drive, order, put, put_run
from tests.log.support import Place, contents, sync

from headgate.log import batch_group, key_table
from headgate.log.batch_group import BatchGroup
from headgate.log.compaction import CompactionResult, compact
from headgate.log.key_table import KeyTable, key_hash
from headgate.log.log import LogSettings

KEYS = st.sampled_from("abcdefgh")
VALUES = st.sampled_from(["1", "2", "3" * 40])
PLAIN: st.SearchStrategy[list[Pair]] = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8)
ANY: st.SearchStrategy[list[Pair]] = st.lists(
    st.tuples(KEYS, st.one_of(st.none(), VALUES)), min_size=1, max_size=5
)
WRITES: st.SearchStrategy[tuple[str, list[Pair]]] = st.one_of(
    st.tuples(st.sampled_from(["batch"] * 6 + ["producer", "packed", "compact"]), PLAIN),
    st.tuples(st.sampled_from(["batch", "run", "torn"]), ANY),
)


def compacted_log(
    writes: list[tuple[str, list[Pair]]], table_bytes: int
) -> tuple[object, list[object], list[CompactionResult]]:
    """What is left of such a log, what was offered on the way, and what each compaction came to."""
    place = Place(settings=LogSettings(segment_bytes=600, index_interval_bytes=100))
    log = place.open()
    offered: list[object] = []
    results = []
    for at, (kind, pairs) in enumerate([*writes, ("compact", [])]):
        match kind:
            case "batch":
                put(log, pairs)
            case "packed":
                put(log, pairs, codec=1)
            case "producer":
                put(log, pairs, producer=(7, at * 10))
            case "run" | "torn":
                put_run(log, pairs, 2, whole=kind == "run")
            case "compact":
                sync(log)
                dropped = Collecting()
                now = NOW + at * RETENTION // 4
                results.append(
                    drive(compact(log, order(log, now=now, table_bytes=table_bytes, dropped=dropped)))
                )
                offered += dropped.offered
    return contents(log), offered, results


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    writes=st.lists(WRITES, min_size=5, max_size=40),
    most_records=st.sampled_from([1, 10, 1000]),
    remembered=st.sampled_from([0, 3, 100]),
    table_bytes=st.sampled_from([0, 1 << 20]),
)
def test_groups_of_batches_give_the_same_results(
    writes: list[tuple[str, list[Pair]]], most_records: int, remembered: int, table_bytes: int
) -> None:
    """The log, the offered records and the counts are the same byte for byte, however groups are divided."""
    with (
        patch.object(batch_group, "MOST_RECORDS", most_records),
        patch.object(key_table, "_MOST_REMEMBERED", remembered),
    ):
        together = compacted_log(writes, table_bytes)
    with patch.object(BatchGroup, "takes", staticmethod(lambda header: False)):
        one_by_one = compacted_log(writes, table_bytes)
    assert together == one_by_one


@given(
    st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b"dd", b"e" * 99]), max_size=9), max_size=9),
    st.sampled_from([0, 2, 100]),
)
def test_put_each_equals_single_puts(rows: list[list[bytes]], remembered: int) -> None:
    """Also with repeated keys, and with more keys than are cached."""
    with patch.object(key_table, "_MOST_REMEMBERED", remembered):
        together, one_by_one = KeyTable(1000, 1 << 16), KeyTable(1000, 1 << 16)
        offset = 0
        for keys in rows:
            together.put_each(keys, np.arange(offset, offset + len(keys)))
            for key in keys:
                one_by_one.put(key_hash(key), offset)
                offset += 1
        asked = [b"a", b"never", b"b", b"c", b"dd", b"e" * 99, b"a"]
        expected = [one_by_one.get(key_hash(key)) for key in asked]
        assert together.get_each(asked).tolist() == expected
        assert [together.get(key_hash(key)) for key in asked] == expected
        assert together.count == one_by_one.count
