"""`python -m tests.differential`: an Apache Kafka with the settings of these tests, until it is told to end.

Says what to put before pytest for it to be used: while scenarios are written that saves many starts.
"""

from __future__ import annotations

from bench.kafka.broker import kafka_node
from bench.kafka.run import run_on
from tests.differential.conftest import KAFKA_ALONE, KAFKA_VARIABLE, SETTINGS

if __name__ == "__main__":
    run_on(kafka_node(settings=SETTINGS | KAFKA_ALONE), lambda node: f"{KAFKA_VARIABLE}={node.bootstrap}")
