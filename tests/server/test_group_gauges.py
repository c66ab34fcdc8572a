"""For how long groups rebalance, as the metrics have it."""

from __future__ import annotations

from tests.core.harness import Harness, join, sync

from headgate.domain.ids import GroupId, Millis
from headgate.server.group_gauges import GroupGauges


def rebalancing(gauges: GroupGauges, h: Harness, now: int) -> dict[str, float]:
    """The seconds of each group at a scrape."""
    found = {one.name: one for one in gauges.gauges([h.shard], Millis(now)) if one is not None}
    samples = found["headgate_group_rebalancing_seconds"].samples
    return {sample.labels["group"]: sample.value for sample in samples}


def test_a_group_rebalances_from_the_first_scrape_that_saw_it_on() -> None:
    """Until a scrape finds it settled; the next rebalance counts from 0 again."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    gauges = GroupGauges()
    assert rebalancing(gauges, h, 0) == {}
    token = h.send(join(group_id=GroupId("g"), new_member_id="a", must_know_member_id=False))
    assert rebalancing(gauges, h, 1000) == {"g": 0}
    assert rebalancing(gauges, h, 31_000) == {"g": 30}
    while h.is_parked(token):
        h.advance(1000)
    h.send(sync("a", h.answers[token].generation, assignments=(("a", b""),)))
    assert rebalancing(gauges, h, 60_000) == {}
    h.send(join(member_id="a", new_member_id="a", must_know_member_id=False, protocols=(("range", b"x"),)))
    assert rebalancing(gauges, h, 90_000) == {"g": 0}
