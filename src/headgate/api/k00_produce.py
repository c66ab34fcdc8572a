"""Produce (key 0), versions 3-13: records in.

Batches pass through as they were sent; the broker sets base offset and leader epoch, which the checksum
leaves out. `acks` says when the answer comes: 0 none at all, 1 when the batch is written, -1 when it is
safe, which in a durable topic means synced and in one that trusts the page cache means written. A repeated
batch of an idempotent producer is answered with its first offset, and no earlier than the first would have
been.

* Below version 7 a batch compressed with zstd is refused (KIP-110).
* From version 13 topics are named by id (KIP-516).
* Per record errors from version 8 (KIP-467); the current leader in tagged fields from 10 (KIP-951) is never
  needed.
"""

from __future__ import annotations

from headgate.api.contract import Api, Call, Node
from headgate.domain.errors import ErrorCode
from headgate.topics.admission import AppendResult
from headgate.topics.partition import Partition
from headgate.topics.topic import Topic
from headgate.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ALL = -1
_TOPIC_IDS_SINCE = 13
_ZSTD_SINCE = 7
_ZSTD = 4
_READ_ASIDE_BYTES = 1 << 20
"""Most of a request is records, which are taken as they are."""
_CODEC_AT = 22
"""The low byte of a batch's attributes."""


class _Answer:
    """A response that waits until all that it reports as appended is durable."""

    __slots__ = ("_call", "_response", "_waiting")

    def __init__(self, call: Call, response: ProduceResponse) -> None:
        self._call = call
        self._response = response
        self._waiting = 1

    def wait_for(self, node: Node, partition: Partition, result: PartitionProduceResponse) -> None:
        """Hold the response until the partition's log is durable up to now."""
        self._waiting += 1

        def done(is_durable: bool) -> None:
            partition.synced(is_durable)
            if not is_durable:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                result.base_offset = -1
                result.error_message = "The records could not be made durable"
            self.release()

        node.durability.when_durable(partition.log, done)

    def release(self) -> None:
        """One reason less to wait."""
        self._waiting -= 1
        if self._waiting == 0:
            self._call.answer(self._response)


def handle(node: Node, call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Append every partition's batch, each for itself."""
    response = ProduceResponse()
    to_be_synced: list[tuple[Partition, PartitionProduceResponse]] = []
    refusal = _refuse_all(request)
    for topic_data in request.topic_data:
        answers = TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id)
        if topic_data.partition_data:
            response.responses.append(answers)
        topic = refusal or _find_topic(node, call, topic_data)
        for data in topic_data.partition_data:
            if isinstance(topic, ErrorCode):
                answers.partition_responses.append(_refusal(data, topic))
                continue
            partition, result = _append(node, call, topic, data)
            answers.partition_responses.append(result)
            if partition is None:
                continue
            if topic.policy.is_durable:
                to_be_synced.append((partition, result))
            elif partition.log.has_unsynced_closed_segments:
                _sync_behind(node, partition)
    if request.acks != ALL:
        for partition, _ in to_be_synced:
            _sync_behind(node, partition)
        if request.acks == 0:
            _finish_without_answer(call, response)
            return None
        return response
    if not to_be_synced:
        return response
    answer = _Answer(call, response)
    for partition, result in to_be_synced:
        answer.wait_for(node, partition, result)
    answer.release()
    return None


def _finish_without_answer(call: Call, response: ProduceResponse) -> None:
    """With acks=0 a refusal can be told only by closing the connection: the client asks for metadata anew."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = f"{topic.name or topic.topic_id.hex()}-{partition.index}"
                call.disconnect(f"a record for {name} with acks=0: {ErrorCode(partition.error_code).name}")
                return
    call.no_answer()


def _refuse_all(request: ProduceRequest) -> ErrorCode | None:
    if request.acks not in (ALL, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    # Transactions are not supported: none can be open.
    return ErrorCode.INVALID_TXN_STATE if request.transactional_id is not None else None


def _sync_behind(node: Node, partition: Partition) -> None:
    """Nobody waits for this sync but the readers."""
    node.durability.when_durable(partition.log, partition.synced)


def _find_topic(node: Node, call: Call, topic_data: TopicProduceData) -> Topic | ErrorCode:
    if call.api_version >= _TOPIC_IDS_SINCE:
        topic = node.topics.by_id(topic_data.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = node.topics.by_name(topic_data.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return missing
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic.is_internal else topic


def _append(
    node: Node, call: Call, topic: Topic, data: PartitionProduceData
) -> tuple[Partition | None, PartitionProduceResponse]:
    """The answer, and the partition if it took the batch."""
    partition = topic.find_partition(data.index)
    if partition is None:
        return None, _refusal(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    records = data.records
    if not records:
        message = "There must be exactly one record batch per partition"
        return None, _refusal(data, ErrorCode.INVALID_RECORD, message)
    if call.api_version < _ZSTD_SINCE and len(records) > _CODEC_AT and records[_CODEC_AT] & 7 == _ZSTD:
        return None, _refusal(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    outcome = partition.append(records, node.system_time())
    return partition if outcome.error == ErrorCode.NONE else None, _result(data, outcome)


def _result(data: PartitionProduceData, outcome: AppendResult) -> PartitionProduceResponse:
    result = PartitionProduceResponse(
        index=data.index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        error_message=outcome.message,
    )
    if outcome.record_errors:
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in outcome.record_errors
        ]
    return result


def _refusal(
    data: PartitionProduceData, error: ErrorCode, message: str | None = None
) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1, error_message=message)


API = Api(
    key=0,
    name="Produce",
    min_version=3,
    max_version=13,
    request_type=ProduceRequest,
    response_type=ProduceResponse,
    handle=handle,
    read_aside_bytes=_READ_ASIDE_BYTES,
)
