"""The records of a coordinator's log that compaction must consider: all but those of torn runs.

`headgate.log.compaction` knows nothing of runs. It passes each record's offset, the hash of its key and its
headers, and receives the offsets and hashes of records that are known to be complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.records.runs import HEADER_KEY, RunReader, run_place


class RunCompleteness:
    """Reads one log, from a position where no run is open."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader: RunReader[tuple[int, bytes]] = RunReader()

    @property
    def is_open(self) -> bool:
        """Whether a run has started and not ended."""
        return self._reader.is_open

    def take(
        self, offset: int, hashed: bytes, headers: Sequence[tuple[bytes, bytes | None]]
    ) -> Sequence[tuple[int, bytes]]:
        """Take a record and return the records that it completes: this one, a whole run, or none."""
        return self._reader.take((offset, hashed), run_place(headers))

    def plain(self, headers: Sequence[tuple[bytes, bytes | None]]) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the headers without that of the run: compaction can remove some records of a run."""
        return [header for header in headers if header[0] != HEADER_KEY]
