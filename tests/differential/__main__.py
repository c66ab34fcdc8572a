"""`python -m tests.differential`: an Apache Kafka with the settings of these tests, until it is told to end.

Says what to put before pytest for it to be used: while scenarios are written that saves many starts.
"""

from __future__ import annotations

import signal
import sys
import threading

from bench.kafka.broker import KafkaUnavailable, kafka_node
from tests.differential.conftest import KAFKA_ALONE, KAFKA_VARIABLE, SETTINGS


def main() -> None:
    """Runs the node; SIGINT and SIGTERM end it."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with kafka_node(settings=SETTINGS | KAFKA_ALONE) as node:
            print(f"{KAFKA_VARIABLE}={node.bootstrap}", flush=True)
            ended.wait()
    except KafkaUnavailable as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
