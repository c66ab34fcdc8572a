"""JSON with a checksum, for what a landing continues from.

    {"format": 1, ..., "crc32c": 1234567890}

The checksum is the last member and covers all bytes before it: a flipped bit in a number would otherwise move
the landed end, and rows would be lost without an error. A file of an earlier release has none.
"""

from __future__ import annotations

import json
import re
from typing import Any

from crc32c import crc32c

_SEAL = re.compile(rb',\s+"crc32c": (\d+)\s*\}\s*\Z')


def sealed(content: dict[str, Any], indent: int | None = None) -> bytes:
    """Return the content, which must not be empty, as JSON with its checksum."""
    body = json.dumps(content, indent=indent).removesuffix("}").rstrip().encode()
    gap = b" " if indent is None else b"\n" + b" " * indent
    end = b"" if indent is None else b"\n"
    return b'%b,%b"crc32c": %d%b}' % (body, gap, crc32c(body), end)


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the content without its checksum. Raises ValueError if it is not valid."""
    found = _SEAL.search(data)
    if found is not None and int(found[1]) != crc32c(data[: found.start()]):
        raise ValueError("the checksum is wrong")
    content: Any = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    if content.pop("crc32c", None) is not None and found is None:
        raise ValueError("the checksum is not at the end")
    return content
