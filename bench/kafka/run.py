"""`python -m bench.kafka.run`: run an Apache Kafka node and print its address."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from bench.kafka.broker import KafkaUnavailable, kafka_broker

T = TypeVar("T")


def run_on(node: AbstractContextManager[T], greeting: Callable[[T], str]) -> None:
    """Print the greeting and run the node until SIGINT or SIGTERM; exit with a message if it cannot start."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with node as running:
            print(greeting(running), flush=True)
            ended.wait()
    except KafkaUnavailable as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    run_on(kafka_broker(), lambda bootstrap: f"kafka is listening on {bootstrap}")
