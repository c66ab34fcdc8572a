"""The tokens of OAUTHBEARER: from a file, from an OAuth server, or unsecured ones for tests."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol
from urllib.parse import quote_plus, urlencode, urlsplit

from headgate.client.security.problem import SecurityProblem

LARGEST_ANSWER_BYTES = 1 << 20
_USED_SHARE = 0.8
"""The share of its lifetime for which a token is used for new connections."""
_UNSECURED_LIFETIME_S = 3600


class TokenFailed(Exception):
    """There is no token. The message names the file or the server, and the reason."""


class TokenSource(Protocol):
    """Where tokens come from."""

    def token(self, timeout_s: float) -> str:
        """Return a valid token. Raises `TokenFailed`."""
        ...


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token without a signature, which brokers accept in tests only."""

    principal: str

    def token(self, timeout_s: float) -> str:
        """Return a token of this principal that is valid for an hour."""
        now = int(time.time())
        claims = {"sub": self.principal, "iat": now, "exp": now + _UNSECURED_LIFETIME_S}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token in a file, which is read for each connection, because others renew it."""

    path: Path

    def token(self, timeout_s: float) -> str:
        """Return what the file has."""
        try:
            return self.path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "not a token"
            raise TokenFailed(f"the token in {self.path} cannot be read: {reason}") from problem


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The client credentials grant of OAuth 2 at an OAuth server."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None
    ca_file: str | None

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise SecurityProblem(
                f"sasl.oauthbearer.token.endpoint.url={self.url}: an https: URL or a file: URL is expected"
            )

    def token(self, timeout_s: float) -> str:
        """Return a token of this process for these credentials; ask the server for one if it is old."""
        with _lock:
            token, until = _tokens.get(self, ("", 0.0))
            if time.monotonic() >= until:
                token, lifetime_s = self._ask(timeout_s)
                _tokens[self] = token, time.monotonic() + lifetime_s * _USED_SHARE
            return token

    def _ask(self, timeout_s: float) -> tuple[str, float]:
        """Return a new token and its lifetime, in seconds."""
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        secret = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        headers = {
            "Authorization": f"Basic {b64encode(secret.encode()).decode()}",
            "Accept": "application/json",
        }
        request = urllib.request.Request(self.url, urlencode(form).encode(), headers)
        try:
            context = (
                ssl.create_default_context(cafile=self.ca_file) if self.url.startswith("https") else None
            )
            with urllib.request.urlopen(request, timeout=timeout_s, context=context) as response:
                answer = json.loads(response.read(LARGEST_ANSWER_BYTES))
            token = answer["access_token"]
            if not isinstance(token, str):
                raise TypeError
            return token, float(answer.get("expires_in") or _lifetime_of(token))
        except urllib.error.HTTPError as problem:
            problem.close()
            raise TokenFailed(
                f"{self.url} refuses client {self.client_id}: {problem.code} {problem.reason}; check the "
                "client id and secret"
            ) from problem
        except OSError as problem:
            reason = getattr(problem, "reason", problem)
            raise TokenFailed(f"no token from {self.url}: {reason}") from problem
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise TokenFailed(f"{self.url} did not answer with a token in JSON") from problem


_tokens: dict[ClientCredentials, tuple[str, float]] = {}
"""The tokens of this process, each with the monotonic time until which it is used."""
_lock = Lock()


def _lifetime_of(token: str) -> float:
    """Return how long a token is valid that says so itself, in seconds; 0 if it does not."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(claims["exp"]) - time.time())
    except (ValueError, LookupError, TypeError):
        return 0.0


def _part(value: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
