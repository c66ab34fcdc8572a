"""Read a topic from a cluster, over the Kafka protocol: from Headgate nodes or from Apache Kafka.

What a read covers is fixed when it is planned, by the end offsets then. A partition is cut into runs of
offsets, so that even a single one keeps all tasks busy; each run is fetched from its partition's leader.
Transactions are not waited for: records of open and of aborted ones are read like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.client.cluster import EARLIEST, LATEST, Cluster
from headgate.client.errors import RequestRefused
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName, TopicPartition
from headgate.spark.options import Options
from headgate.spark.plan import Task, share_out
from headgate.spark.scan import PADDING, Chunk, Corruption, Scan, scan_chunk
from headgate.spark.segments import MissingData

FETCH_BYTES = 4 << 20
"""Asked for at a time; a leader gives at least one whole batch, however large."""

WAIT_MS = 1000
"""How long a leader may look for records that, by its own end offset, are there."""

CLIENT_ID = "headgate-spark"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A run of offsets of one partition, and where to fetch it."""

    bootstrap_servers: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def weight(self) -> int:
        return self.end_offset - self.start_offset

    def scans(self) -> Iterator[Scan]:
        """Fetch it, answer by answer."""
        offset = self.start_offset
        with Cluster(self.bootstrap_servers, client_id=CLIENT_ID) as cluster:
            while offset < self.end_offset:
                fetched = cluster.fetch(
                    TopicName(self.topic), self.partition, offset, max_bytes=FETCH_BYTES, max_wait_ms=WAIT_MS
                )
                scan = scan_chunk(self._chunk(fetched.records, offset))
                if scan.broken:
                    yield scan.with_corruptions([self._broken(scan)])
                    return
                if scan.next_offset <= offset:
                    raise MissingData(
                        f"{self.topic}-{self.partition} gives nothing from offset {offset} on, although it "
                        f"ended at {self.end_offset} when the read was planned"
                    )
                yield scan
                offset = scan.next_offset

    def _chunk(self, records: bytes, offset: int) -> Chunk:
        data = bytearray(len(records) + PADDING)
        data[: len(records)] = records
        place = f"{self.topic}-{self.partition} at {self.bootstrap_servers}, fetched from offset {offset}"
        return Chunk(self.topic, self.partition, data, len(records), place, 0, offset, self.end_offset)

    def _broken(self, scan: Scan) -> Corruption:
        """Without the length of this batch there is no next one: the rest of the run cannot be read."""
        rest = scan.chunk.size - scan.end
        return Corruption(scan.chunk.place, scan.end, rest, scan.next_offset, scan.broken)


def plan(options: Options) -> list[Task]:
    """Ask the cluster where the partitions begin and end, and share the offsets out."""
    assert options.bootstrap_servers is not None
    with Cluster(options.bootstrap_servers, client_id=CLIENT_ID) as cluster:
        partitions = _partitions(cluster, options)
        earliest = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
        latest = cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    bounds = {
        where: _wanted(options, where, earliest[where], latest[where])
        for where in partitions
        if earliest[where] < latest[where]
    }
    total = sum(end - start for start, end in bounds.values())
    longest = max(1, -(-total // options.min_partitions))
    ranges = [
        OffsetRange(options.bootstrap_servers, where.topic, where.partition, start, min(start + longest, end))
        for where, (first, end) in bounds.items()
        for start in range(first, end, longest)
    ]
    return share_out(ranges, options.min_partitions)


def _partitions(cluster: Cluster, options: Options) -> list[TopicPartition]:
    topic = TopicName(options.topic)
    try:
        return [TopicPartition(topic, partition) for partition in cluster.partitions_of(topic)]
    except RequestRefused as refusal:
        if refusal.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        names = sorted(found.name for found in cluster.metadata().topics if found.name)
        there = f"topics there: {', '.join(names)}" if names else "there are no topics"
        raise MissingData(f"no topic {options.topic!r} at {options.bootstrap_servers} ({there})") from refusal


def _wanted(options: Options, where: TopicPartition, earliest: int, latest: int) -> tuple[int, int]:
    """The first offset to read and the first not to read, of those that are there."""
    start = (options.starting_offsets or {}).get(where.partition, EARLIEST)
    end = (options.ending_offsets or {}).get(where.partition, LATEST)
    start = earliest if start == EARLIEST else start
    end = latest if end == LATEST else end
    if options.fail_on_data_loss and (start < earliest or end > latest):
        raise MissingData(
            f"{where} holds offsets {earliest} to {latest}, asked for were {start} to {end}; "
            "set failOnDataLoss to false to read what there is"
        )
    return max(start, earliest), min(end, latest)
