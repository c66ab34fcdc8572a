"""The forecast of an audit is what the coordinator will do: compared with the oracle of its expiry."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from tests.core.migration import support
from tests.core.offsets.test_expiry_months import DAY, Life

from headgate.domain.ids import Millis
from headgate.fleet.facts import GroupFacts, facts_of

FAR = 1 << 61
"""Further away than any retention, in ms."""


class ForetoldLife(Life):
    """Months of groups, whose expiries are foretold after each event."""

    foretold = 0

    def steps(self, rounds: int) -> None:
        super().steps(rounds)
        h = self.h
        for facts in facts_of(h.shard, None, {}):
            self.check(facts)

    def check(self, facts: GroupFacts) -> None:
        """Compare the first and the last expiry of a group with the oracle."""
        oracle, now = self.h.oracle, self.h.now
        places = [place for place in oracle.offsets if place[0] == facts.group_id]
        assert facts.offset_count == len(places)

        def expired(at: int) -> int:
            return sum(oracle.is_expired(place, Millis(at)) for place in places)

        first, last = facts.first_expiry_at, facts.last_expiry_at
        if first is None:
            assert not expired(now + FAR)
            return
        self.foretold += 1
        assert expired(first) and not expired(first - 1)
        if last is None:
            assert expired(now + FAR) < len(places)
        else:
            assert expired(last) == len(places) and expired(last - 1) < len(places)


@pytest.mark.parametrize("seed", range(100, 103))
def test_the_forecast_is_what_the_oracle_of_expiry_says(seed: int) -> None:
    with patch.object(support, "SESSION_TIMEOUT_MS", 20 * DAY):
        life = ForetoldLife(seed)
        life.run()
    assert life.foretold > 20
