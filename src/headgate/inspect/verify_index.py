"""The check of a segment's two indexes against its batches.

An index is sparse. It is right if every entry points at a batch and agrees with it. It is complete if it
covers the whole segment. For timestamps that matters: a search for a time skips a segment whose newest
timestamp is not in the index.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from headgate.log.header import BatchHeader
from headgate.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")

Problem = tuple[int, str]
"""The position in the index file, and what is wrong there."""


class OffsetIndexCheck:
    """The check of an .index file: relative last offsets and positions of some batches."""

    def __init__(self, data: bytes, base_offset: int, interval_bytes: int) -> None:
        self.problems: list[Problem] = []
        self.missing = 0
        """Missing entries at the end of a file whose other entries are right."""
        whole = len(data) - len(data) % OFFSET_ENTRY_BYTES
        if whole != len(data):
            self.problems.append((whole, f"it ends with {len(data) - whole} bytes of an entry"))
        self._entries: list[tuple[int, int]] = list(_OFFSET_ENTRY.iter_unpack(data[:whole]))
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._at = 0
        self._due = 0
        self._unindexed_bytes = 0
        self._is_spaced_as_now = True
        for at, (entry, following) in enumerate(zip(self._entries, self._entries[1:], strict=False)):
            if following[0] <= entry[0] or following[1] <= entry[1]:
                self._say(at + 1, f"(offset +{following[0]}, position {following[1]}) follows {entry}")
                del self._entries[at + 1 :]
                break

    @property
    def entry_count(self) -> int:
        """The number of entries checked."""
        return len(self._entries)

    def pass_batch(self, position: int, header: BatchHeader) -> None:
        """Compare the index with the next batch of the log."""
        entries = self._entries
        while self._at < len(entries) and entries[self._at][1] < position:
            self._say(self._at, f"points at {entries[self._at][1]}, where no batch starts")
            self._at += 1
        if self._at < len(entries) and entries[self._at][1] == position:
            offset = self._base_offset + entries[self._at][0]
            if offset != header.last_offset:
                self._say(
                    self._at, f"has {offset} for the batch at {position}, which ends at {header.last_offset}"
                )
            elif position == 0:
                self._say(self._at, "points at the first batch, which never has an entry")
            self._at += 1
        if self._unindexed_bytes > self._interval_bytes:
            self._unindexed_bytes = 0
            if self._due >= len(entries):
                self.missing += 1
            elif entries[self._due][1] != position:
                self._is_spaced_as_now = False
            self._due += 1
        self._unindexed_bytes += header.size

    def finish(self) -> None:
        """End the log."""
        for at in range(self._at, len(self._entries)):
            self._say(at, f"points at {self._entries[at][1]}, past the last batch")
        # Entries at other distances come from another setting; then missing entries cannot be recognized.
        if not self._is_spaced_as_now or self.problems:
            self.missing = 0

    def _say(self, at: int, what: str) -> None:
        self.problems.append((at * OFFSET_ENTRY_BYTES, f"entry {at} {what}"))


class TimeIndexCheck:
    """The check of a .timeindex file: ascending timestamps, each with the last offset of its batch."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self.problems: list[Problem] = []
        whole = len(data) - len(data) % TIME_ENTRY_BYTES
        if whole != len(data):
            self.problems.append((whole, f"it ends with {len(data) - whole} bytes of an entry"))
        self._entries: list[tuple[int, int]] = list(_TIME_ENTRY.iter_unpack(data[:whole]))
        self._base_offset = base_offset
        self._at = 0
        self._largest = -1
        for at, (entry, following) in enumerate(zip(self._entries, self._entries[1:], strict=False)):
            if following[0] <= entry[0] or following[1] <= entry[1]:
                self._say(at + 1, f"(timestamp {following[0]}, offset +{following[1]}) follows {entry}")
                del self._entries[at + 1 :]
                break

    @property
    def entry_count(self) -> int:
        """The number of entries checked."""
        return len(self._entries)

    @property
    def lacks_newest(self) -> bool:
        """Whether the newest timestamp of the batches is missing in the index."""
        indexed = self._entries[-1][0] if self._entries else -1
        return not self.problems and indexed < self._largest

    def pass_batch(self, header: BatchHeader) -> None:
        """Compare the index with the next batch of the log."""
        while self._at < len(self._entries):
            timestamp, relative_offset = self._entries[self._at]
            offset = self._base_offset + relative_offset
            if offset > header.last_offset:
                break
            if offset < header.last_offset:
                self._say(self._at, f"has offset {offset}, at which no batch ends")
            elif timestamp != header.max_timestamp:
                self._say(
                    self._at, f"has {timestamp} for offset {offset}, whose batch has {header.max_timestamp}"
                )
            elif timestamp <= self._largest:
                self._say(self._at, f"has {timestamp}, but the largest timestamp so far is {self._largest}")
            self._at += 1
        self._largest = max(self._largest, header.max_timestamp)

    def finish(self) -> None:
        """End the log."""
        for at in range(self._at, len(self._entries)):
            self._say(at, f"has offset {self._base_offset + self._entries[at][1]}, past the last batch")

    def _say(self, at: int, what: str) -> None:
        self.problems.append((at * TIME_ENTRY_BYTES, f"entry {at} {what}"))
