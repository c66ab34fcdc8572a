"""`python -m bench.codec`: Headgate's encoders and decoders compared with kio's, and the import time of both.

Both process the same bytes and the same values, alternately; the median of the rounds is printed, in
processor time, so that other load on the machine matters little. kio decodes in native code and encodes in
Python; Headgate uses generated Python for both.
"""

from __future__ import annotations

import importlib
import io
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from headgate.wire.codec import encode, reader_for, writer_for
from headgate.wire.message import Message
from headgate.wire.messages import APIS
from headgate.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ROUNDS = 9
SECONDS_A_ROUND = 0.02
IMPORT_ROUNDS = 6

MEMBER = "consumer-orders-1-0d7a4f6e-5c1b-4d0a-9a55-6f7c2b9e1d3c"


@dataclass(frozen=True)
class Row:
    """One message in one version: microseconds of Headgate and of kio."""

    title: str
    size_bytes: int
    our_read: float
    kio_read: float
    our_write: float
    kio_write: float


def main() -> None:
    """Measure and print."""
    table = Table(title="One message, in microseconds (median)")
    for heading in ("message", "bytes", "read", "kio", "ratio", "write", "kio", "ratio"):
        table.add_column(heading, justify="left" if heading == "message" else "right")
    for title, version, message in messages():
        row = measure(title, version, message)
        table.add_row(
            row.title,
            f"{row.size_bytes:,}",
            f"{row.our_read:.2f}",
            f"{row.kio_read:.2f}",
            f"{row.our_read / row.kio_read:.1f}",
            f"{row.our_write:.2f}",
            f"{row.kio_write:.2f}",
            f"{row.our_write / row.kio_write:.2f}",
        )
    imports = Table(title="Importing the messages, in milliseconds (median)")
    imports.add_column("what")
    imports.add_column("time", justify="right")
    for title, cost in import_costs().items():
        imports.add_row(title, f"{cost:.0f}")
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(imports)


def messages() -> list[tuple[str, int, Message]]:
    """Return the measured messages: title, version, message."""
    return [
        ("OffsetCommit request, 1 partition", 9, commit_request(1)),
        ("OffsetCommit request, 100 partitions", 9, commit_request(100)),
        ("OffsetCommit response, 1 partition", 9, commit_response(1)),
        ("OffsetCommit response, 100 partitions", 9, commit_response(100)),
        ("OffsetFetch request, 1 partition", 9, offsets_request(1)),
        ("OffsetFetch response, 1 partition", 9, offsets_response(1)),
        ("OffsetFetch response, 100 partitions", 9, offsets_response(100)),
        ("Fetch request, 6 partitions", 12, fetch_request(6)),
        ("Fetch response, 6 partitions of 16 kB", 12, fetch_response(6)),
        ("Metadata request, 1 topic", 12, MetadataRequest(topics=[MetadataRequestTopic(name="orders")])),
        ("Metadata response, 10 topics of 6", 12, metadata_response(10, 6)),
        ("Heartbeat request", 4, HeartbeatRequest(group_id="orders", generation_id=3, member_id=MEMBER)),
        ("Heartbeat response", 4, HeartbeatResponse()),
    ]


def commit_request(partitions: int) -> Message:
    """Return a commit of a group member."""
    entries = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1_000_000 + index)
        for index in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id="orders",
        generation_id_or_member_epoch=3,
        member_id=MEMBER,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=entries)],
    )


def commit_response(partitions: int) -> Message:
    """Return the response to a commit."""
    entries = [OffsetCommitResponsePartition(partition_index=index) for index in range(partitions)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=entries)])


def offsets_request(partitions: int) -> Message:
    """Return a fetch of a group's offsets."""
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=list(range(partitions)))
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="orders", topics=[topic])])


def offsets_response(partitions: int) -> Message:
    """Return the response to a fetch of offsets."""
    entries = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=1_000_000 + index)
        for index in range(partitions)
    ]
    topic = OffsetFetchResponseTopics(name="orders", partitions=entries)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="orders", topics=[topic])])


def fetch_request(partitions: int) -> Message:
    """Return a consumer's fetch outside a session."""
    entries = [
        FetchPartition(partition=index, fetch_offset=1_000_000, partition_max_bytes=1 << 20)
        for index in range(partitions)
    ]
    topic = FetchTopic(topic="orders", partitions=entries)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def fetch_response(partitions: int) -> Message:
    """Return the response to a fetch."""
    entries = [
        PartitionData(partition_index=index, high_watermark=1_000_100, records=bytes(16_384))
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=entries)])


def metadata_response(topics: int, partitions: int) -> Message:
    """Return the response to a client's first request."""
    entries = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
        cluster_id="abcdefghijklmnopqrstuv",
        controller_id=1,
        topics=[
            MetadataResponseTopic(name=f"topic-{number}", topic_id=bytes([number] * 16), partitions=entries)
            for number in range(topics)
        ],
    )


def measure(title: str, version: int, message: Message) -> Row:
    """Measure Headgate's and kio's code alternately."""
    kio_type = kio_class(type(message), version)
    kio_read, kio_write = entity_reader(kio_type), entity_writer(kio_type)
    our_read, our_write = reader_for(type(message), version), writer_for(type(message), version)
    data = encode(message, version)
    kio_message, size = kio_read(data, 0)
    assert size == len(data)
    calls: list[Callable[[], Any]] = [
        lambda: our_read(data, 0),
        lambda: kio_read(data, 0),
        lambda: our_write(bytearray(), message),
        lambda: kio_write(io.BytesIO(), kio_message),
    ]
    counts = [
        max(1, int(SECONDS_A_ROUND / timeit.timeit(call, timer=time.process_time, number=20) * 20))
        for call in calls
    ]
    rounds = [
        [
            timeit.timeit(call, timer=time.process_time, number=count) / count
            for call, count in zip(calls, counts, strict=True)
        ]
        for _ in range(ROUNDS)
    ]
    medians = [statistics.median(times) * 1e6 for times in zip(*rounds, strict=True)]
    return Row(f"{title}, v{version}", len(data), *medians)


def kio_class(message_type: type[Message], version: int) -> Any:
    """Return kio's class of one version of a message."""
    module_name = APIS[message_type.API_KEY].module
    side = "response" if message_type.__name__.endswith("Response") else "request"
    return getattr(
        importlib.import_module(f"kio.schema.{module_name}.v{version}.{side}"), message_type.__name__
    )


def import_scripts() -> dict[str, str]:
    """Return the imports to measure, each for a fresh process."""
    ours = "".join(f"import headgate.wire.messages.{info.module}\n" for info in APIS.values())
    all_versions = "import kio.serial\n" + "".join(
        f"import kio.schema.{info.module}.v{version}.{side}\n"
        for info in APIS.values()
        for version in range(info.min_version, info.max_version + 1)
        for side in ("request", "response")
    )
    no_hypothesis = "import sys\nsys.modules['hypothesis'] = None\n"
    return {
        "ours: every message, all versions, and the codec": "import headgate.wire.codec\n" + ours,
        "kio: the same messages, without hypothesis installed": no_hypothesis + all_versions,
        "kio: the same messages, with hypothesis installed": all_versions,
        "kio: one message alone, without hypothesis": no_hypothesis
        + "import kio.serial\nimport kio.schema.heartbeat.v4.request\n",
    }


def import_costs() -> dict[str, float]:
    """Return the milliseconds of the imports in a fresh interpreter, without its start."""
    scripts = import_scripts()
    times: dict[str, list[float]] = {title: [] for title in scripts}
    for _ in range(IMPORT_ROUNDS):
        for title, script in scripts.items():
            program = (
                "import time\nimport headgate\nstart = time.process_time()\n"
                f"{script}\nprint((time.process_time() - start) * 1e3)"
            )
            command = [sys.executable, "-c", program]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
            times[title].append(float(done.stdout))
    # The first round includes the compilation to bytecode.
    return {title: statistics.median(each[1:]) for title, each in times.items()}


if __name__ == "__main__":
    main()
