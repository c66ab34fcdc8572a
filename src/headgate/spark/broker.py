"""Read a topic from a cluster, over the Kafka protocol."""

from __future__ import annotations

from headgate.spark.options import Options
from headgate.spark.plan import Task


def plan(options: Options) -> list[Task]:
    """Ask the cluster where the partitions begin and end, and share the offsets out."""
    raise NotImplementedError
