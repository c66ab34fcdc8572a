"""The constants of the demo, and its failure."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path("build/demo")
TOPIC = "flights"
PARTITION_COUNT = 6
GROUP = "departures"
BOARDING = "boarding"
"""The group with server-side assignment."""

REPORT = DIRECTORY / "report.html"

LAKE = "lake"
"""The group that is a Spark stream."""

FLIGHTS_PER_BATCH = 40_000

JOINED = "named-flights"
"""The topic of the flights with the names of their airlines."""
JOINER = "joiner"
"""The group, the transactional id and the only member of the worker that writes them."""

LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")
"""The members of the group, each with another client library."""

FLIGHTS_PRODUCED_PER_S = 26_000
FLIGHTS_READ_PER_S = 6_000
"""Rate of each member, limited so that there is a visible lag; the clients can do far more."""

COMMIT_INTERVAL_S = 0.1
DOWN_TIME_S = 2.0
CONSUME_TIMEOUT_S = 100.0


class DemoFailed(Exception):
    """A check of the demo failed, or something that it needs did not happen; the message says what."""
