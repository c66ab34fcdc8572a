"""Every API this node speaks. What is not here is not advertised, and what is advertised is here."""

from __future__ import annotations

from headgate.api import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k33_alter_configs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k42_delete_groups,
    k44_incremental_alter_configs,
    k46_list_partition_reassignments,
    k47_offset_delete,
    k60_describe_cluster,
    k74_list_config_resources,
    k75_describe_topic_partitions,
    k20004_describe_offset_history,
)
from headgate.api.contract import Api

_APIS: tuple[Api, ...] = (
    k00_produce.API,
    k01_fetch.API,
    k02_list_offsets.API,
    k03_metadata.API,
    k08_offset_commit.API,
    k09_offset_fetch.API,
    k10_find_coordinator.API,
    k11_join_group.API,
    k12_heartbeat.API,
    k13_leave_group.API,
    k14_sync_group.API,
    k15_describe_groups.API,
    k16_list_groups.API,
    k19_create_topics.API,
    k20_delete_topics.API,
    k21_delete_records.API,
    k22_init_producer_id.API,
    k23_offset_for_leader_epoch.API,
    k32_describe_configs.API,
    k33_alter_configs.API,
    k35_describe_log_dirs.API,
    k37_create_partitions.API,
    k42_delete_groups.API,
    k44_incremental_alter_configs.API,
    k46_list_partition_reassignments.API,
    k47_offset_delete.API,
    k60_describe_cluster.API,
    k74_list_config_resources.API,
    k75_describe_topic_partitions.API,
    k20004_describe_offset_history.API,
)


def apis_by_key() -> dict[int, Api]:
    """The registrations by API key, ApiVersions among them, made from the others."""
    return {api.key: api for api in (*_APIS, k18_api_versions.api_versions(_APIS))}
