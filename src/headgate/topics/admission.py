"""Whether a producer's batch may enter a partition: the rules that need no producer state.

A well-formed batch is judged by its header alone. Only where there is more to ask (a compacted topic wants
keys, the topic limits old timestamps, the header tells of one too new) are the records looked at, and then
errors are told record by record.

Codes as Kafka answers them: bytes that changed on the way are CORRUPT_MESSAGE, bytes that arrived as sent
but break a rule INVALID_RECORD, a batch over `max.message.bytes` MESSAGE_TOO_LARGE, a timestamp out of
bounds INVALID_TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.domain.settings import LONG_MAX
from headgate.log.batch import BatchHeader, CorruptBatch, InvalidBatch, check_batches, iterate_records
from headgate.topics.policy import TopicPolicy

Buffer = bytes | bytearray | memoryview

_REPORTED_RECORD_ERRORS = 10_000
"""More errors than this of one batch are not listed: the batch is refused all the same."""


class RecordError(NamedTuple):
    """What is wrong with one record of a refused batch, by its place in the batch."""

    batch_index: int
    message: str


class AppendResult(NamedTuple):
    """What became of an append. Offsets and times are -1 where there are none.

    `base_offset` of a repeated batch is that of its first arrival. `log_append_time_ms` is set only where
    the topic stamps records by the broker's clock.
    """

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    message: str | None = None


def admit(data: Buffer, policy: TopicPolicy, now: Millis) -> BatchHeader | AppendResult:
    """The header of the one batch in `data` if it may be appended, else the refusal."""
    try:
        headers = check_batches(data)
    except InvalidBatch as problem:
        return _refused(ErrorCode.INVALID_RECORD, problem.reason)
    except CorruptBatch as problem:
        return _refused(ErrorCode.CORRUPT_MESSAGE, problem.reason)
    if len(headers) != 1:
        return _refused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests must have exactly one record batch per partition, not {len(headers)}",
        )
    header = headers[0]
    return _judge_header(header, policy, now) or _judge_records(data, header, policy, now) or header


def _judge_header(header: BatchHeader, policy: TopicPolicy, now: Millis) -> AppendResult | None:
    if header.size > policy.max_message_bytes:
        return _refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append is {header.size} bytes which exceeds the maximum "
            f"configured value of {policy.max_message_bytes}.",
        )
    if header.is_control:
        return _refused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.is_transactional:
        return _refused(ErrorCode.INVALID_TXN_STATE, "Transactions are not supported: no transaction is open")
    if header.base_offset != 0:
        return _refused(
            ErrorCode.INVALID_RECORD,
            f"The base offset of a produced batch must be 0, it is {header.base_offset}",
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return _refused(
            ErrorCode.INVALID_RECORD,
            f"Sequence {header.base_sequence} and epoch {header.producer_epoch} are no producer's",
        )
    if header.uses_log_append_time:
        return _refused(
            ErrorCode.INVALID_TIMESTAMP, "A producer must not set the timestamp type to log append time"
        )
    return None


def _judge_records(
    data: Buffer, header: BatchHeader, policy: TopicPolicy, now: Millis
) -> AppendResult | None:
    oldest, newest = now - policy.timestamp_before_max_ms, now + policy.timestamp_after_max_ms
    has_limit = policy.timestamp_before_max_ms < LONG_MAX
    checks_time = not policy.uses_log_append_time and (has_limit or header.max_timestamp > newest)
    if not policy.is_compacted and not checks_time:
        return None
    keyless: list[RecordError] = []
    out_of_time: list[RecordError] = []
    try:
        for index, (_, record) in enumerate(iterate_records(data)):
            if policy.is_compacted and record.key is None:
                keyless.append(RecordError(index, "Compacted topic cannot accept message without key"))
            if checks_time and not (oldest <= record.timestamp <= newest or record.timestamp < 0):
                message = f"Timestamp {record.timestamp} is not within [{oldest}, {newest}]"
                out_of_time.append(RecordError(index, message))
    except CorruptBatch as problem:
        return _refused(ErrorCode.INVALID_RECORD, problem.reason)
    for error, found in ((ErrorCode.INVALID_RECORD, keyless), (ErrorCode.INVALID_TIMESTAMP, out_of_time)):
        if found:
            message = f"One or more records have been rejected due to {len(found)} record errors in total"
            return AppendResult(error, record_errors=found[:_REPORTED_RECORD_ERRORS], message=message)
    return None


def _refused(error: ErrorCode, message: str) -> AppendResult:
    return AppendResult(error, message=message)
