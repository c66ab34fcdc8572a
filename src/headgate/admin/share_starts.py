"""The start offsets that a change of a share group sets: those asked for, moved into the logs.

A start beyond the end of a log would be worse than a committed offset there: no member notices it, and the
records up to it are never delivered.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.admin.reset import PlannedOffset, ToOffsets, plan
from headgate.admin.rewind import system_time
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError, RequestRefused
from headgate.client.survey import Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicPartition


def plan_starts(cluster: Cluster, starts: Mapping[TopicPartition, int]) -> list[PlannedOffset]:
    """Return the start offset of each partition, sorted; `asked_for` has the one that was asked for.

    A partition that does not exist is planned as asked for: the coordinator refuses it, and it alone.
    """
    survey = Survey(cluster)

    def offsets_at(timestamp: int) -> dict[TopicPartition, int]:
        return _existing(survey.offsets_at(starts, timestamp))

    return plan(ToOffsets(starts), starts, {}, offsets_at, system_time())


def _existing(found: Mapping[TopicPartition, int | ClientError]) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for partition, offset in found.items():
        if not isinstance(offset, ClientError):
            offsets[partition] = offset
        elif not _is_unknown(offset):
            raise offset
    return offsets


def _is_unknown(error: ClientError) -> bool:
    return isinstance(error, RequestRefused) and error.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
