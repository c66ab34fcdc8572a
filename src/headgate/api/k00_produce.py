"""Produce (key 0), versions 3-13: append records.

Batches are stored as they were sent, except base offset and leader epoch, which the checksum does not cover.
`acks` says when the response is sent: 0 never, 1 when the batch is written, -1 when it is safe, which means
synced in a durable topic and written in one that relies on the page cache. A duplicate of an idempotent
producer is answered with its first offset, and no earlier than the first batch.

* A batch whose check takes long is checked in another thread (`topics/appends.py`); the response waits for
  it.
* The first transactional batch of a transaction in a partition waits for the transaction coordinator: up to
  version 11 it verifies that the client has added the partition, from 12 it adds it (KIP-890). Batches after
  it do not wait. Without a transactional id the whole request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
* Below version 7 a batch compressed with zstd is refused (KIP-110).
* From version 13 topics are named by id (KIP-516).
* Errors per record from version 8 (KIP-467); the current leader in tagged fields from 10 (KIP-951) is never
  needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from headgate.api import denials
from headgate.api.background_syncs import plan_flush, sync_in_background
from headgate.api.contract import Call, Node, RequestSteps
from headgate.api.needs import topic_needs
from headgate.api.produced_transactions import (
    NOT_VERIFIED,
    Verified,
    is_transactional,
    refusal_of,
    verify,
)
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.log.log import Log
from headgate.security.authorizer import Need
from headgate.security.resources import Operation, Resource, ResourceType
from headgate.topics.admission import AppendResult
from headgate.topics.appends import Budget
from headgate.topics.opening_aside import opened_aside
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
"""Most of a request is records, which need no decoding."""
_CODEC_AT = 22
"""Position of the low byte of a batch's attributes."""
_MOST_AT_ONCE = 200
"""Requests with more partitions are handled in steps."""
_DELETED = AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_NOT_DURABLE = AppendResult(ErrorCode.KAFKA_STORAGE_ERROR, message="The records could not be made durable")


class _Produce:
    """One request, from its first append to its response."""

    __slots__ = ("_acks", "_call", "_is_wide", "_node", "_to_be_synced", "_verified", "_waiting", "response")

    def __init__(
        self, node: Node, call: Call, acks: int, verified: Verified, *, is_wide: bool = False
    ) -> None:
        self._node = node
        self._call = call
        self._acks = acks
        self._verified = verified
        self._is_wide = is_wide
        """Whether the response may be long: then it is encoded in a thread."""
        self._waiting = 1
        """Number of events that the response waits for: the start of all appends, checks, syncs."""
        self._to_be_synced: list[tuple[Partition, Log, PartitionProduceResponse]] = []
        """The logs as of the append: a topic may be deleted between two steps."""
        self.response = ProduceResponse()

    def append(
        self, partition: Partition, records: bytes, budget: Budget, result: PartitionProduceResponse
    ) -> None:
        """Append a batch now or later, and then fill in `result`."""
        place = (partition.topic.name, partition.index)
        error = self._verified.errors.get(place)
        if error is not None:
            partition.refused_before_append(records)
            _fill_in(result, refusal_of(error, self._call.api_version, self._verified.message))
            return
        self._waiting += 1
        outcome = self._node.appends.append(
            partition,
            records,
            self._node.system_time(),
            budget,
            self._call.guard(lambda partition, outcome: self._appended_later(partition, outcome, result)),
            self._verified.verification,
            self._verified.ends.get(place),
        )
        if outcome is not None:
            self._waiting -= 1
            self._appended(partition, outcome, result)

    def finish(self) -> ProduceResponse | None:
        """Note that all appends were started; return the response, or None if it is sent later or never."""
        self._waiting -= 1
        if self._waiting:
            return None
        if self._acks and not self._is_wide:
            return self.response
        self._answer()
        return None

    def _appended(
        self, partition: Partition, outcome: AppendResult, result: PartitionProduceResponse
    ) -> None:
        _fill_in(result, outcome)
        if outcome.error != ErrorCode.NONE:
            return
        if partition.topic.policy.is_durable or partition.is_flush_due:
            self._to_be_synced.append((partition, partition.log, result))
        elif partition.log.has_unsynced_closed_segments:
            sync_in_background(self._node, partition, partition.log)
        else:
            plan_flush(self._node, partition)

    def _appended_later(
        self, partition: Partition, outcome: AppendResult, result: PartitionProduceResponse
    ) -> None:
        self._appended(partition, outcome, result)
        self.sync()
        self._count_down()

    def sync(self) -> None:
        """Start syncs of all appended batches; with acks=all the response waits for them."""
        to_be_synced, self._to_be_synced = self._to_be_synced, []
        for partition, log, result in to_be_synced:
            if self._acks == ALL:
                self._wait_for(partition, log, result)
            else:
                sync_in_background(self._node, partition, log)

    def _wait_for(self, partition: Partition, log: Log, result: PartitionProduceResponse) -> None:
        """Delay the response until the partition's log is durable up to now."""
        self._waiting += 1

        def done(is_durable: bool) -> None:
            partition.synced(is_durable)
            if not is_durable:
                _fill_in(result, _DELETED if partition.topic.is_deleted else _NOT_DURABLE)
            self._count_down()

        self._node.durability.when_durable(log, self._call.guard(done))

    def _count_down(self) -> None:
        """Count down the events; send the response after the last."""
        self._waiting -= 1
        if not self._waiting:
            self._answer()

    def _answer(self) -> None:
        if not self._acks:
            self._finish_without_answer()
        elif self._is_wide:
            self._call.answer_aside(lambda: self.response)
        else:
            self._call.answer(self.response)

    def _finish_without_answer(self) -> None:
        """End a request with acks=0. Closing the connection is the only way to report a refusal: the client
        then refreshes its metadata.
        """
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NONE:
                    name = f"{topic.name or topic.topic_id.hex()}-{partition.index}"
                    error = ErrorCode(partition.error_code).name
                    self._call.disconnect(f"a record for {name} with acks=0: {error}")
                    return
        self._call.no_answer()


def handle(node: Node, call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Append every partition's batch, each independently."""
    if request.transactional_id is None:
        return _append(node, call, request, NOT_VERIFIED)

    def append(verified: Verified) -> None:
        response = _append(node, call, request, verified)
        if response is not None:
            call.answer(response)

    call.in_steps(verify(node, request, call.api_version, partial(_found, node, call)), append)
    return None


def _found(node: Node, call: Call, topic_data: TopicProduceData, index: int) -> Partition | None:
    topic = _find_topic(node, call, topic_data)
    return None if isinstance(topic, ErrorCode) else topic.find_partition(index)


def _append(node: Node, call: Call, request: ProduceRequest, verified: Verified) -> ProduceResponse | None:
    if _is_short(node, call, request):
        for _ in _drop_repeats(request) if _names_several(request) else ():
            pass
        produce = _Produce(node, call, request.acks, verified)
        for _ in _append_each(node, call, request, produce, Budget()):
            pass
        return produce.finish()
    produce = _Produce(node, call, request.acks, verified, is_wide=True)

    def finish(nothing: None) -> None:
        produce.finish()

    call.in_steps(_append_each(node, call, request, produce, None), finish)
    return None


def _names_several(request: ProduceRequest) -> bool:
    return len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1


def _drop_repeats(request: ProduceRequest) -> RequestSteps[None]:
    """For a partition given more than once keep only its last batch, and answer once, as Kafka does."""
    last: dict[tuple[str, bytes, int], PartitionProduceData] = {}
    for topic_data in request.topic_data:
        yield None
        for some in _some_at_a_time(topic_data):
            yield None
            for data in some:
                last[topic_data.name, topic_data.topic_id, data.index] = data
    if len(last) == sum(len(topic_data.partition_data) for topic_data in request.topic_data):
        return
    for topic_data in request.topic_data:
        left: list[PartitionProduceData] = []
        for some in _some_at_a_time(topic_data):
            yield None
            left += [data for data in some if last[topic_data.name, topic_data.topic_id, data.index] is data]
        topic_data.partition_data = left


def _some_at_a_time(topic_data: TopicProduceData) -> Iterator[list[PartitionProduceData]]:
    for first in range(0, len(topic_data.partition_data), _MOST_AT_ONCE):
        yield topic_data.partition_data[first : first + _MOST_AT_ONCE]


def _is_short(node: Node, call: Call, request: ProduceRequest) -> bool:
    """Return whether there are few partitions, all with open logs."""
    count = 0
    for topic_data in request.topic_data:
        count += 1 + len(topic_data.partition_data)
        if count > _MOST_AT_ONCE:
            return False
        topic = _find_topic(node, call, topic_data)
        if not isinstance(topic, ErrorCode):
            for data in topic_data.partition_data:
                if topic.needs_opening(data.index):
                    return False
    return True


def _append_each(
    node: Node, call: Call, request: ProduceRequest, produce: _Produce, budget: Budget | None
) -> RequestSteps[None]:
    """Append one batch after the other, or fill in its refusal; then sync.

    Without a budget for the whole request each batch has its own, with pauses between them. The sync is one
    of these steps, because nothing follows them if the connection is lost, or if one of them fails: what was
    appended would be invisible to readers until the next append.
    """
    try:
        yield from _append_in_order(node, call, request, produce, budget)
    except BaseException:
        produce.sync()
        raise
    produce.sync()


def _append_in_order(
    node: Node, call: Call, request: ProduceRequest, produce: _Produce, budget: Budget | None
) -> RequestSteps[None]:
    if budget is None:
        yield from _drop_repeats(request)
        refusal = yield from _refuse_in_steps(request)
    else:
        refusal = _refuse(request, [data for topic in request.topic_data for data in topic.partition_data])
    for topic_data in request.topic_data:
        if not topic_data.partition_data:
            yield None
            continue
        answers = TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id)
        produce.response.responses.append(answers)
        topic = refusal or _find_topic(node, call, topic_data)
        for data in topic_data.partition_data:
            result = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.partition_responses.append(result)
            yield None
            if isinstance(topic, ErrorCode):
                result.error_code = topic
                continue
            found = _find_partition(call, topic, data)
            if isinstance(found, Partition):
                yield from opened_aside(found)
                produce.append(found, data.records or b"", budget or Budget(), result)
            else:
                _fill_in(result, found)


def _refuse_in_steps(request: ProduceRequest) -> RequestSteps[ErrorCode | None]:
    """Return why a whole long request is refused; None if it is not."""
    for topic_data in request.topic_data:
        yield None
        for some in _some_at_a_time(topic_data):
            yield None
            refusal = _refuse(request, some)
            if refusal is not None:
                return refusal
    return None


def _refuse(request: ProduceRequest, partitions: Iterable[PartitionProduceData]) -> ErrorCode | None:
    """Return why a whole request is refused, judged by these partitions of it; None if it is not."""
    if request.acks not in (ALL, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    if request.transactional_id is None and any(is_transactional(data.records) for data in partitions):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


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


def _find_partition(call: Call, topic: Topic, data: PartitionProduceData) -> Partition | AppendResult:
    """Return the partition to append to, or the refusal that precedes the check of the batch."""
    partition = topic.find_partition(data.index)
    if partition is None:
        return AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    records = data.records
    if not records:
        message = "There must be exactly one record batch per partition"
        return AppendResult(ErrorCode.INVALID_RECORD, message=message)
    if call.api_version < _ZSTD_SINCE and len(records) > _CODEC_AT and records[_CODEC_AT] & 7 == _ZSTD:
        return AppendResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return partition


def _fill_in(result: PartitionProduceResponse, outcome: AppendResult) -> None:
    result.error_code = outcome.error
    result.base_offset = outcome.base_offset
    result.log_append_time_ms = outcome.log_append_time_ms
    result.log_start_offset = outcome.log_start_offset
    result.error_message = outcome.message
    if outcome.record_errors:
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in outcome.record_errors
        ]


def needs(node: Node, call: Call, request: ProduceRequest) -> Iterator[Need]:
    """Return the needs: WRITE on the transactional id and on each topic."""
    if request.transactional_id is not None:
        yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id))
    yield from topic_needs(node, Operation.WRITE, request.topic_data)


def deny(node: Node, call: Call, request: ProduceRequest, error: ErrorCode) -> None:
    """Refuse the whole request; with acks=0 by closing the connection."""
    if request.acks:
        denials.deny(node, call, request, error)
    else:
        call.disconnect(f"a request to produce with acks=0: {error.name}")


API = Api(
    key=0,
    name="Produce",
    min_version=3,
    max_version=13,
    request_type=ProduceRequest,
    response_type=ProduceResponse,
    handle=handle,
    needs=needs,
    deny=deny,
    read_aside_bytes=_READ_ASIDE_BYTES,
)
