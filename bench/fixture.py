"""What a broker for a test costs: the time to its first answer, and memory. `python -m bench.fixture`.

Starts alternate between Headgate and Apache Kafka, in new directories. The first answer is that to a client's
request for metadata. Testcontainers runs Kafka in a container, which needs Docker; the JVM alone is a lower
bound of that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

import headgate
from bench.kafka.broker import kafka_missing, kafka_node

ROUNDS = 5
Node = Callable[[], AbstractContextManager[tuple[str, int]]]
"""Starts a broker; its address and process id."""


@contextmanager
def ours() -> Iterator[tuple[str, int]]:
    """A broker of a fixture."""
    with headgate.run() as broker:
        assert broker.pid is not None
        yield broker.bootstrap_servers, broker.pid


@contextmanager
def theirs() -> Iterator[tuple[str, int]]:
    """Apache Kafka: its directory is formatted, as a container does, and its groups answer."""
    with kafka_node() as node:
        yield node.bootstrap, node.process_id


def measured(node: Node) -> tuple[float, float]:
    """Return seconds until the first answer, and the resident memory then, in MB."""
    began = time.perf_counter()
    with node() as (servers, process_id):
        AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=30)
        seconds = time.perf_counter() - began
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
        return seconds, pages * 4096 / 1e6


def main() -> None:
    """Print the medians."""
    nodes = {"Headgate": ours} | ({} if kafka_missing() else {"Apache Kafka": theirs})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in nodes}
    for _ in range(ROUNDS):
        for name, node in nodes.items():
            found[name].append(measured(node))
    for name, rows in found.items():
        seconds, megabytes = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name:12}  {seconds:.2f} s to the first answer, {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
