"""What the demo's charts say about the coordinator's log."""

from __future__ import annotations

import pandas as pd
from demo.analysis import owners_at


def test_the_chart_names_the_owners_during_the_crash() -> None:
    """Members leave one after the other at the end: the last one may get all partitions."""
    assigned = pd.DataFrame(
        [("10:00", "first", 0), ("10:01", "first", 0), ("10:01", "second", 1), ("10:09", "second", 0)],
        columns=["at", "client_id", "partition"],
    )
    assigned["at"] = pd.to_datetime("2026-11-24 " + assigned["at"])
    assert owners_at(pd.Timestamp("2026-11-24 10:05"), assigned) == {0: "first", 1: "second"}
