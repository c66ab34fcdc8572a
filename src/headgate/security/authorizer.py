"""The protocol of an access policy, and the only policy so far, which allows everything.

A request is allowed or denied as a whole. The server asks the policy for every `Need` of the request. It
denies the request at the first denied need, with the error code of that need's resource. Kafka decides for
each resource: it serves the allowed topics of a request and denies the others, and it omits from a response
what the request did not name and the principal may not see (groups in ListGroups, topics in the offsets of a
whole group, authorized operations). Handlers can do so when there is a policy with rules: `Call` has the
principal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from headgate.security.principal import Principal
from headgate.security.resources import Operation, Resource


class Need(NamedTuple):
    """A right that a request needs."""

    operation: Operation
    resource: Resource
    otherwise: Need | None = None
    """Another right that suffices instead."""


class Authorizer(Protocol):
    """An access policy."""

    @property
    def allows_everything(self) -> bool:
        """Whether the policy never denies anything. A connection reads it once and then skips `allows`."""
        ...

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        """Tell whether the principal may do this. Called on the event loop: it must not block.

        The policy decides which rights imply others (in Kafka READ, WRITE, DELETE and ALTER imply DESCRIBE).
        """
        ...

    def when_changed(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop whenever the result of `allows` may have changed.

        The server caches allowed requests, and serves them without calling `allows`, until then.
        """
        ...


class AllowAll:
    """The policy without rules; an `Authorizer`."""

    allows_everything = True

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        """Return True."""
        return True

    def when_changed(self, action: Callable[[], None]) -> None:
        """Do nothing: the policy never changes."""


ALLOW_ALL: Final = AllowAll()


def is_met(authorizer: Authorizer, principal: Principal, need: Need) -> bool:
    """Tell whether the principal has the right, or another one that suffices."""
    wanted: Need | None = need
    while wanted is not None:
        if authorizer.allows(principal, wanted.operation, wanted.resource):
            return True
        wanted = wanted.otherwise
    return False
