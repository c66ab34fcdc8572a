"""Files of properties in the format of Java's `Properties`, as Kafka's tools take them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headgate.client.security.problem import SecurityProblem

_LARGEST_FILE_BYTES = 1 << 20
_BLANKS = " \t\f"
_KEY = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file. The last one of a name counts. Raises `SecurityProblem`."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as problem:
        raise SecurityProblem(f"{path}: {problem.strerror}") from problem
    if len(data) > _LARGEST_FILE_BYTES:
        raise SecurityProblem(
            f"{path}: larger than {_LARGEST_FILE_BYTES} bytes, which no file of properties is"
        )
    if b"\0" in data:
        raise SecurityProblem(f"{path}: this is no file of properties, which is text")
    try:
        return parse_properties(_text(data))
    except SecurityProblem as problem:
        raise SecurityProblem(f"{path}: {problem}") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark, which is no part of a name
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")  # Java's own encoding of such files


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in a text. Raises `SecurityProblem`, which names the property."""
    found = {}
    for line in _logical_lines(text):
        parts = _KEY.fullmatch(line)
        if parts is not None and parts["key"]:
            found[_plain(parts["key"], parts["key"])] = _plain(parts["value"], parts["key"])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not comments, joined where one ends with a backslash."""
    begun = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANKS)
        if begun is None and line.startswith(("#", "!")):
            continue
        line = (begun or "") + line
        trailing = len(line) - len(line.rstrip("\\"))
        begun = line[:-1] if trailing % 2 else None
        if begun is None and line:
            yield line
    if begun:
        yield begun


def _plain(text: str, name: str) -> str:
    """Return a text without its escapes. Raises `SecurityProblem`, which does not repeat it."""
    plain = _ESCAPE.sub(lambda found: _unescaped(found[1], name), text)
    try:
        # Java escapes a letter beyond \uffff as two halves.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise SecurityProblem(
            f"{name}: \\ud800 to \\udfff are halves of a letter, and one is alone"
        ) from None


def _unescaped(escape: str, name: str) -> str:
    if escape == "u":
        raise SecurityProblem(
            f"{name}: \\u is expected before four hexadecimal digits, and \\\\ for a backslash"
        )
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _LETTERS.get(escape, escape)
