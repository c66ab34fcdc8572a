"""Messages that Kafka does not have, one module an API, written by hand like the generated ones beside them.

Their keys are above Kafka's and ApiVersions advertises them; clients that do not know a key pass over it.
"""

from __future__ import annotations

from headgate.wire.messages import APIS, ApiInfo

EXTENSIONS: dict[int, ApiInfo] = {
    20001: ApiInfo("PausePartitions", "pause_partitions", 0, 1, 1),
    20002: ApiInfo("ResumePartitions", "resume_partitions", 0, 1, 1),
    20003: ApiInfo("ListPausedPartitions", "list_paused_partitions", 0, 1, 1),
    20004: ApiInfo("DescribeOffsetHistory", "describe_offset_history", 0, 0, 0),
}

ALL_APIS: dict[int, ApiInfo] = {**APIS, **EXTENSIONS}
"""Kafka's and ours."""
