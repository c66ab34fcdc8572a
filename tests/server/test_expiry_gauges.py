"""The metrics of expiry: groups that expire soon, and what expired; and the log lines."""

from __future__ import annotations

from tests.core.harness import Harness

from headgate.core.events import ExpiryReason
from headgate.server.expiry_gauges import expiry_gauges

MINUTE = 60_000
HOUR = 60 * MINUTE


def samples(*shards: Harness) -> dict[str, dict[str, float]]:
    """The values by metric and label."""
    found = {}
    for family in expiry_gauges([one.shard for one in shards], shards[0].now):
        if family is not None:
            found[family.name] = {
                "".join(sample.labels.values()): sample.value
                for sample in family.samples
                if not sample.name.endswith("_created")
            }
    return found


def test_groups_that_expire_soon_are_counted_over_all_shards() -> None:
    """An hour includes what is due already; a week includes the day."""
    hour, days = Harness(offsets_retention_minutes="60"), Harness(offsets_retention_minutes=str(3 * 24 * 60))
    hour.commit("a")
    hour.commit("b")
    hour.configure_retention("b", -1)
    days.commit("c")
    assert samples(hour, days)["headgate_groups_expiring"] == {"1h": 1, "24h": 1, "7d": 2}


def test_expired_offsets_are_counted_by_reason() -> None:
    """A reason without any has a zero, so that its first one is an increase."""
    h = Harness(offsets_retention_minutes="1")
    h.commit("a", partition=0)
    h.commit("a", partition=1)
    h.advance(HOUR)
    found = samples(h)
    assert found["headgate_offsets_expired"] == {
        **dict.fromkeys(map(str, ExpiryReason), 0),
        "old-commit": 2,
    }
    assert found["headgate_groups_expired"] == {"": 1}
