"""The authors of changes that are older than the retention of the history: compaction removes them.

The key of such a record is its group and topic, and no record ever replaces the last one of a key. So they
would collect in `__consumer_offsets`, those of deleted groups and topics too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.domain.ids import Millis
from headgate.log.batch import Record
from headgate.log.record_columns import RecordColumns
from headgate.records.change_author import KEY_START

_FIRST, _SECOND = KEY_START
_SMALLEST_KEY: Final = len(KEY_START)


class OldAuthors:
    """A `headgate.log.compaction.Expired` with the authors of changes before a time."""

    def __init__(self, before: Millis) -> None:
        self._before = before

    def has(self, record: Record) -> bool:
        """Return whether this is the author of an old change."""
        return record.key is not None and record.key.startswith(KEY_START) and record.timestamp < self._before

    def has_any(self, columns: RecordColumns) -> bool:
        """Return whether the author of an old change is among these records."""
        starts = columns.key_starts[
            (columns.key_sizes >= _SMALLEST_KEY) & (columns.timestamps < self._before)
        ]
        octets = np.frombuffer(columns.data, np.uint8)
        return bool(((octets[starts] == _FIRST) & (octets[starts + 1] == _SECOND)).any())
