"""The directories of brokers for their logs, and the space on their disks (KIP-827)."""

from __future__ import annotations

from typing import NamedTuple

from headgate.client.cluster import Address, Cluster
from headgate.client.errors import check
from headgate.wire.messages.describe_log_dirs import DescribeLogDirsRequest


class LogDir(NamedTuple):
    """A directory; the sizes are None if the broker does not tell them (Kafka before 3.3)."""

    path: str
    error: int
    """KAFKA_STORAGE_ERROR for one that does not work."""
    total_bytes: int | None
    usable_bytes: int | None


def log_dirs(cluster: Cluster, address: Address) -> list[LogDir]:
    """Return the directories of the broker at this address. Raises ClientError."""
    # No topics at all: their sizes are not needed.
    response = cluster.node_at(address).request(DescribeLogDirsRequest(topics=[]))
    check("the directories of logs", response.error_code)
    return [
        LogDir(one.log_dir, one.error_code, _known(one.total_bytes), _known(one.usable_bytes))
        for one in response.results
    ]


def _known(size: int) -> int | None:
    return None if size < 0 else size
