"""Check a producer's batch before it is appended.

Its sequence is checked in `producers.py`, its transaction in `transactions.py`.

As in Kafka, every batch is checked, whoever sent it: consumers, ListOffsets and compaction must be able to
read every accepted batch. The errors are Kafka's:

1. Bytes without a whole batch, with more than one batch, or with a batch of another format are
   INVALID_RECORD. Bytes that cannot be a batch, and a batch with a wrong checksum, are CORRUPT_MESSAGE.
   Trailing bytes that are no whole batch are dropped.
2. A batch over `max.message.bytes` is MESSAGE_TOO_LARGE, one over `segment.bytes` RECORD_LIST_TOO_LARGE.
3. Header and records must agree (`log/record_check.py`), else INVALID_RECORD. In a compacted topic every
   record must have a key; the answer lists the records without one.
4. A timestamp outside the topic's bounds is INVALID_TIMESTAMP; the answer lists the records. -1 means no
   timestamp. A wrong maximum timestamp in the header is corrected.
5. If the topic's `compression.type` is not `producer`, batches with another codec are recompressed.

Differences from Kafka: Kafka answers UNKNOWN_SERVER_ERROR for records that do not decompress, for an unknown
codec, and for compressed records whose offset deltas do not count up from 0; here these are INVALID_RECORD.
Kafka accepts such deltas without compression, and keys or values with a length below -1; here they are
INVALID_RECORD; so is a transactional batch without a producer id. A batch with the timestamp type log append
time is refused in every topic. A batch that decompresses to more than `log/compression.py` reads is
MESSAGE_TOO_LARGE, so that the producer splits it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    InvalidBatch,
    read_header,
    records_of,
)
from headgate.log.compression import unpack
from headgate.log.header import (
    CODEC_MASK,
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    UnpacksToMore,
    set_max_timestamp,
)
from headgate.log.recompression import with_codec
from headgate.log.record_check import RecordCheck, check_records
from headgate.topics.policy import TopicPolicy

Buffer = bytes | bytearray | memoryview

_REPORTED_RECORD_ERRORS = 1000
"""At most so many record errors are listed for one batch. The batch is refused in any case."""
_UP_TO_MAGIC_BYTES = 17
_SMALLEST_LENGTH = 14
"""The smallest value that Kafka accepts in the length field of a batch of any format."""
_LARGEST_CODEC = 4
_SMALLEST_RECORD_BYTES = 7
_WITHOUT_LOG_START = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
)
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class RecordError(NamedTuple):
    """An error in one record of a refused batch. `batch_index` is the record's index in the batch."""

    batch_index: int
    message: str


class AppendResult(NamedTuple):
    """The result of an append. Offsets and times are -1 where there are none.

    `base_offset` of a duplicate is that of the batch it repeats. `log_append_time_ms` is set only for topics
    with the timestamp type log append time.
    """

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    message: str | None = None
    has_log_start: bool = False
    """Whether a refusal carries the log start offset: it does if the batch was refused for its contents."""


class Admitted(NamedTuple):
    """A batch that may be appended: its bytes, with offsets not yet assigned, and its header."""

    batch: bytearray
    header: BatchHeader


class _Refused(Exception):
    """The batch is refused."""

    def __init__(self, error: ErrorCode, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        has_log_start = error not in _WITHOUT_LOG_START
        self.result = AppendResult(
            error, message=message, record_errors=record_errors, has_log_start=has_log_start
        )


def admit(
    data: Buffer,
    policy: TopicPolicy,
    now: Millis,
    *,
    pause: Callable[[], None] | None = None,
    unpacked_bytes: int | None = None,
) -> Admitted | AppendResult:
    """Check the one batch in `data` and return it as it is to be written, or the refusal.

    `pause` is called from time to time while many records are checked. If `unpacked_bytes` is given, raise
    UnpacksToMore for records that decompress to more bytes than that; otherwise such a batch is refused.
    """
    try:
        header = _only_batch(data)
    except _Refused as refused:
        return refused.result._replace(has_log_start=False)
    try:
        _check_header(data, header, policy)
        return _look_inside(data, header, policy, now, pause, unpacked_bytes)
    except _Refused as refused:
        return refused.result
    except UnpacksToMore as problem:
        if unpacked_bytes is not None:
            raise
        return AppendResult(ErrorCode.MESSAGE_TOO_LARGE, message=problem.reason)
    except CorruptBatch as problem:
        return AppendResult(ErrorCode.INVALID_RECORD, message=problem.reason, has_log_start=True)


def weight_of(data: Buffer, policy: TopicPolicy) -> int:
    """Estimate the cost of `admit` from the header, in units of about 50 ns of compiled code."""
    size = len(data)
    weight = 32 + (size >> 10)
    if size < HEADER_BYTES:
        return weight
    claimed = int.from_bytes(data[HEADER_BYTES - 4 : HEADER_BYTES], "big", signed=True)
    codec = data[CRC_END + 1] & CODEC_MASK
    if codec:
        weight += max(claimed, 0) + (size >> 6)
    else:
        weight += min(max(claimed, 0), size // _SMALLEST_RECORD_BYTES)
    if policy.codec not in (None, codec):
        weight += size >> 3
    return weight


def _only_batch(data: Buffer) -> BatchHeader:
    """Return the header of the batch; raise _Refused unless `data` holds exactly one batch."""
    size = _whole_batch_at(data, 0)
    if size is None:
        raise _Refused(
            ErrorCode.INVALID_RECORD, "Produce requests must have exactly one record batch per partition"
        )
    if data[16] != MAGIC:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests may only contain record batches with magic version {MAGIC}, not {data[16]}",
        )
    if len(data) > size and _whole_batch_at(data, size) is not None:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            "Produce requests must have exactly one record batch per partition, not several",
        )
    if size < HEADER_BYTES:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, f"A batch of {size} bytes is smaller than its own header")
    return read_header(data)


def _whole_batch_at(data: Buffer, at: int) -> int | None:
    """Return the size of the batch at `at`, None if the bytes end within it; raise _Refused if it is no
    batch.
    """
    left = len(data) - at
    if left < LENGTH_FIELD_END:
        return None
    length = int.from_bytes(data[at + 8 : at + LENGTH_FIELD_END], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        raise _Refused(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})",
        )
    if left < _UP_TO_MAGIC_BYTES:
        return None
    magic = data[at + 16]
    if magic > MAGIC:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size = length + LENGTH_FIELD_END
    return size if size <= left else None


def _check_header(data: Buffer, header: BatchHeader, policy: TopicPolicy) -> None:
    """Check the header and the checksum, in Kafka's order; raise _Refused."""
    if header.base_offset != 0:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"The base offset of a produced batch must be 0, it is {header.base_offset}",
        )
    _check_size(header.size, policy)
    computed = crc32c(memoryview(data)[CRC_END : header.size])
    if computed != header.crc:
        raise _Refused(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})",
        )
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"A batch of {header.record_count} records cannot end at offset delta {header.last_offset_delta}",
        )
    if header.codec > _LARGEST_CODEC:
        raise _Refused(ErrorCode.INVALID_RECORD, f"Compression codec {header.codec} is unknown")
    if header.is_control:
        raise _Refused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}",
        )
    if header.is_transactional and header.producer_id < 0:
        raise _Refused(ErrorCode.INVALID_RECORD, "A transactional batch must have a producer id")
    if header.uses_log_append_time:
        raise _Refused(
            ErrorCode.INVALID_TIMESTAMP, "A producer must not set the timestamp type to log append time"
        )


def _check_size(size: int, policy: TopicPolicy) -> None:
    if size > policy.max_message_bytes:
        raise _Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append is {size} bytes which exceeds the maximum "
            f"configured value of {policy.max_message_bytes}.",
        )
    if size > policy.segment_bytes:
        raise _Refused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes, which exceeds the maximum configured segment size of "
            f"{policy.segment_bytes}.",
        )


def _look_inside(
    data: Buffer,
    header: BatchHeader,
    policy: TopicPolicy,
    now: Millis,
    pause: Callable[[], None] | None,
    unpacked_bytes: int | None,
) -> Admitted:
    """Check the records, and return the batch to append; raise _Refused, CorruptBatch."""
    batch = bytearray(memoryview(data)[: header.size])
    if header.codec:
        body: Buffer = unpack(header.codec, memoryview(data)[HEADER_BYTES : header.size], unpacked_bytes)
        found = check_records(body, 0, header.record_count, pause)
    elif isinstance(data, bytes) and len(data) == header.size:
        body = memoryview(data)[HEADER_BYTES:]
        found = check_records(data, HEADER_BYTES, header.record_count, pause)
    else:
        body = memoryview(batch)[HEADER_BYTES:]
        found = check_records(body, 0, header.record_count, pause)
    if not found.is_contiguous:
        raise InvalidBatch(f"the offset deltas of {header.record_count} records do not count up from 0")
    _check_records(body, header, found, policy, now)
    max_timestamp = max(header.base_timestamp + found.largest_timestamp_delta, -1)
    if policy.codec is not None and policy.codec != header.codec:
        _check_size_unpacked(len(body), policy)
        batch = with_codec(
            header._replace(max_timestamp=max_timestamp), body, policy.codec, policy.codec_level
        )
        _check_size(len(batch), policy)
        return Admitted(batch, read_header(batch))
    if max_timestamp != header.max_timestamp and not policy.uses_log_append_time:
        set_max_timestamp(batch, 0, max_timestamp)
        header = read_header(batch)
    return Admitted(batch, header)


def _check_size_unpacked(size: int, policy: TopicPolicy) -> None:
    """Refuse a batch that will be too large without compression before it is copied."""
    if policy.codec == 0:
        _check_size(HEADER_BYTES + size, policy)


def _check_records(
    body: Buffer, header: BatchHeader, found: RecordCheck, policy: TopicPolicy, now: Millis
) -> None:
    """Check timestamps and keys against the topic's policy; raise _Refused."""
    oldest = max(now - policy.timestamp_before_max_ms, _LEAST)
    newest = min(now + policy.timestamp_after_max_ms, _GREATEST)
    if policy.uses_log_append_time:
        oldest, newest = _LEAST, _GREATEST
    first = header.base_timestamp + found.smallest_timestamp_delta
    last = header.base_timestamp + found.largest_timestamp_delta
    lacks_keys = policy.is_compacted and found.keyless > 0
    if oldest <= first and last <= newest and not lacks_keys:
        return
    errors: list[RecordError] = []
    error = ErrorCode.INVALID_RECORD
    for index, (_, record) in enumerate(records_of(header, bytes(body))):
        if lacks_keys and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif not oldest <= record.timestamp <= newest and record.timestamp != NO_TIMESTAMP:
            error = ErrorCode.INVALID_TIMESTAMP
            errors.append(
                RecordError(
                    index,
                    f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
                    f"The timestamp should be within [{oldest}, {newest}]",
                )
            )
        if len(errors) == _REPORTED_RECORD_ERRORS:
            break
    if error == ErrorCode.INVALID_TIMESTAMP:
        raise _Refused(error, "One or more records have been rejected due to invalid timestamp", errors)
    if errors:
        message = f"One or more records have been rejected due to {len(errors)} record errors in total"
        raise _Refused(error, message, errors)
