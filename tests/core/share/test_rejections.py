"""The last rejections of a share-partition, beside a model that has one for each offset."""

from __future__ import annotations

from random import Random

import pytest

from headgate.core.share.partition.rejections import MOST, Cause, Rejection, Rejections
from headgate.domain.ids import MemberId, Millis


def _rejection(first: int, last: int, at: int) -> Rejection:
    return Rejection(first, last, Cause.REJECTED, MemberId("m"), Millis(at), 1)


@pytest.mark.parametrize("seed", range(20))
def test_rejections_are_those_of_a_model(seed: int) -> None:
    """Of each offset the last rejection is known, until it is forgotten."""
    random = Random(seed)
    rejections, known = Rejections(), dict[int, int]()
    for at in range(300):
        first = random.randrange(100)
        last = first + random.randrange(12)
        if random.random() < 0.3:
            rejections.forget(first, last)
            for offset in range(first, last + 1):
                known.pop(offset, None)
        else:
            rejections.note(_rejection(first, last, at // 3))
            known.update(dict.fromkeys(range(first, last + 1), at // 3))
        first = random.randrange(110)
        last = first + random.randrange(-1, 20)
        found = {
            offset: int(one.at)
            for one in rejections.between(first, last)
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert found == {offset: at for offset, at in known.items() if first <= offset <= last}


def test_the_lowest_offsets_are_forgotten_first() -> None:
    """A bounded number of ranges is kept."""
    rejections = Rejections()
    for offset in range(0, 4 * MOST, 2):
        rejections.note(_rejection(offset, offset, 0))
    assert len(rejections) == MOST
    assert next(rejections.between(0, 10**9)).first_offset == 2 * MOST
