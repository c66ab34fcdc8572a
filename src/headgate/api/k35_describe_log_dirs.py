"""DescribeLogDirs (key 35), versions 1-5: size of each partition on the disk. There is one log directory.

Null topics mean every partition. Unknown topics are omitted, as in Kafka. The total size and the free space
(4+, KIP-827) are those of the file system.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import of_cluster
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.log.batch import CorruptBatch
from headgate.log.filesystem import space_of
from headgate.security.resources import Operation
from headgate.topics.opening_aside import opened_aside
from headgate.topics.topic import Topic
from headgate.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(node: Node, call: Call, request: DescribeLogDirsRequest) -> None:
    """Return the sizes."""
    call.answer_in_steps(_answer(node, request))


def _answer(node: Node, request: DescribeLogDirsRequest) -> RequestSteps[DescribeLogDirsResponse]:
    result = DescribeLogDirsResult(log_dir=node.topics.data_dir_text)
    result.total_bytes, result.usable_bytes = space_of(node.topics.data_dir)
    failed = 0
    for topic, indexes in _wanted(node, request):
        described = yield from _describe(topic, indexes)
        failed += described is None
        if described is not None:
            result.topics.append(described)
    if failed and not result.topics:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(results=[result])


def _wanted(node: Node, request: DescribeLogDirsRequest) -> Iterable[tuple[Topic, Iterable[int]]]:
    if request.topics is None:
        for topic in node.topics.all():
            yield topic, range(topic.partition_count)
        return
    for wanted in request.topics:
        found = node.topics.by_name(wanted.topic)
        if found is not None:
            yield found, [index for index in wanted.partitions if 0 <= index < found.partition_count]


def _describe(topic: Topic, indexes: Iterable[int]) -> RequestSteps[DescribeLogDirsTopic | None]:
    """Describe those partitions of a topic whose logs can be opened; None if none of them can."""
    has_failed = False
    described = DescribeLogDirsTopic(name=topic.name)
    for index in indexes:
        yield None
        size_bytes = 0
        if topic.is_written(index):
            partition = topic.partition(index)
            yield from opened_aside(partition)
            try:
                size_bytes = 0 if topic.is_deleted else partition.size_bytes
            except (OSError, CorruptBatch):  # its log line tells why
                has_failed = True
                continue
        described.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=size_bytes)
        )
    return None if has_failed and not described.partitions else described


API = Api(
    key=35,
    name="DescribeLogDirs",
    min_version=1,
    max_version=5,
    request_type=DescribeLogDirsRequest,
    response_type=DescribeLogDirsResponse,
    handle=handle,
    needs=of_cluster(Operation.DESCRIBE),
)
