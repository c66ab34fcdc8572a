"""SCRAM (RFC 5802, RFC 7677), the client's side: messages in, messages out.

As in Kafka, names and passwords are plain UTF-8, without SASLprep, and channels are not bound.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 1 << 20
"""Iterations that a server may demand: fewer are not safe, more would keep the client busy for seconds."""
_NO_BINDING = "n,,"


class BadChallenge(Exception):
    """A message of the server that is not SCRAM, or shows that the server does not know the password."""


def scram(mechanism: str, name: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yield the messages of the client; each is answered by the next one of the server.

    Raises `BadChallenge`; after the last answer the generator ends if the server knows the password.
    """
    algorithm = _HASHES[mechanism]
    first = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = _text((yield (_NO_BINDING + first).encode()))
    values = _attributes(challenge)
    salt, iterations = _salt(values), _iterations(values)
    if not values["r"].startswith(nonce) or values["r"] == nonce:
        raise BadChallenge("the server does not continue the client's nonce")
    unproved = f"c={b64encode(_NO_BINDING.encode()).decode()},r={values['r']}"
    signed = f"{first},{challenge},{unproved}".encode()
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), signed, algorithm)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    final = _attributes(_text((yield f"{unproved},p={b64encode(proof).decode()}".encode())))
    if "e" in final:
        raise BadChallenge(f"the server refuses the proof: {final['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(_base64(final.get("v", "")), expected):
        raise BadChallenge("the server cannot prove that it knows the password")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise BadChallenge("a message of the server is not UTF-8") from None


def _attributes(message: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in message.split(",")]
    names = [name for name, _, _ in pairs]
    if any(len(name) != 1 or not sign for name, sign, _ in pairs) or len(set(names)) < len(names):
        raise BadChallenge("a message of the server is not SCRAM")
    return {name: value for name, _, value in pairs}


def _salt(values: dict[str, str]) -> bytes:
    if "m" in values or not {"r", "s", "i"} <= values.keys():
        raise BadChallenge("the server's first message lacks what SCRAM needs, or demands an extension")
    return _base64(values["s"])


def _iterations(values: dict[str, str]) -> int:
    text = values["i"]
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadChallenge("the server's number of iterations is no number")
    count = int(text)
    if not FEWEST_ITERATIONS <= count <= MOST_ITERATIONS:
        raise BadChallenge(
            f"the server demands {count} iterations; {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are accepted"
        )
    return count


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise BadChallenge("a message of the server has invalid base64") from None
