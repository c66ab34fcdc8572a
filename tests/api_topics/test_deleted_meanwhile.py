"""A topic that is deleted while its log is opened for a request is unknown, not empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.node import drive_request
from tests.api_topics.node import OneCall, OneNode
from tests.topics.disk import NOW, append, batch

from headgate.api import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k21_delete_records,
    k23_offset_for_leader_epoch,
    k35_describe_log_dirs,
    k61_describe_producers,
)
from headgate.api.contract import RequestSteps
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headgate.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headgate.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NAME = "letters"
EARLIEST = -2
LATEST = -1


def list_offsets(timestamp: int) -> ListOffsetsRequest:
    """Ask for one offset of the partition."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=NAME, partitions=[wanted])])


REQUESTS: list[tuple[Api, int, Any]] = [
    (
        k00_produce.API,
        12,
        ProduceRequest(
            acks=-1,
            topic_data=[
                TopicProduceData(
                    name=NAME, partition_data=[PartitionProduceData(index=0, records=batch(b"late"))]
                )
            ],
        ),
    ),
    (
        k01_fetch.API,
        12,
        FetchRequest(
            max_bytes=1000,
            topics=[
                FetchTopic(topic=NAME, partitions=[FetchPartition(fetch_offset=2, partition_max_bytes=1000)])
            ],
        ),
    ),
    (k02_list_offsets.API, 5, list_offsets(LATEST)),
    (k02_list_offsets.API, 5, list_offsets(EARLIEST)),
    (k02_list_offsets.API, 5, list_offsets(NOW)),
    (
        k21_delete_records.API,
        2,
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=NAME, partitions=[DeleteRecordsPartition(offset=-1)])]
        ),
    ),
    (
        k23_offset_for_leader_epoch.API,
        4,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=NAME, partitions=[OffsetForLeaderPartition(leader_epoch=0)])]
        ),
    ),
    (
        k61_describe_producers.API,
        0,
        DescribeProducersRequest(topics=[TopicRequest(name=NAME, partition_indexes=[0])]),
    ),
]


def closed_and_deleted_at_its_opening(node: OneNode) -> type[OneCall]:
    """Create the topic and close its log. Return a kind of request that finds the topic, and deletes it when
    the log is opened.
    """
    for value in (b"a", b"b", b"c"):
        append(node.topics.by_name(NAME) or node.topic(NAME), value)
    node.restart()
    topic = node.topics.by_name(NAME)
    assert topic is not None

    def deleting(steps: RequestSteps[Any]) -> RequestSteps[Any]:
        try:
            while True:
                work = next(steps)
                yield work
                if not topic.is_deleted and topic.partition(0).is_opening:
                    assert node.topics.delete(topic, NOW) is None
        except StopIteration as stop:
            return stop.value

    class DeletingCall(OneCall):
        def in_steps(self, steps: RequestSteps[Any], then: Callable[[Any], None]) -> None:
            super().in_steps(deleting(steps), then)

        def answer_in_steps(self, steps: RequestSteps[Any]) -> None:
            self.answer(drive_request(deleting(steps)))

    return DeletingCall


def errors_in(answer: Any) -> set[int]:
    """Return the errors of all partitions in a response."""
    found = {answer.error_code} if hasattr(answer, "partition_index") or hasattr(answer, "index") else set()
    if hasattr(answer, "partition") and not isinstance(answer.partition, list):
        found.add(answer.error_code)
    for name in ("responses", "topics", "partitions", "partition_responses"):
        for part in getattr(answer, name, ()):
            found |= errors_in(part)
    return found


@pytest.mark.parametrize(
    ("api", "version", "request_"), REQUESTS, ids=[f"{row[0].name}-{at}" for at, row in enumerate(REQUESTS)]
)
def test_a_topic_deleted_while_its_log_is_opened_is_unknown(
    node: OneNode, api: Api, version: int, request_: Any
) -> None:
    """A consumer that got another answer would reset its position, and a tool would count no records."""
    call = node.send(api, request_, version, call_type=closed_and_deleted_at_its_opening(node))
    assert errors_in(call.response) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_sizes_of_a_topic_deleted_meanwhile_are_zero(node: OneNode) -> None:
    """The other topics are described."""
    call_type = closed_and_deleted_at_its_opening(node)
    append(node.topic("other"), b"a")
    wanted = [DescribableLogDirTopic(topic=name, partitions=[0]) for name in (NAME, "other")]
    call = node.send(k35_describe_log_dirs.API, DescribeLogDirsRequest(topics=wanted), call_type=call_type)
    sizes = {one.name: one.partitions[0].partition_size for one in call.response.results[0].topics}
    assert sizes[NAME] == 0 < sizes["other"]
