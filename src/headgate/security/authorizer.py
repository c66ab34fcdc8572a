"""Who may do what: the protocol of an access policy, and the one policy there is, which allows everything.

A request is allowed or refused as a whole. The server asks the policy for every `Need` of the request and
refuses it over the first need that is denied, with the error of that need's resource. Kafka filters more
finely: it serves the allowed topics of a request and refuses the others, and it leaves out of an answer what
the request did not name and the principal may not see (groups in ListGroups, topics in the offsets of a whole
group, authorized operations). That is left to the handlers, once there is a policy with rules: `Call` tells
them the principal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from headgate.security.principal import Principal
from headgate.security.resources import Operation, Resource


class Need(NamedTuple):
    """One right that a request takes."""

    operation: Operation
    resource: Resource
    otherwise: Need | None = None
    """Another right that will do instead."""


class Authorizer(Protocol):
    """An access policy."""

    @property
    def allows_everything(self) -> bool:
        """Whether it never denies anything. Asked once a connection: then it is asked nothing else."""
        ...

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        """Whether the principal may do this. Called on the event loop: it must not block.

        What one right implies of others (in Kafka READ, WRITE, DELETE and ALTER imply DESCRIBE) is for the
        policy to say.
        """
        ...

    def when_changed(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop whenever an answer of `allows` may be another than before.

        Requests that were allowed are remembered and served again without another question, until then.
        """
        ...


class AllowAll:
    """The policy without rules; an `Authorizer`."""

    allows_everything = True

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        """Allow it."""
        return True

    def when_changed(self, action: Callable[[], None]) -> None:
        """Never call it."""


ALLOW_ALL: Final = AllowAll()


def is_met(authorizer: Authorizer, principal: Principal, need: Need) -> bool:
    """Whether the principal has the right, or one that will do instead."""
    wanted: Need | None = need
    while wanted is not None:
        if authorizer.allows(principal, wanted.operation, wanted.resource):
            return True
        wanted = wanted.otherwise
    return False
