"""The marker of a clean stop, `clean-shutdown`: every log was closed, and the catalogue ended at this offset.

    {"v": 1, "unrecovered": ["<topic id>-<partition>", ...], "catalogue": 71,
     "written": {"<topic id>": "0-4,7", ...}, "stopped": 1763760000000, "crc32c": 1234567}

`unrecovered` names the logs that an earlier crash may have torn and that were not opened since. `written` has
the partitions with a directory: a partition without one was never written, unless it is named here.
`stopped` is the time of the stop in ms. An incomplete marker is ignored: the start is then one after a crash,
which checks every log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from headgate.domain.ids import Millis

CLEAN_SHUTDOWN_FILE = "clean-shutdown"
_RANGES: Final = re.compile(r"\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*")


@dataclass(slots=True, frozen=True)
class CleanStop:
    """The contents of the marker."""

    unrecovered: tuple[str, ...]
    catalogue_end: int
    """End offset of the catalogue's log; 0 if it was not recorded."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Ranges of partitions with a directory, by topic id; none of a marker of an older Headgate."""
    stopped_at: Millis | None = None
    """The time of the stop, by the server's clock; None: it was not recorded."""

    def encode(self) -> bytes:
        """Return the contents of the file."""
        fields: dict[str, object] = {"v": 1, "unrecovered": list(self.unrecovered)}
        fields |= {"catalogue": self.catalogue_end, "written": dict(self.written)}
        if self.stopped_at is not None:
            fields["stopped"] = self.stopped_at
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
        names, end, written = fields.get("unrecovered"), fields.get("catalogue", 0), fields.get("written", {})
        stopped = fields.get("stopped")
        if fields.keys() - {"catalogue", "written", "stopped"} != {"v", "unrecovered"}:
            return None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        if type(end) is not int or type(stopped) not in (int, type(None)) or not _are_ranges(written):
            return None
        if expected is not None and expected != _sum_of(fields):
            return None
        return cls(tuple(names), end, written, None if stopped is None else Millis(stopped))


def ranges_of(indexes: Sequence[int]) -> str:
    """Return ascending partition indexes as text: `0-4,7`."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def indexes_in(ranges: str) -> Iterator[int]:
    """Yield the partition indexes in such a text."""
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _are_ranges(written: Any) -> bool:
    return isinstance(written, dict) and all(
        isinstance(ranges, str) and _RANGES.fullmatch(ranges) for ranges in written.values()
    )


def _sum_of(fields: Mapping[str, object]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
