"""Principals, resources and rights: Kafka's names and numbers, and the error codes of denied rights."""

from __future__ import annotations

import pytest

from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import ALLOW_ALL, Authorizer, Need, is_met
from headgate.security.principal import ANONYMOUS, Principal
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType, denied_error

TOPIC = Resource(ResourceType.TOPIC, "t")
CREATE = Need(Operation.CREATE, TOPIC, Need(Operation.CREATE, CLUSTER))


class Only:
    """A policy that allows the given rights only."""

    allows_everything = False

    def __init__(self, *rights: tuple[Operation, Resource]) -> None:
        self._rights = rights

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return (operation, resource) in self._rights

    def when_changed(self, action: object) -> None:
        """Do nothing: the policy never changes."""


def test_names_and_numbers_are_those_of_kafka() -> None:
    """`AclOperation`, `ResourceType`, the cluster and the anonymous principal."""
    operations = "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS"
    operations += " ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS"
    assert [one.name for one in sorted(Operation)] == operations.split()
    types = "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
    assert [one.name for one in sorted(ResourceType)] == types.split()
    assert sorted(Operation) == list(range(15))
    assert sorted(ResourceType) == list(range(8))
    assert CLUSTER == (ResourceType.CLUSTER, "kafka-cluster")
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("policy", "is_allowed"),
    [
        (Only(), False),
        (Only((Operation.CREATE, TOPIC)), True),
        (Only((Operation.CREATE, CLUSTER)), True),
        (Only((Operation.DELETE, TOPIC), (Operation.CREATE, Resource(ResourceType.TOPIC, "u"))), False),
        (ALLOW_ALL, True),
    ],
    ids=["nothing", "itself", "instead", "another", "everything"],
)
def test_a_need_is_met_by_its_right_or_by_one_that_suffices_instead(
    policy: Authorizer, is_allowed: bool
) -> None:
    """Other rights do not meet it."""
    assert is_met(policy, ANONYMOUS, CREATE) == is_allowed


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Resource(ResourceType.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Resource(ResourceType.TRANSACTIONAL_ID, "x"), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_a_denied_right_has_the_error_of_its_resource(resource: Resource, error: ErrorCode) -> None:
    """Clients learn from the error code which type of resource was denied."""
    assert denied_error(resource) == error
