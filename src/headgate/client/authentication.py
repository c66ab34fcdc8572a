"""Authentication of a connection by SASL, before its first other request (KIP-43, KIP-152)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeVar

from headgate.client.errors import AuthenticationFailed, AuthenticationInterrupted, VersionNotSupported
from headgate.client.security.mechanisms import Credentials
from headgate.client.security.scram import BadChallenge
from headgate.client.security.tokens import TokenFailed, TokenServerAway
from headgate.domain.errors import ErrorCode
from headgate.wire.message import Request, Response
from headgate.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.wire.messages.sasl_handshake import SaslHandshakeRequest

ResponseT = TypeVar("ResponseT", bound=Response)

LONGEST_REASON = 500
"""Characters of an error message of the other side that are shown."""
MESSAGES_AS_REQUESTS = 1
"""The version of SaslHandshake after which the messages of a mechanism are in requests of their own."""


class Asked(Protocol):
    """What is needed of a connection."""

    timeout_s: float

    @property
    def address(self) -> str:
        """`host:port` of the node."""
        ...

    def request(self, message: Request[ResponseT], version: int | None = None) -> ResponseT:
        """Send a request and wait for its response."""
        ...

    def version_for(self, request_type: type[Request[ResponseT]]) -> int:
        """Return the newest version that both sides support. Raises `VersionNotSupported`."""
        ...


def authenticate(node: Asked, credentials: Credentials) -> int:
    """Authenticate a connection; return how long that is valid, in ms; 0: for ever.

    Raises `AuthenticationFailed`; `AuthenticationInterrupted` if it may succeed later.
    """
    try:
        _choose_mechanism(node, credentials.mechanism)
        return _exchange(node, credentials.exchange(node.timeout_s))
    except VersionNotSupported as problem:
        raise AuthenticationFailed(_no_sasl(node)) from problem
    except TokenFailed as problem:
        failed = AuthenticationInterrupted if isinstance(problem, TokenServerAway) else AuthenticationFailed
        raise failed(f"no authentication at {node.address}: {_brief(str(problem))}") from problem
    except (BadChallenge, _Refused) as problem:
        credentials.refused()
        what = f"{node.address} does not accept {credentials.who} by {credentials.mechanism}"
        raise AuthenticationFailed(f"{what}: {_brief(str(problem))}") from problem


class _Refused(Exception):
    """The node refuses, with its reason."""


def _choose_mechanism(node: Asked, mechanism: str) -> None:
    node.version_for(SaslHandshakeRequest)  # a node without SASL closes the connection at such a request
    response = node.request(SaslHandshakeRequest(mechanism=mechanism), MESSAGES_AS_REQUESTS)
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(_no_sasl(node))
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = _brief(", ".join(response.mechanisms)) or "none"
        raise AuthenticationFailed(
            f"{node.address} does not offer {mechanism}; set sasl.mechanism to one that it offers: {offered}"
        )
    if response.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(f"{node.address} answers SaslHandshake with error {response.error_code}")


def _exchange(node: Asked, messages: Generator[bytes, bytes, None]) -> int:
    lifetime_ms = 0
    message = next(messages)
    while True:
        response = node.request(SaslAuthenticateRequest(auth_bytes=message))
        if response.error_code != ErrorCode.NONE:
            raise _Refused(response.error_message or f"error {response.error_code}")
        lifetime_ms = response.session_lifetime_ms
        try:
            message = messages.send(response.auth_bytes)
        except StopIteration:
            return lifetime_ms


def _brief(text: str) -> str:
    """Shorten a text that the other side has written."""
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def _no_sasl(node: Asked) -> str:
    return f"{node.address} has no SASL on this port; set security.protocol to PLAINTEXT or SSL"
