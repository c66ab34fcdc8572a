"""A shard that is loaded from a log, and the commits that set an offset back, found on the way.

`WatchedShard` is what the loader of a log sees in place of the shard: it compares each commit with the offset
that it replaces, then passes it on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis
from headgate.fleet.facts import Backwards
from headgate.log.record_columns import RecordColumns
from headgate.records import MalformedRecord, OffsetCommit, decode
from headgate.records.columns import Int64s
from headgate.records.offset_commit import names_of
from headgate.records.offset_rows import OffsetRows
from headgate.runtime.shard_kind import RecordFormat
from headgate.shards.groups import GROUP_RECORDS, OffsetsInColumns

_NONE = -1


class Unreadable:
    """A record that cannot be decoded; it changes nothing."""


UNREADABLE = Unreadable()


def _decode(key: bytes | None, value: bytes | None, timestamp: Millis) -> object:
    try:
        return decode(key, value, timestamp)
    except MalformedRecord:
        return UNREADABLE


class _Columns(OffsetsInColumns):
    """As in the coordinator; columns with a malformed record are left to be read one by one."""

    def read(self, columns: RecordColumns) -> tuple[Int64s, OffsetRows]:
        try:
            return super().read(columns)
        except MalformedRecord:
            nothing = np.zeros(0, np.int64)
            none_gone = np.zeros(0, np.bool_)
            epochs = np.zeros(0, np.int32)
            return nothing, OffsetRows([], nothing, nothing, nothing, epochs, nothing, none_gone, {})


TOLERANT_RECORDS: RecordFormat = replace(GROUP_RECORDS, decode=_decode, columns=_Columns())
"""The coordinator's format, in which a malformed record is `UNREADABLE` instead of an error."""


class WatchedShard:
    """A shard, and what a load of its log finds: commits backwards, and records that cannot be decoded."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.backwards: dict[GroupId, Backwards] = {}
        self.unreadable = 0
        self._pending: dict[int, list[OffsetCommit]] = {}
        """The commits of open transactions, by producer id."""

    # --- what a loader calls ---

    def apply(self, record: object, position: int, producer: Producer | None = None) -> None:
        """Apply one record, as `GroupShard.apply` does."""
        if record is UNREADABLE:
            self.unreadable += 1
            return
        if producer is not None:
            self._apply_pending(record, position, producer)
            return
        if isinstance(record, OffsetCommit):
            self._look_back(record)
        self.shard.apply(record, position)  # type: ignore[arg-type]  # decoded by its own format

    def apply_rows(self, rows: OffsetRows) -> None:
        """Apply many commits and tombstones, as `GroupShard.apply_rows` does."""
        for row in self._set_back(rows).tolist():
            group_id, _ = names_of(rows.prefixes[rows.stretch_of[row]])
            self._count(group_id, Millis(int(rows.commit_timestamps[row])))
        self.shard.apply_rows(rows)

    def end_transaction(self, end: TransactionEnd, position: int) -> None:
        """End a transaction; its commits count from then on, or never."""
        shard = self.shard
        commits = self._pending.pop(end.producer.producer_id, [])
        places = {(each.group_id, each.topic, each.partition) for each in commits}
        before = {place: shard.offsets.get(*place) for place in places}
        shard.end_transaction(end, position)
        for place, old in before.items():
            new = shard.offsets.get(*place)
            if old is not None and new is not None and new.offset < old.offset:
                self._count(place[0], new.commit_timestamp)

    # --- looking back ---

    def _apply_pending(self, record: object, position: int, producer: Producer) -> None:
        if isinstance(record, OffsetCommit):
            self._pending.setdefault(producer.producer_id, []).append(record)
        self.shard.apply(record, position, producer)  # type: ignore[arg-type]

    def _look_back(self, commit: OffsetCommit) -> None:
        before = self.shard.offsets.get(commit.group_id, commit.topic, commit.partition)
        if before is not None and commit.offset < before.offset:
            self._count(commit.group_id, commit.commit_timestamp)

    def _count(self, group_id: GroupId, at: Millis) -> None:
        known = self.backwards.get(group_id, Backwards())
        self.backwards[group_id] = Backwards(count=known.count + 1, last_at=at)

    def _set_back(self, rows: OffsetRows) -> Int64s:
        """Return the rows with a commit below the offset that it replaces, in order."""
        before = self.shard.offsets.get_rows(rows)
        again, earlier = _earlier_rows(rows)
        before[again] = np.where(rows.is_gone[earlier], _NONE, rows.offsets[earlier])
        found: Int64s = np.flatnonzero(~rows.is_gone & (rows.offsets < before))
        return found


def _earlier_rows(rows: OffsetRows) -> tuple[Int64s, Int64s]:
    """Return the rows whose partition has an earlier row, and for each the last of these."""
    numbers: dict[bytes, int] = {}
    of_stretch = np.array([numbers.setdefault(prefix, len(numbers)) for prefix in rows.prefixes], np.int64)
    keys = of_stretch[rows.stretch_of] << 32 | rows.partitions & 0xFFFF_FFFF
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
    return order[again], order[again - 1]
