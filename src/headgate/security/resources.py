"""Operations and resources, with the numbers and names of Kafka's ACLs."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from headgate.domain.errors import ErrorCode


class Operation(IntEnum):
    """An operation on a resource (Kafka's `AclOperation`)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(IntEnum):
    """The type of a resource (Kafka's `org.apache.kafka.common.resource.ResourceType`)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(NamedTuple):
    """A topic, group or transactional id by its name, or the cluster."""

    resource_type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The only resource of its type, by Kafka's name."""

_ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def denied_error(resource: Resource) -> ErrorCode:
    """Return the error code for an operation denied on this resource."""
    return _ERRORS.get(resource.resource_type, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
