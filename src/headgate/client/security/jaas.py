"""The value of `sasl.jaas.config`: `LOGIN.MODULE required name="value" ...;`."""

from __future__ import annotations

import re
from typing import NamedTuple

from headgate.client.security.problem import SecurityProblem

_TOKEN = re.compile(r"""(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([=;])|([^\s"'=;]+))""", re.DOTALL)
_BETWEEN = re.compile(r"(?:\s|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""The escapes of Java's StreamTokenizer, with which Kafka reads the value; a number is octal."""
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
    found: list[str] = []
    at = _after_blanks(text, 0)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _invalid()
        double, single, sign, word = token.groups()
        quoted = double if double is not None else single
        found.append(sign or word if quoted is None else _ESCAPE.sub(_unescaped, quoted))
        at = _after_blanks(text, token.end())
    return found


def _after_blanks(text: str, at: int) -> int:
    """Return the position of the next token, after blanks and comments."""
    blanks = _BETWEEN.match(text, at)
    return at if blanks is None else blanks.end()


def _unescaped(escape: re.Match[str]) -> str:
    what = escape[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _LETTERS.get(what, what)


def _invalid() -> SecurityProblem:
    return SecurityProblem(f"sasl.jaas.config: expected is a value such as {_EXAMPLE}")
