"""The check of a request against the access policy.

`Connection` checks each decoded request before its API handles it, unless the policy allows everything.
Repeated requests (`headgate.api.repeats`) are not checked again: a request is remembered only if it was
allowed, only for the principal that sent it, and only until the policy changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.api.contract import RequestSteps
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import Authorizer, Need, is_met
from headgate.security.principal import Principal
from headgate.security.resources import denied_error


def checking(
    authorizer: Authorizer, principal: Principal, needs: Iterable[Need]
) -> RequestSteps[ErrorCode | None]:
    """Check the needs in order. Return the error of the first one that is denied, or None."""
    for need in needs:
        if not is_met(authorizer, principal, need):
            return denied_error(need.resource)
        yield None
    return None
