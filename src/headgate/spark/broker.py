"""Read topics from a cluster over the Kafka protocol: from Headgate nodes or from Apache Kafka.

The plan of a read divides each partition into ranges of offsets, by the end offsets at that time, so that
also a single partition uses all tasks; each range is fetched from its partition's leader. Unless an end was
asked for, the last range of a partition goes on to the end of the log at the time of its task: Spark plans a
DataFrame once, and in a compacted log the records of an old plan are replaced by those behind it. A task has
one client, which starts with the leaders that the plan knew. A read does not wait for transactions. With
`read_committed` it ends before the first open one of each partition and leaves out aborted ones, else records
of both are read like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from headgate.client.cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Address,
    Cluster,
    Fetched,
)
from headgate.client.errors import RequestRefused, check
from headgate.client.security import NOT_SECURED, Security
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName, TopicPartition
from headgate.log.batch_scan import PADDING, Chunk, Corruption, Scan, scan_chunk
from headgate.log.header import read_header
from headgate.spark.committed import committed_only
from headgate.spark.options import Options
from headgate.spark.plan import MissingData, Task, share_out
from headgate.wire.message import ZERO_UUID

FETCH_BYTES = 4 << 20
"""Maximum size of a fetch; a leader returns at least one whole batch, whatever its size."""

WAIT_MS = 1000
"""Maximum time in ms a leader waits for records that are below its end offset."""

CLIENT_ID = "headgate-spark"

_OF_NO_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A range of offsets of one partition. `log_end` is the end of the partition in the plan.

    With `goes_on` the partition is read to the end of its log: by its last range.
    """

    where: TopicPartition
    start_offset: int
    end_offset: int
    log_end: int
    goes_on: bool = False

    @property
    def weight(self) -> int:
        """Return the number of offsets to read, as far as the plan knows them."""
        return max(self.end_offset - self.start_offset, 0)

    @property
    def is_last(self) -> bool:
        """Return whether no other range of the partition follows."""
        return self.end_offset >= self.log_end


@dataclass(frozen=True)
class FetchTask(Task):
    """Ranges of offsets that one task fetches, in order, and the leaders of their partitions in the plan."""

    bootstrap_servers: str
    timeout_s: float
    fail_on_data_loss: bool
    leaders: Mapping[TopicPartition, Address]
    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[TopicName, TopicId]
    """The ids of its topics in the plan: records of a later topic of the same name are not read."""
    is_committed_only: bool = False
    security: Security = NOT_SECURED

    def scans(self) -> Iterator[tuple[TopicPartition, Scan]]:
        """Fetch all ranges, response by response, each with its partition."""
        with self._connected() as cluster:
            ends = self._ends_now(cluster, (one.where for one in self.ranges if one.goes_on and one.is_last))
            for offsets in self.ranges:
                if offsets.is_last and offsets.where in ends:
                    offsets = replace(offsets, end_offset=max(offsets.end_offset, ends[offsets.where]))
                for scan in _Fetching(self, cluster, offsets).scans():
                    yield offsets.where, scan

    def scans_at(self, where: TopicPartition, offset: int) -> Iterator[Scan]:
        """Fetch the record at an offset that another task may read, if the read includes it."""
        log_end, goes_on = next((one.log_end, one.goes_on) for one in self.ranges if one.where == where)
        if offset >= log_end and not goes_on:
            return
        with self._connected() as cluster:
            if offset >= log_end:
                log_end = self._ends_now(cluster, [where]).get(where, log_end)
            if offset < log_end:
                wanted = OffsetRange(where, offset, offset + 1, log_end)
                yield from _Fetching(self, cluster, wanted).scans()

    def _ends_now(
        self, cluster: Cluster, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the ends of the logs, without those of topics that are gone: their fetch tells it."""
        level, wanted = isolation_level(self.is_committed_only), sorted(partitions)
        if not wanted:
            return {}
        with suppress(RequestRefused):  # of one topic: then each is asked by itself
            return cluster.list_offsets(dict.fromkeys(wanted, LATEST), level)
        ends: dict[TopicPartition, int] = {}
        for _, some in groupby(wanted, key=lambda where: where.topic):
            try:
                ends |= cluster.list_offsets(dict.fromkeys(some, LATEST), level)
            except RequestRefused as refusal:
                if refusal.error not in _OF_NO_TOPIC:
                    raise
        return ends

    def _connected(self) -> Cluster:
        return connect(self.bootstrap_servers, self.timeout_s, self.leaders, self.security)


class _Fetching:
    """Fetches one range of offsets."""

    def __init__(self, task: FetchTask, cluster: Cluster, offsets: OffsetRange) -> None:
        self.task = task
        self.cluster = cluster
        self.where = offsets.where
        self.topic_id = task.topic_ids.get(offsets.where.topic)
        self.end_offset = offsets.end_offset
        self.offset = offsets.start_offset
        self.floor = 0

    def scans(self) -> Iterator[Scan]:
        """Fetch the range, response by response."""
        while self.offset < self.end_offset:
            fetched = self._fetch()
            if fetched is None:
                continue
            scan = self._scan(fetched)
            taken = replace(scan, batches=committed_only(scan.batches, fetched.aborted))
            if scan.broken:
                yield taken.with_corruptions([self._unreadable(scan)])
                return
            following = max(scan.next_offset, self._behind_corruptions(scan))
            if following <= self.offset:
                yield taken
                self._lose(f"gives nothing from offset {self.offset} on")
                return
            yield taken
            self.offset = self.floor = following

    def _fetch(self) -> Fetched | None:
        """Return the records from the offset on; None if the offset was moved to the next existing record."""
        try:
            return self.cluster.fetch(
                self.where.topic,
                self.where.partition,
                self.offset,
                topic_id=self.topic_id,
                max_bytes=FETCH_BYTES,
                max_wait_ms=WAIT_MS,
                isolation_level=isolation_level(self.task.is_committed_only),
            )
        except RequestRefused as refusal:
            if refusal.error in _OF_NO_TOPIC and self._is_topic_gone():
                self._lose("was deleted")
                self.offset = self.end_offset
                return None
            if refusal.error != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        earliest = self.cluster.list_offsets({self.where: EARLIEST})[self.where]
        self._lose(f"begins at offset {earliest}, {self.offset} is not there")
        # Records were deleted at the start or truncated at the end: nothing more to read there.
        self.offset = earliest if earliest > self.offset else self.end_offset
        self.floor = 0
        return None

    def _is_topic_gone(self) -> bool:
        """Return whether the topic of the plan does not exist, although another may have its name."""
        return self.topic_id is not None and not self.cluster.topic_names([self.topic_id])

    def _lose(self, what: str) -> None:
        """Report that records of the plan no longer exist."""
        message = f"{self.where} {what}, although it was read up to {self.end_offset} by the plan"
        if self.task.fail_on_data_loss:
            raise MissingData(f"{message}; set failOnDataLoss to false to read what there is")
        print(f"headgate: {message}; what is missing is skipped", file=sys.stderr)

    def _scan(self, fetched: Fetched) -> Scan:
        records = fetched.records
        data = bytearray(len(records) + PADDING)
        data[: len(records)] = records
        place = f"{self.where} at {self.task.bootstrap_servers}, fetched from offset {self.offset}"

        def scan(more_follows: bool) -> Scan:
            return scan_chunk(
                Chunk(
                    data,
                    len(records),
                    place,
                    start_offset=self.offset,
                    end_offset=self.end_offset,
                    floor=self.floor,
                    ceiling=max(fetched.high_watermark, self.end_offset),
                    more_follows=more_follows,
                )
            )

        # A full response is cut: the next one has the batch that confirms its last batch.
        found = scan(more_follows=2 * len(records) > FETCH_BYTES)
        return found if found.end else scan(more_follows=False)

    def _behind_corruptions(self, scan: Scan) -> int:
        """Return the offset after an unreadable batch, by its header, if nothing after it was readable."""
        if len(scan.batches) or not scan.corruptions:
            return 0
        behind = read_header(scan.chunk.data, scan.corruptions[-1].position).next_offset
        return behind if self.offset < behind <= scan.chunk.ceiling else self.end_offset

    def _unreadable(self, scan: Scan) -> Corruption:
        """Return the corruption of a batch without a valid length: the rest of the range cannot be read."""
        rest = scan.chunk.size - scan.end
        return Corruption(scan.chunk.place, scan.end, rest, scan.next_offset, scan.broken)


def plan(options: Options) -> list[Task]:
    """Get the bounds of the partitions from the cluster, and divide the offsets. Raises MissingData."""
    assert options.bootstrap_servers is not None
    with connect(options.bootstrap_servers, options.timeout_s, security=options.security) as cluster:
        partitions, topic_ids = _partitions(cluster, options)
        options.check_partitions(partitions)
        earliest = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
        level = isolation_level(options.is_committed_only)
        latest = cluster.list_offsets(dict.fromkeys(partitions, LATEST), level)
        leaders = cluster.leaders
    bounds = {where: _wanted(options, where, earliest[where], latest[where]) for where in partitions}
    going_on = {where for where in partitions if options.ending_offsets.get(where, LATEST) == LATEST}
    return list(divide(bounds, options, leaders, topic_ids, going_on)) or [Task()]


def divide(
    bounds: Mapping[TopicPartition, tuple[int, int]],
    options: Options,
    leaders: Mapping[TopicPartition, Address],
    topic_ids: Mapping[TopicName, TopicId],
    going_on: Collection[TopicPartition] = (),
) -> list[FetchTask]:
    """Divide the offsets to read, by partition from the first up to but not including the second.

    Partitions `going_on` are read to the end of the log at the time of the task.
    """
    assert options.bootstrap_servers is not None
    total = sum(max(end - start, 0) for start, end in bounds.values())
    longest = max(1, -(-total // options.min_partitions))
    ranges = [
        OffsetRange(where, start, min(start + longest, end), end, where in going_on)
        for where, (first, end) in bounds.items()
        for start in range(first, end, longest) or [first] * (where in going_on)
    ]
    return [
        FetchTask(
            options.bootstrap_servers,
            options.timeout_s,
            options.fail_on_data_loss,
            {offsets.where: leaders[offsets.where] for offsets in share if offsets.where in leaders},
            share,
            {name: topic_ids[name] for name in {one.where.topic for one in share} if name in topic_ids},
            options.is_committed_only,
            options.security,
        )
        for share in share_out(ranges, options.min_partitions)
    ]


def isolation_level(is_committed_only: bool) -> int:
    """Return the isolation level on the wire."""
    return READ_COMMITTED if is_committed_only else READ_UNCOMMITTED


def connect(
    servers: str,
    timeout_s: float,
    leaders: Mapping[TopicPartition, Address] | None = None,
    security: Security = NOT_SECURED,
) -> Cluster:
    """Return a client that waits for nodes that are restarting."""
    return Cluster(
        servers, timeout_s, CLIENT_ID, leaders=leaders or {}, waits_for_nodes=True, security=security
    )


def _partitions(cluster: Cluster, options: Options) -> tuple[list[TopicPartition], dict[TopicName, TopicId]]:
    """Return the partitions to read, and the ids of their topics.

    The leaders of the partitions are known to the cluster afterwards.
    """
    response = cluster.metadata(options.topics.required or None)
    cluster.learn_leaders(response)
    found: dict[TopicName, list[int]] = {}
    topic_ids: dict[TopicName, TopicId] = {}
    for topic in response.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise MissingData(absent_topic(cluster, options, str(topic.name)))
        name = TopicName(str(topic.name))
        if options.topics.among([name]):
            check(f"topic {topic.name}", topic.error_code)
            found[name] = [partition.partition_index for partition in topic.partitions]
            if topic.topic_id != ZERO_UUID:  # which nodes send that know no ids
                topic_ids[name] = TopicId(topic.topic_id)
    for name, named in options.topics.partitions.items():
        for partition in named:
            if partition not in found[name]:
                raise MissingData(f"there is no partition {name}-{partition} at {options.bootstrap_servers}")
    chosen = [
        TopicPartition(name, partition)
        for name in options.topics.among(found)
        for partition in options.topics.partitions_of(name, found[name])
    ]
    return chosen, topic_ids


def absent_topic(cluster: Cluster, options: Options, topic: str) -> str:
    """Return the message for a topic that does not exist, with those that do."""
    names = sorted(str(found.name) for found in cluster.metadata().topics if found.name)
    there = f"topics there: {', '.join(names)}" if names else "there are no topics"
    return f"no topic {topic!r} at {options.bootstrap_servers} ({there})"


def _wanted(options: Options, where: TopicPartition, earliest: int, latest: int) -> tuple[int, int]:
    """Return the first offset to read and the end of the read, of those that exist.

    A start after the end reads nothing, as in Spark's Kafka source.
    """
    start = options.starting_offsets.get(where, EARLIEST)
    end = options.ending_offsets.get(where, LATEST)
    start = earliest if start == EARLIEST else start
    end = latest if end == LATEST else end
    if options.fail_on_data_loss and start < end and (start < earliest or end > latest):
        kind = "committed offsets" if options.is_committed_only else "offsets"
        raise MissingData(
            f"{where} holds {kind} {earliest} to {latest}, asked for were {start} to {end}; "
            "set failOnDataLoss to false to read what there is"
        )
    return max(start, earliest), min(end, latest)
