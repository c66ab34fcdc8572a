"""The tokens of OAUTHBEARER: from a file, from an OAuth server, or unsecured ones for tests."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Protocol
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from headgate.client.security.problem import SecurityProblem
from headgate.client.security.tls import is_end

LARGEST_ANSWER_BYTES = 1 << 20
_USED_SHARE = 0.8
"""The share of its lifetime for which a token is used for new connections."""
_UNSECURED_LIFETIME_S = 3600
_LONGEST_LIFETIME_S = 86_400.0
"""A token is asked for again after a day at the latest, however long its server says that it is valid."""
_READ_BYTES = 1 << 16
_TOKEN = re.compile(r"[\x21-\x7e]+")
"""The characters of a token: printable ASCII, so that it ends nowhere but at its end (RFC 6750)."""


def is_token(text: str) -> bool:
    """Tell whether a text can be a token. Raises TypeError for what is no text."""
    return _TOKEN.fullmatch(text) is not None


class TokenFailed(Exception):
    """There is no token. The message names the file or the server, and the reason."""


class TokenServerAway(TokenFailed):
    """The server of tokens does not answer, or cannot at the moment: it may later."""


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
            with self.path.open("rb") as file:
                text = file.read(LARGEST_ANSWER_BYTES).decode(errors="replace").strip()
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise TokenFailed(f"the token in {self.path} cannot be read: {reason}") from problem
        if not is_token(text):
            raise TokenFailed(f"{self.path} has no token: that is one word of ASCII")
        return text


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The client credentials grant of OAuth 2 at an OAuth server."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    ca_file: str | None

    def __post_init__(self) -> None:
        if not _is_endpoint(self.url):
            # The URL is not repeated: it may have a password.
            raise SecurityProblem(
                "sasl.oauthbearer.token.endpoint.url: an https: URL or a file: URL is expected, without a "
                "user, a password or blanks"
            )

    def token(self, timeout_s: float) -> str:
        """Return a token of this process for these credentials; ask the server for one if it is old."""
        with _lock:
            token, until = _tokens.get(self, ("", 0.0))
            if time.monotonic() >= until:
                token, lifetime_s = self._ask(timeout_s)
                _tokens[self] = token, time.monotonic() + lifetime_s * _USED_SHARE
            return token

    def forget(self) -> None:
        """Ask for a new token next time: a broker refused the one of this process."""
        with _lock:
            _tokens.pop(self, None)

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
            return _token_in(self._send(request, timeout_s))
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code >= _SERVER_ERROR or problem.code in _BUSY:
                raise TokenServerAway(
                    f"no token from {self.url}: {problem.code} {problem.reason}"
                ) from problem
            raise TokenFailed(_refusal(self, problem)) from problem
        except OSError as problem:
            reason = getattr(problem, "reason", problem)
            if isinstance(reason, ssl.SSLError) and not is_end(reason):
                raise TokenFailed(f"no token from {self.url}: {reason}") from problem
            raise TokenServerAway(f"no token from {self.url}: {reason}") from problem
        except http.client.HTTPException as problem:
            raise TokenFailed(f"{self.url} does not answer in HTTP") from problem
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as problem:
            raise TokenFailed(f"{self.url} did not answer with a token in JSON") from problem

    def _send(self, request: urllib.request.Request, timeout_s: float) -> bytes:
        """Return the content of the answer, which must be complete within the timeout."""
        deadline = time.monotonic() + timeout_s
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if self.url.lower().startswith("https"):
            context = ssl.create_default_context(cafile=self.ca_file)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        content = b""
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as response:
            while data := response.read1(_READ_BYTES):
                content += data
                if len(content) > LARGEST_ANSWER_BYTES or time.monotonic() > deadline:
                    raise TimeoutError(f"no complete answer within {timeout_s:g} s")
        return content


_tokens: dict[ClientCredentials, tuple[str, float]] = {}
"""The tokens of this process, each with the monotonic time until which it is used."""
_lock = Lock()
_BUSY: Final = (408, 425, 429)
"""HTTP codes that ask to try again later."""
_SERVER_ERROR: Final = 500
"""HTTP codes from here on say that the server has a problem."""


def _after_fork() -> None:
    """In a child, another thread of the parent may have the lock for ever."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_after_fork)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the secret must not be sent to a place that the properties do not name."""

    def redirect_request(self, *given: object) -> None:
        return None


def _is_endpoint(url: str) -> bool:
    try:
        parts: SplitResult = urlsplit(url)
        is_complete = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_plain = _TOKEN.fullmatch(url) is not None and "@" not in parts.netloc
    return parts.scheme in ("http", "https") and is_complete and is_plain


def _refusal(asked: ClientCredentials, problem: urllib.error.HTTPError) -> str:
    if 300 <= problem.code < 400:
        return (
            f"{asked.url} answers with a redirect ({problem.code}), which is not followed; set "
            "sasl.oauthbearer.token.endpoint.url to the URL that gives tokens"
        )
    return (
        f"{asked.url} refuses client {asked.client_id}: {problem.code} {problem.reason}; check the client id "
        "and secret"
    )


def _token_in(answer: bytes) -> tuple[str, float]:
    """Return the token in an answer in JSON and its lifetime, in seconds."""
    found = json.loads(answer)
    token = found["access_token"]
    if not is_token(token):
        raise ValueError
    lifetime_s = float(found.get("expires_in") or _lifetime_of(token))
    return token, 0.0 if math.isnan(lifetime_s) else min(lifetime_s, _LONGEST_LIFETIME_S)


def _lifetime_of(token: str) -> float:
    """Return how long a token is valid that says so itself, in seconds; 0 if it does not."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(claims["exp"]) - time.time())
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return 0.0


def _part(value: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
