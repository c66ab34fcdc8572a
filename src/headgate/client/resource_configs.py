"""Settings of topics, brokers, groups and other resources: describing and altering them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.client.errors import BadResponse, RequestRefused, check
from headgate.domain.errors import ErrorCode
from headgate.wire.messages import describe_configs as wire
from headgate.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.wire.messages.list_config_resources import ListConfigResourcesRequest


class ResourceType(IntEnum):
    """The kinds of resources that have settings, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource that has settings. A broker is named by its node id; "": the default of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", "-")
        return f"{kind} {self.name}" if self.name else f"the default of {kind}s"


class ConfigOperation(IntEnum):
    """What a change does to a setting."""

    SET = 0
    DELETE = 1
    """The value of the next level applies again: the broker's, or the default."""
    APPEND = 2
    """Add to a list."""
    SUBTRACT = 3
    """Remove from a list."""


class ConfigChange(NamedTuple):
    """A change of one setting."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ConfigSynonym(NamedTuple):
    """A level at which a setting has a value, and that value; None: it is secret."""

    source: str
    name: str
    value: str | None


HIDDEN = "[hidden]"
_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|jaas\.config|(keystore|private)\.key|credential|sasl\.oauthbearer\..*token",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Tell whether the value of a setting must not be shown, by its name: a password, a key, a JAAS line."""
    return _SECRET.search(name) is not None


_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_OWN = {
    ResourceType.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ResourceType.BROKER: "DYNAMIC_BROKER_CONFIG",
    ResourceType.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ResourceType.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ResourceType.GROUP: "DYNAMIC_GROUP_CONFIG",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting of a resource, with where its value comes from."""

    name: str
    value: str | None
    """None: it is secret, or not set."""
    source: str
    """`DYNAMIC_TOPIC_CONFIG`, `STATIC_BROKER_CONFIG`, `DEFAULT_CONFIG`, ...: Kafka's names."""
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    """All levels at which it has a value, the one that applies first."""
    documentation: str | None
    is_own: bool
    """Whether the resource itself has the value."""


def list_config_resources(cluster: Cluster, kind: ResourceType) -> list[str]:
    """Return the names of the resources of a kind that have settings of their own, sorted.

    Raises `VersionNotSupported` if the cluster cannot list them.
    """

    def attempt() -> list[str]:
        response = cluster.any_node().request(ListConfigResourcesRequest(resource_types=[kind]))
        check(f"the {kind.name.lower()}s with settings", response.error_code)
        found = response.config_resources
        return sorted(one.resource_name for one in found if one.resource_type == kind)

    return cluster.retrying(attempt)


def describe_configs(
    cluster: Cluster, resources: Iterable[ConfigResource], *, documented: bool = False
) -> dict[ConfigResource, list[ConfigEntry]]:
    """Return the settings of resources, in the given order, each sorted by name.

    Raises `RequestRefused` (UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST for an unknown broker).
    """
    wanted = list(dict.fromkeys(resources))

    def attempt() -> dict[ConfigResource, list[ConfigEntry]]:
        found: dict[ConfigResource, list[ConfigEntry]] = {}
        for node, some in _by_node(cluster, wanted).items():
            asked = [
                wire.DescribeConfigsResource(
                    resource_type=one.type, resource_name=one.name, configuration_keys=None
                )
                for one in some
            ]
            request = wire.DescribeConfigsRequest(
                resources=asked, include_synonyms=True, include_documentation=documented
            )
            for result in node.request(request).results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                check(str(resource), result.error_code, result.error_message)
                entries = sorted(result.configs, key=lambda one: one.name)
                found[resource] = [_entry(resource, one) for one in entries]
        missing = [one for one in wanted if one not in found]
        if missing:
            raise BadResponse(f"the response to DescribeConfigs lacks {missing[0]}")
        return {resource: found[resource] for resource in wanted}

    return cluster.retrying(attempt)


def _entry(resource: ConfigResource, one: wire.DescribeConfigsResourceResult) -> ConfigEntry:
    source = _SOURCES.get(one.config_source, f"UNKNOWN({one.config_source})")
    is_hidden = one.is_sensitive or is_secret(one.name)
    is_default_of_all = resource.type == ResourceType.BROKER and not resource.name
    own = "DYNAMIC_DEFAULT_BROKER_CONFIG" if is_default_of_all else _OWN[resource.type]
    return ConfigEntry(
        name=one.name,
        value=None if is_hidden else one.value,
        source=source,
        is_sensitive=is_hidden,
        is_read_only=one.read_only,
        synonyms=tuple(
            ConfigSynonym(
                _SOURCES.get(each.source, f"UNKNOWN({each.source})"),
                each.name,
                None if is_hidden else each.value,
            )
            for each in one.synonyms
        ),
        documentation=one.documentation,
        is_own=source == own,
    )


def alter_configs(
    cluster: Cluster,
    resource: ConfigResource,
    changes: Iterable[ConfigChange],
    *,
    validate_only: bool = False,
) -> None:
    """Change settings of a resource, all or none. Raises `RequestRefused`, whose message names the setting.

    Refusals are INVALID_CONFIG, INVALID_REQUEST and UNKNOWN_TOPIC_OR_PARTITION.
    """
    altered = [
        AlterableConfig(name=one.name, config_operation=one.operation, value=one.value) for one in changes
    ]
    each = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=altered)
    request = IncrementalAlterConfigsRequest(resources=[each], validate_only=validate_only)

    def attempt() -> None:
        ((node, _),) = _by_node(cluster, [resource]).items()
        (result,) = node.request(request).responses
        check(str(resource), result.error_code, _without_secrets(result.error_message, altered))

    cluster.retrying(attempt)


def _without_secrets(text: str | None, changes: Iterable[AlterableConfig]) -> str | None:
    """Return a message of a broker without the secret values that were sent to it."""
    for one in changes:
        if text and one.value and is_secret(one.name):
            text = text.replace(one.value, HIDDEN)
    return text


def _by_node(cluster: Cluster, resources: Iterable[ConfigResource]) -> dict[Connection, list[ConfigResource]]:
    """Return the resources that each node answers for: a broker for its own, any node for the others."""
    addresses = {str(one.node_id): (one.host, one.port) for one in cluster.metadata([]).brokers}
    found: dict[Connection, list[ConfigResource]] = {}
    for resource in resources:
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
            if resource.name not in addresses:
                known = ", ".join(sorted(addresses))
                code = ErrorCode.BROKER_ID_NOT_REGISTERED
                raise RequestRefused(f"broker {resource.name}", code, f"the brokers are {known}")
            node = cluster.node_at(addresses[resource.name])
        else:
            node = cluster.any_node()
        found.setdefault(node, []).append(resource)
    return found


def values_of(entries: Iterable[ConfigEntry]) -> Mapping[str, str | None]:
    """Return the values by name."""
    return {entry.name: entry.value for entry in entries}
