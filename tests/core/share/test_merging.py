"""The merge rule of state batches (F18), against a model with one entry for each offset."""

from __future__ import annotations

from itertools import groupby
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.share.state.batch_blocks import LARGEST_BLOCK, MOST_LISTED, BatchBlocks
from headgate.records.share_batches import FEW, NO_BATCHES, StateBatch, StateBatches

batch = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, 60),
    st.integers(0, 12),
    st.sampled_from([0, 2, 4]),
    st.integers(0, 3),
)
writes = st.lists(st.tuples(st.integers(-1, 40), st.lists(batch, max_size=6)), max_size=6)


class Model:
    """Count and state of each offset."""

    def __init__(self) -> None:
        self.by_offset: dict[int, tuple[int, int]] = {}
        self.start = -1

    def write(self, start: int, batches: list[StateBatch]) -> None:
        self.start = max(self.start, start)
        for one in batches:
            for offset in range(one.first_offset, one.last_offset + 1):
                found = (one.delivery_count, one.delivery_state)
                self.by_offset[offset] = max(found, self.by_offset.get(offset, found))
        self.by_offset = {at: found for at, found in self.by_offset.items() if at >= self.start}

    def batches(self) -> list[StateBatch]:
        runs = groupby(
            enumerate(sorted(self.by_offset.items())), lambda each: (each[1][0] - each[0], each[1][1])
        )
        found = []
        for (_, (count, state)), run in runs:
            offsets = [offset for _, (offset, _) in run]
            found.append(StateBatch(offsets[0], offsets[-1], state, count))
        return found


@given(writes)
@settings(max_examples=60)
def test_batches_are_merged_offset_by_offset(written: list[tuple[int, list[StateBatch]]]) -> None:
    """The higher count wins, then the higher state; the list is sorted, without overlaps, and joined."""
    model, blocks = Model(), BatchBlocks()
    for start, batches in written:
        model.write(start, batches)
        blocks.drop_below(model.start)
        blocks.merge(StateBatches.of(batches), model.start)
        assert list(blocks.batches()) == model.batches()
        assert len(blocks) == len(model.batches())


def test_a_merge_changes_a_few_of_many_blocks() -> None:
    """Of ten thousand holes, two far apart are filled; what was read before stays as it was."""
    holes = np.arange(10_000) * 2
    rows = np.stack((holes, holes, np.full_like(holes, 2), np.ones_like(holes)), axis=1)
    blocks, model = BatchBlocks(), Model()
    blocks.merge(StateBatches(rows), -1)
    before = blocks.batches()
    model.write(-1, list(before))
    change = [StateBatch(19_001, 19_001, 2, 1), StateBatch(5, 5, 2, 1), StateBatch(100, 4100, 4, 9)]
    model.write(-1, change)
    blocks.merge(StateBatches.of(change), -1)
    after = blocks.batches()
    assert list(after) == model.batches()
    assert np.array_equal(before.rows, rows)
    assert max(map(len, after.parts)) <= LARGEST_BLOCK
    assert sum(any(part is old for old in before.parts) for part in after.parts) >= len(after.parts) - 4


def test_all_batches_below_the_start_offset_are_dropped() -> None:
    """A batch across the start offset is cut."""
    blocks = BatchBlocks()
    blocks.merge(StateBatches.of([StateBatch(0, 9, 0, 1), StateBatch(20, 29, 2, 1)]), -1)
    blocks.drop_below(5)
    assert list(blocks.batches()) == [StateBatch(5, 9, 0, 1), StateBatch(20, 29, 2, 1)]
    blocks.drop_below(30)
    assert (blocks.batches(), len(blocks)) == (NO_BATCHES, 0)


def _holes(first: int, last: int) -> list[StateBatch]:
    """Every second offset, acknowledged."""
    return [StateBatch(offset, offset, 2, 1) for offset in range(first, last, 2)]


def test_a_list_that_grows_becomes_blocks_and_a_small_rest_a_list() -> None:
    """The form depends on the number of batches, and what is in it does not depend on the form."""
    blocks, model = BatchBlocks(), Model()
    is_list = []
    for step in range(MOST_LISTED // 10 + 1):
        model.write(-1, _holes(20 * step, 20 * step + 20))
        blocks.merge(StateBatches.of(_holes(20 * step, 20 * step + 20)), -1)
        assert list(blocks.batches()) == model.batches()
        is_list.append(blocks.batches().few is not None)
    assert (is_list[0], is_list[-1]) == (True, False)
    model.write(2 * (len(blocks) - FEW), [])
    blocks.drop_below(model.start)
    assert list(blocks.batches()) == model.batches()
    assert (blocks.batches().few is not None, len(blocks)) == (True, FEW)


def test_batches_that_were_read_stay_as_they_were() -> None:
    """A merge into a few batches does not change what was returned before."""
    blocks = BatchBlocks()
    blocks.merge(StateBatches.of(_holes(0, 10)), -1)
    before, copy = blocks.batches(), blocks.copy()
    blocks.merge(StateBatches.of([StateBatch(0, 9, 4, 2)]), -1)
    blocks.drop_below(4)
    assert list(before) == list(copy.batches()) == _holes(0, 10)
    assert list(blocks.batches()) == [StateBatch(4, 9, 4, 2)]


def test_random_writes_agree_with_the_model_in_either_form() -> None:
    """Small and large writes anywhere, and a start that moves on, from a list to blocks and back."""
    random, blocks, model = Random(7), BatchBlocks(), Model()
    forms = set()
    for step in range(400):
        size = random.choice([1, 1, 2, 5, 40])
        batches = []
        for _ in range(size):
            first = model.start + random.randrange(600)
            last = first + random.choice([0, 0, 1, 9])
            batches.append(
                StateBatch(max(0, first), max(0, last), random.choice([0, 2, 4]), random.randrange(3))
            )
        model.write(model.start + (300 if step % 90 == 89 else random.choice([0, 0, 2])), batches)
        blocks.drop_below(model.start)
        blocks.merge(StateBatches.of(batches), model.start)
        assert list(blocks.batches()) == model.batches()
        forms.add(blocks.batches().few is None)
    assert forms == {True, False}


@given(writes, writes, st.integers(-1, 70), st.lists(st.integers(1, 5), min_size=1, max_size=30))
@settings(max_examples=100)
def test_a_combined_list_is_taken_over_like_one_that_is_merged(
    earlier: list[tuple[int, list[StateBatch]]],
    later: list[tuple[int, list[StateBatch]]],
    distance: int,
    sizes: list[int],
) -> None:
    """After others, between them and touching them; in arrays of any size."""
    lists = []
    for written in (earlier, later):
        model = Model()
        for start, batches in written:
            model.write(start, batches)
        lists.append(np.array(model.batches(), np.int64).reshape(-1, 4))
    lists[1][:, :2] += distance
    ends = np.cumsum(sizes)
    parts = [part for part in np.split(lists[1], ends[ends < len(lists[1])]) if len(part)]
    taken, merged = BatchBlocks(), BatchBlocks()
    for blocks, new in ((taken, StateBatches.combined), (merged, StateBatches)):
        blocks.merge(StateBatches(lists[0]), -1)
        blocks.merge(new(*parts), 20)
        blocks.merge(StateBatches.of([StateBatch(0, 5, 4, 9)]), -1)
    assert list(taken.batches()) == list(merged.batches())
    assert len(taken) == len(merged)
