"""The value of `sasl.jaas.config`: `LOGIN.MODULE required name="value" ...;`."""

from __future__ import annotations

import re
from typing import NamedTuple

from headgate.client.security.problem import SecurityProblem

_TOKEN = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([=;])|([^\s"'=;]+))""", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_EXAMPLE = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="NAME" password="PASSWORD";'
)


class Jaas(NamedTuple):
    """A login module, by the last part of its class name, and its options."""

    module: str
    options: dict[str, str]


def parse_jaas(text: str) -> Jaas:
    """Parse the value. Raises `SecurityProblem`, whose message does not repeat it: it has the password."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise _invalid()
    options: dict[str, str] = {}
    middle = tokens[2:-1]
    for at in range(0, len(middle), 3):
        each = middle[at : at + 3]
        if len(each) != 3 or each[1] != "=":
            raise _invalid()
        options[each[0]] = each[2]
    return Jaas(tokens[0].rpartition(".")[2], options)


def _tokens(text: str) -> list[str]:
    found = []
    text, at = text.rstrip(), 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _invalid()
        double, single, sign, word = token.groups()
        quoted = double if double is not None else single
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else sign or word)
        at = token.end()
    return found


def _invalid() -> SecurityProblem:
    return SecurityProblem(f"sasl.jaas.config: expected is a value such as {_EXAMPLE}")
