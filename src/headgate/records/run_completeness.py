"""Which records of a coordinator's log count, for whoever compacts it: all but those of torn runs.

Shaped for `headgate.log.compaction`, which knows nothing of runs: it hands over each record's offset, the
hash of its key and its headers, and gets back the offsets and hashes that are known to count.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.records.runs import HEADER_KEY, RunReader, run_place


class RunCompleteness:
    """Reads one log from a place where no run is open."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader: RunReader[tuple[int, bytes]] = RunReader()

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and not ended."""
        return self._reader.is_open

    def take(
        self, offset: int, hashed: bytes, headers: Sequence[tuple[bytes, bytes | None]]
    ) -> Sequence[tuple[int, bytes]]:
        """The records that are known to count now: this one, a whole run, or none yet."""
        return self._reader.take((offset, hashed), run_place(headers))

    def plain(self, headers: Sequence[tuple[bytes, bytes | None]]) -> Sequence[tuple[bytes, bytes | None]]:
        """The headers without the record's place in its run: of a compacted run some records may be gone."""
        return [header for header in headers if header[0] != HEADER_KEY]
