"""Messages of APIs that Kafka does not have: one module for each API, written by hand in the generated form.

Their API keys are greater than Kafka's. ApiVersions advertises them; clients ignore keys that they do not
know.
"""

from __future__ import annotations

from headgate.wire.messages import APIS, ApiInfo

EXTENSIONS: dict[int, ApiInfo] = {
    20001: ApiInfo("PausePartitions", "pause_partitions", 0, 1, 1),
    20002: ApiInfo("ResumePartitions", "resume_partitions", 0, 1, 1),
    20003: ApiInfo("ListPausedPartitions", "list_paused_partitions", 0, 1, 1),
    20004: ApiInfo("DescribeOffsetHistory", "describe_offset_history", 0, 1, 0),
    20005: ApiInfo("DescribeOffsetExpiry", "describe_offset_expiry", 0, 0, 0),
    20006: ApiInfo("ListExpiringGroups", "list_expiring_groups", 0, 0, 0),
    20007: ApiInfo("DescribeShareDeliveries", "describe_share_deliveries", 0, 0, 0),
    20008: ApiInfo("AlterShareDeliveries", "alter_share_deliveries", 0, 0, 0),
}

ALL_APIS: dict[int, ApiInfo] = {**APIS, **EXTENSIONS}
"""Kafka's APIs and Headgate's."""
