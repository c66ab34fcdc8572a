"""The marker of a clean stop, `clean-shutdown`: every log was closed, and the catalogue ended at this offset.

    {"v": 1, "unrecovered": ["<topic id>-<partition>", ...], "catalogue": 71, "crc32c": 1234567}

`unrecovered` names the logs that an earlier crash may have torn and that were not opened since. An incomplete
marker is ignored: the start is then one after a crash, which checks every log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from crc32c import crc32c

CLEAN_SHUTDOWN_FILE = "clean-shutdown"


@dataclass(slots=True, frozen=True)
class CleanStop:
    """The contents of the marker."""

    unrecovered: tuple[str, ...]
    catalogue_end: int
    """End offset of the catalogue's log; 0 if it was not recorded."""

    def encode(self) -> bytes:
        """Return the contents of the file."""
        fields = {"v": 1, "unrecovered": list(self.unrecovered), "catalogue": self.catalogue_end}
        return json.dumps({**fields, "crc32c": _sum_of(fields)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> CleanStop | None:
        """Return the marker in `data`; None for invalid bytes. An older Headgate wrote no checksum."""
        try:
            fields = json.loads(data)
        except ValueError:
            return None
        if not isinstance(fields, dict) or fields.get("v") != 1:
            return None
        expected = fields.pop("crc32c", None)
        names, end = fields.get("unrecovered"), fields.get("catalogue", 0)
        if fields.keys() - {"catalogue"} != {"v", "unrecovered"}:
            return None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        if type(end) is not int or (expected is not None and expected != _sum_of(fields)):
            return None
        return cls(tuple(names), end)


def _sum_of(fields: dict[str, object]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
