"""The numbers of the story, and what goes wrong in it."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path("build/demo")
TOPIC = "flights"
PARTITION_COUNT = 6
GROUP = "departures"
BOARDING = "boarding"
"""The group that the server balances."""

LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")
"""The members of the group, each written with another client library."""

FLIGHTS_PRODUCED_PER_S = 26_000
FLIGHTS_READ_PER_S = 6_000
"""By each member. Both are held back, so that there is a queue to look at; the clients could do far more."""

COMMIT_INTERVAL_S = 0.1
DOWN_TIME_S = 2.0
CONSUME_TIMEOUT_S = 100.0


class DemoFailed(Exception):
    """A check of the demo failed, or something it needs did not come about; the message says what."""
