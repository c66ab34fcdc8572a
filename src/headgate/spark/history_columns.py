"""Offset commits from the history: records that compaction removed from the coordinator's log.

A record of `__consumer_offsets_history` is one of the log with an appended header: its offset and timestamp
in the log (`headgate.records.history`). With these it becomes a row like any other of the log.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import gather, only
from headgate.records.history import ORIGIN_BYTES, ORIGIN_KEY
from headgate.spark import commit_columns
from headgate.spark.arrow import Rows


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return the offset commits as `schemas.OFFSET_COMMITS`, with their original positions."""
    return commit_columns.rows(_as_they_stood(records), where)


def _as_they_stood(records: Records) -> Records:
    """Return the records with an origin, with its offset and timestamp in place of their own."""
    headers, _ = read_headers(records.payload, records.headers_at, records.headers_end, records.header_count)
    origin = (headers.key_size == len(ORIGIN_KEY)) & (headers.value_size == ORIGIN_BYTES)
    octets = np.frombuffer(records.payload, np.uint8)
    name = np.frombuffer(ORIGIN_KEY, np.uint8)
    candidates = np.flatnonzero(origin)
    spelt = octets[headers.key_at[candidates][:, None] + np.arange(len(name))]
    found = candidates[(spelt == name).all(axis=1)]
    row, at = headers.row[found], headers.value_at[found]
    offset, timestamp_ms = records.offset.copy(), records.timestamp_ms.copy()
    has_origin = np.zeros(len(records), np.bool_)
    offset[row] = gather(records.payload, ">i8", at)
    timestamp_ms[row] = gather(records.payload, ">i8", at + 8)
    has_origin[row] = True
    moved = replace(records, offset=offset, timestamp_ms=timestamp_ms)
    return only(moved, has_origin)
