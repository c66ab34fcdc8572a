"""State batches as rows of an array."""

from __future__ import annotations

import pytest

from headgate.records.share_batches import NO_BATCHES, DeliveryState, StateBatch, StateBatches


def test_batches_are_kept_as_kafka_stores_them() -> None:
    """Two offsets, the state, the count and no tagged fields: 20 bytes, read back as they were."""
    batches = [StateBatch(2**62, 2**62 + 9, DeliveryState.ACKNOWLEDGED, 32767), StateBatch(-1, 3, 0, 1)]
    stored = StateBatches.of(batches)
    assert list(stored) == batches
    assert stored.rows.tobytes()[:20] == (2**62).to_bytes(8) + (2**62 + 9).to_bytes(8) + b"\x02\x7f\xff\x00"
    assert len(stored) == 2
    assert stored == StateBatches.of(batches) != NO_BATCHES


@pytest.mark.parametrize(
    "batch", [StateBatch(2**63, 0, 0, 0), StateBatch(0, 0, 128, 0), StateBatch(0, 0, 0, 2**15)]
)
def test_a_number_that_does_not_fit_its_field_is_refused(batch: StateBatch) -> None:
    """No number is cut off."""
    with pytest.raises(OverflowError):
        StateBatches.of([batch])
