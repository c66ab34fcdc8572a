"""`python -m bench.kafka.run`: an Apache Kafka node that says where it listens and runs on."""

from __future__ import annotations

import signal
import sys
import threading

from bench.kafka.broker import KafkaUnavailable, kafka_broker


def main() -> None:
    """Runs the node; SIGINT and SIGTERM end it."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with kafka_broker() as bootstrap:
            print(f"kafka is listening on {bootstrap}", flush=True)
            ended.wait()
    except KafkaUnavailable as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
