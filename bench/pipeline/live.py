"""A real server with a topic, which counts the connections that it gets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from bench.kafka.broker import free_ports
from bench.peers import child, create_topic
from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.client.producing import LAST_BY_NAME
from headgate.domain.ids import TopicName
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

START_MS = 1_795_000_000_000
LARGEST_REQUEST_BYTES = 4 << 20
MOST_PARTITIONS_A_REQUEST = 500
_OPENED = re.compile(r"^headgate_connections_opened_total (\d+)", re.MULTILINE)
_SETTINGS = {"headgate.durability": "page-cache", "group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    bootstrap_servers: str
    metrics_port: int

    def connections_opened(self) -> int:
        """Return the number of connections that clients opened so far."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            found = _OPENED.search(answer.read().decode())
        assert found is not None
        return int(found[1])


@contextmanager
def serving(directory: Path) -> Iterator[Server]:
    """Run `headgate serve` until the block ends."""
    (metrics_port,) = free_ports(1)
    command = [
        sys.executable, "-P", "-m", "headgate", "serve",
        "--data-dir", str(directory),
        "--listen", "127.0.0.1:0",
        "--metrics-listen", f"127.0.0.1:{metrics_port}",
        "--log-level", "warning",
        "--with-parent",
    ]  # fmt: skip
    for name, value in _SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    with child(command, "headgate is listening on ") as (address, _):
        yield Server(address, metrics_port)


def make_topic(server: Server, topic: str, partitions: int, records: int, value_bytes: int = 100) -> int:
    """Create a topic with about so many records, the same number in each partition; return how many.

    A batch has up to 500 records.
    """
    create_topic(server.bootstrap_servers, topic, partitions)
    of_each = -(-records // partitions)
    batches = [min(500, of_each - at) for at in range(0, of_each, 500)]
    with Cluster(server.bootstrap_servers, timeout_s=60) as cluster:
        for size in batches:
            batch = bytes(
                encode_batch([Record(b"%08d" % at, bytes(value_bytes), START_MS) for at in range(size)])
            )
            most = max(1, min(LARGEST_REQUEST_BYTES // len(batch), MOST_PARTITIONS_A_REQUEST))
            for first in range(0, partitions, most):
                _produce(cluster, topic, range(first, min(first + most, partitions)), batch)
    return of_each * partitions


def _produce(cluster: Cluster, topic: str, partitions: range, batch: bytes) -> None:
    data = [PartitionProduceData(index=partition, records=batch) for partition in partitions]
    request = ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=TopicName(topic), partition_data=data)]
    )
    for answered in cluster.any_node().request(request, at_most=LAST_BY_NAME).responses:
        for one in answered.partition_responses:
            check(f"{topic}-{one.index}", one.error_code)
