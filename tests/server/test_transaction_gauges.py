"""Gauges of open transactions: their number, and the age of the oldest one of a partition."""

from __future__ import annotations

import pytest
from tests.topics.disk import NOW, Disk, create
from tests.topics.transactions import Writer

from headgate.domain.ids import Millis
from headgate.server import transaction_gauges as gauges_module
from headgate.server.transaction_gauges import transaction_gauges
from headgate.topics.topics import Topics


def told(topics: Topics, after_ms: int) -> tuple[float, dict[tuple[str, str], float]]:
    """Return the number of open transactions, and the ages of the oldest ones in seconds."""
    count, ages = [one for one in transaction_gauges(topics.in_transaction, Millis(NOW + after_ms)) if one]
    return count.samples[0].value, {
        (sample.labels["topic"], sample.labels["partition"]): sample.value for sample in ages.samples
    }


def test_open_transactions_are_told_until_they_end(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a start finds; and those of a deleted topic no longer."""
    monkeypatch.setattr(gauges_module, "MOST_PARTITIONS", 1)
    topics = disk.start()
    writers = [Writer(create(topics, disk, name), 7) for name in ("a", "b")]
    assert told(topics, 0) == (0, {})
    for writer in writers:
        writer.write(b"v")
    assert told(topics, 5000) == (2, {("a", "0"): 5.0})
    writers[0].end(is_committed=False)
    assert told(topics, 5000) == (1, {("b", "0"): 5.0})
    disk.files.crash()
    topics = disk.start()
    found = topics.by_name("b")
    assert found is not None and found.partition(0).last_stable_offset == 0
    assert told(topics, 7000) == (1, {("b", "0"): 7.0})
    found.give_up_partitions()
    assert told(topics, 7000) == (0, {})


@pytest.fixture
def disk() -> Disk:
    return Disk()
