"""Settings of a broker, as it reports them, and changes of the settings of groups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from headgate.client.cluster import Cluster
from headgate.client.errors import VersionNotSupported, check
from headgate.domain.ids import GroupId
from headgate.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.wire.messages.list_config_resources import ListConfigResourcesRequest

_BROKER = 4
_GROUP = 32
_OF_A_GROUP = 8
"""Kafka's number for the source of a value that a group has itself."""
_GROUPS_A_REQUEST = 500
_SET, _DELETE = 0, 1


def broker_setting(cluster: Cluster, name: str) -> str | None:
    """Return the value of a setting, of any broker of the cluster; None if it has no such setting."""

    def attempt() -> str | None:
        broker = min(each.node_id for each in cluster.metadata([]).brokers)
        resource = DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(broker), configuration_keys=[name]
        )
        response = cluster.any_node().request(DescribeConfigsRequest(resources=[resource]))
        (result,) = response.results
        check(f"the settings of broker {broker}", result.error_code, result.error_message)
        return next((config.value for config in result.configs if config.name == name), None)

    return cluster.retrying(attempt)


def own_settings_of_groups(cluster: Cluster, name: str) -> dict[GroupId, str]:
    """Return the values of a setting of those groups that have one of their own.

    A cluster that cannot list the groups with settings has none. Raises `RequestRefused` for a group whose
    settings are not told.
    """

    def list_groups() -> list[str]:
        response = cluster.any_node().request(ListConfigResourcesRequest(resource_types=[_GROUP]))
        check("the groups with settings", response.error_code, None)
        return [one.resource_name for one in response.config_resources if one.resource_type == _GROUP]

    def describe(groups: list[str]) -> dict[GroupId, str]:
        resources = [
            DescribeConfigsResource(resource_type=_GROUP, resource_name=group, configuration_keys=[name])
            for group in groups
        ]
        response = cluster.any_node().request(DescribeConfigsRequest(resources=resources))
        for result in response.results:
            check(f"the settings of group {result.resource_name}", result.error_code, result.error_message)
        return {
            GroupId(result.resource_name): config.value
            for result in response.results
            for config in result.configs
            if config.name == name and config.config_source == _OF_A_GROUP and config.value is not None
        }

    try:
        groups = cluster.retrying(list_groups)
    except VersionNotSupported:
        return {}
    found: dict[GroupId, str] = {}
    for at in range(0, len(groups), _GROUPS_A_REQUEST):
        found |= cluster.retrying(partial(describe, groups[at : at + _GROUPS_A_REQUEST]))
    return found


def alter_group_settings(cluster: Cluster, group_id: GroupId, values: Mapping[str, str | None]) -> None:
    """Set settings of a group, which need not exist; None: the broker's value applies again.

    Raises `RequestRefused` (INVALID_CONFIG, INVALID_REQUEST), whose message names the setting.
    """
    changes = [
        AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group_id, configs=changes)

    def attempt() -> None:
        response = cluster.any_node().request(IncrementalAlterConfigsRequest(resources=[resource]))
        (result,) = response.responses
        check(f"the settings of group {group_id}", result.error_code, result.error_message)

    cluster.retrying(attempt)
