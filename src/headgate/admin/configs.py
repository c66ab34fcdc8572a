"""The operations of the Admin API on settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.admin.checking import checked
from headgate.client import resource_configs
from headgate.client.cluster import Cluster
from headgate.client.errors import RequestRefused
from headgate.client.resource_configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.unknown_settings import unknown_setting


@checked
class ConfigAdmin:
    """Settings of topics, brokers and groups; the part of `headgate.admin.Admin` for them."""

    cluster: Cluster

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, documented: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Return the settings of resources, each sorted by name; with `documented` what they mean, too.

        Raises `RequestRefused` for one that does not exist. Any group has settings, also one that does not
        exist.
        """
        return resource_configs.describe_configs(self.cluster, resources, documented=documented)

    def topic_config(self, topic: str) -> dict[str, str | None]:
        """Return the settings of one topic by name. Raises `RequestRefused` if it does not exist."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return {one.name: one.value for one in self.describe_configs([resource])[resource]}

    def alter_configs(
        self, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change settings of a resource, all or none; with `validate_only` only check the changes.

        Raises `RequestRefused` (INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION), whose message names the setting.
        """
        resource_configs.alter_configs(self.cluster, resource, changes, validate_only=validate_only)

    def set_topic_config(self, topic: str, values: Mapping[str, str | None]) -> None:
        """Set settings of one topic, all or none; None: the broker's value applies again.

        Raises `RequestRefused` (INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION), also for None if there is no
        such setting, which brokers accept.
        """
        resource = ConfigResource(ResourceType.TOPIC, topic)
        if removed := [name for name, value in values.items() if value is None]:
            self._refuse_unknown(resource, removed)
        changes = [
            ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
            for name, value in values.items()
        ]
        self.alter_configs(resource, changes)

    def _refuse_unknown(self, resource: ConfigResource, names: Iterable[str]) -> None:
        """Raise `RequestRefused` for a setting that the resource has not got, as brokers do for a value."""
        known = {one.name for one in self.describe_configs([resource])[resource]}
        for name in names:
            if name not in known:
                reason = unknown_setting(name, known)
                raise RequestRefused(str(resource), ErrorCode.INVALID_CONFIG, reason)

    def list_config_resources(self, kind: ResourceType) -> list[str]:
        """Return the names of the resources of a kind that have settings of their own, sorted.

        Raises `VersionNotSupported` if the cluster cannot list them (before Kafka 4.1).
        """
        return resource_configs.list_config_resources(self.cluster, kind)

    def broker_ids(self) -> list[int]:
        """Return the node ids of the brokers, sorted."""
        return sorted(broker.node_id for broker in self.cluster.metadata([]).brokers)
