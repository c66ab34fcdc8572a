"""The mechanisms of SASL: the client's messages, each of which the server answers."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from dataclasses import dataclass, field

from headgate.client.security.scram import BadChallenge, scram
from headgate.client.security.tokens import ClientCredentials, TokenFailed, TokenSource, is_token

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_CONTROL_A = "\x01"

Exchange = Generator[bytes, bytes, None]
"""Yields the messages of the client; it is sent the server's. Raises `BadChallenge`."""


@dataclass(frozen=True, slots=True)
class Password:
    """A name and a password, for PLAIN or SCRAM."""

    mechanism: str
    name: str
    password: str = field(repr=False)

    @property
    def who(self) -> str:
        """Whom an error message names."""
        return f"user {self.name}"

    def exchange(self, timeout_s: float) -> Exchange:
        """Begin an authentication."""
        if self.mechanism == "PLAIN":
            return _plain(self.name, self.password)
        return scram(self.mechanism, self.name, self.password, secrets.token_urlsafe(24))

    def refused(self) -> None:
        """Take note that a broker refused them: the next authentication is the same."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Tokens, for OAUTHBEARER."""

    source: TokenSource
    mechanism: str = "OAUTHBEARER"

    @property
    def who(self) -> str:
        """Whom an error message names."""
        return "the bearer of the token"

    def exchange(self, timeout_s: float) -> Exchange:
        """Begin an authentication, for which a token is fetched. Raises `TokenFailed`."""
        token = self.source.token(timeout_s)
        if not is_token(token):
            raise TokenFailed("what the function returned is no token: that is one word of ASCII")
        return _bearer(token)

    def refused(self) -> None:
        """Take note that a broker refused them: the next authentication has a new token, if possible."""
        if isinstance(self.source, ClientCredentials):
            self.source.forget()


Credentials = Password | Bearer


def _plain(name: str, password: str) -> Exchange:
    yield f"\0{name}\0{password}".encode()


def _bearer(token: str) -> Exchange:
    """RFC 7628: an answer with text is an error, which the client confirms before the server refuses."""
    answer = yield f"n,,{_CONTROL_A}auth=Bearer {token}{_CONTROL_A}{_CONTROL_A}".encode()
    if answer:
        yield _CONTROL_A.encode()
        raise BadChallenge(f"the server refuses the token: {answer.decode(errors='replace')}")
