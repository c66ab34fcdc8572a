"""The flights are all there, and each can be told from every other."""

from __future__ import annotations

import json

from demo.flights import FLIGHT_COUNT, flight_id, load


def test_every_departure_is_a_json_object_that_begins_with_its_id() -> None:
    """336,776 of them, keyed by tail number where there is one."""
    flights = load()
    assert len(flights) == FLIGHT_COUNT
    for number in (0, 1, 100_000, FLIGHT_COUNT - 1):
        key, value = flights[number]
        parsed = json.loads(value)
        assert flight_id(value) == parsed["id"] == number
        assert parsed["year"] == 2013
        assert (key and key.decode()) == parsed["tailnum"]
    assert sum(key is None for key, _ in flights) == 2_512
