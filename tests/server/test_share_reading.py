"""The batches of a read, and what is sent of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.topics.disk import batch

from headgate.core.share.partition.model import AcquiredRecords
from headgate.log.header import place_batch, read_bounds, read_header
from headgate.log.transaction_index import NO_TRANSACTIONS, ListedTransactions
from headgate.server.shares.reading import read_batches

Sizes = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def _read(sizes: list[int], holes: list[int]) -> tuple[bytes, list[tuple[int, int]], list[bytes]]:
    """Return a read with batches of these sizes and holes before them, their offsets, and each of them."""
    parts, offsets, next_offset = [], [], 100
    for size, hole in zip(sizes, holes, strict=False):
        next_offset += hole
        part = bytearray(batch(*[b"v"] * size))
        place_batch(part, 0, next_offset, 0)
        parts.append(bytes(part))
        offsets.append((next_offset, next_offset + size - 1))
        next_offset += size
    return b"".join(parts), offsets, parts


@given(Sizes, st.lists(st.integers(0, 2), min_size=8, max_size=8), st.data())
def test_what_is_sent_has_all_acquired_records_and_no_batch_more(
    sizes: list[int], holes: list[int], data: st.DataObject
) -> None:
    records, offsets, parts = _read(sizes, holes)
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, len(parts) - 1))
    begin = data.draw(st.integers(*offsets[first]))
    end = data.draw(st.integers(max(begin, offsets[last][0]), offsets[last][1]))
    read = read_batches(100, records, NO_TRANSACTIONS, offsets[-1][1])
    assert list(read.fetched.batches) == offsets
    acquired = [AcquiredRecords(begin, begin, 1), AcquiredRecords(end, end, 2)]
    assert read.cut(records, acquired) == b"".join(parts[first : last + 1])


def test_what_follows_enough_is_not_looked_at() -> None:
    """The batch with the offset `enough` is the last one; there is one at least."""
    records, offsets, parts = _read([2, 2, 2], [0, 0, 0])
    assert list(read_batches(100, records, NO_TRANSACTIONS, 102).fetched.batches) == offsets[:2]
    read = read_batches(100, records, NO_TRANSACTIONS, 5)
    assert list(read.fetched.batches) == offsets[:1]
    assert read.cut(records, [AcquiredRecords(101, 101, 1)]) == parts[0]


def listed(*aborted: tuple[int, int]) -> ListedTransactions:
    """Return aborted transactions, each with producer id and first offset."""
    ids, firsts = np.array(aborted, np.int64).reshape(-1, 2).T
    return ListedTransactions(ids, firsts)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=12), st.integers(0, 9))
def test_of_many_aborted_transactions_those_of_the_producers_count(
    aborted: list[tuple[int, int]], last: int
) -> None:
    """As far as they begin up to the last offset, by first offset."""
    expected = sorted((first, id_) for id_, first in aborted if id_ in (1, 3) and first <= last)
    found = listed(*aborted).among({1, 3, 7}, last)
    assert sorted((first, id_) for id_, first in found) == expected
    assert [first for _, first in found] == [first for first, _ in expected]


def test_aborted_and_control_batches_are_undeliverable() -> None:
    """Of two producers, the records of an aborted transaction and all markers."""
    data = [
        (batch(b"a", producer=(1, 0, 0)), 0x10),
        (batch(b"b", producer=(2, 0, 0)), 0x10),
        (batch(b"c"), 0),
        (batch(b"abort", producer=(1, 0, 0)), 0x30),
        (batch(b"d", producer=(1, 0, 1)), 0x10),
    ]
    parts = []
    for offset, (one, attributes) in enumerate(data):
        part = bytearray(one)
        place_batch(part, 0, offset, 0)
        part[22] |= attributes
        parts.append(bytes(part))
    read = read_batches(0, b"".join(parts), listed((1, 0)), 10)
    assert list(read.fetched.undeliverable) == [(0, 0), (3, 3)]


def test_bounds_are_those_of_the_header() -> None:
    part = bytearray(b"xx" + batch(b"a", b"b", producer=(7, 1, 5)))
    place_batch(part, 2, 1 << 40, 3)
    header, bounds = read_header(part, 2), read_bounds(part, 2)
    assert bounds == (
        header.base_offset,
        header.last_offset,
        header.size,
        header.attributes,
        header.producer_id,
    )
