"""The states of share-partitions, now or as of a time: from the landed table `share_deliveries`.

A state is the last snapshot and the updates after it, merged by the share coordinator's own rules
(`headgate.core.share.state`). Neither Spark nor a broker is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.share.state.state import ShareState
from headgate.domain.ids import SHARE_STATE_TOPIC, GroupId, Millis, TopicId
from headgate.domain.times import millis
from headgate.records.share_batches import BatchRows, DeliveryState, StateBatches
from headgate.records.share_state_model import UNCHANGED, ShareKey, ShareSnapshot, ShareUpdate
from headgate.spark.landing import LandingRefused, tables
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import LandedPartition, read_progress
from headgate.spark.schemas import SHARE_DELIVERIES, SHARE_STATES, arrow_schema

SCHEMA: pa.Schema = arrow_schema(SHARE_STATES)
"""The columns of the result."""

Row = dict[str, Any]
Place = tuple[str, str, int]
"""A share-partition: its group, its topic's id as Kafka prints it, and its partition."""

_TABLE_SCHEMA: pa.Schema = pa.schema(
    [one for one in arrow_schema(SHARE_DELIVERIES) if one.name not in ("log_partition", "key", "value")]
)
_NUMBERS = {state.name: state.value for state in DeliveryState}
_NAMES = {state.value: state.name for state in DeliveryState}
_NO_KEY = ShareKey(GroupId(""), TopicId(bytes(16)), 0)
"""The rules do not look at the key of a record."""


def share_states_now(target: str, group_id: str | None = None) -> pa.Table:
    """Return the state of each share-partition at the end of what is landed, as `schemas.SHARE_STATES`.

    Raises LandingRefused if the target has no table `share_deliveries`, OSError, OptionError if it is no
    folder or URI.
    """
    return _states(Folder(target), None, group_id)


def share_states_as_of(target: str, time: datetime | int, group_id: str | None = None) -> pa.Table:
    """Return the state of each share-partition at a time, as `schemas.SHARE_STATES`.

    The time is a datetime with a time zone, or in ms since the epoch.

    The time of a record is the latest timestamp in the log up to it. A state that is not known has
    `is_known` false: its snapshot, or a later record, was removed before it was landed or with the folder of
    its date, or cannot be read.
    Raises LandingRefused if the target has no table `share_deliveries`, OSError, OptionError if it is no
    folder or URI, and ValueError or TypeError for what is no time.
    """
    return _states(Folder(target), millis(time) * 1000 + 999, group_id)


@dataclass(slots=True)
class _Share:
    """A share-partition while its records are applied, in the order of the log."""

    state: ShareState | None = None
    """None if its snapshot is not there."""
    snapshot_offset: int = -1
    last: Row = field(default_factory=dict)
    """The last record."""

    def apply(self, row: Row, batches: BatchRows) -> None:
        """Apply a record that is no tombstone."""
        self.last = row
        match row["event"]:
            case "snapshot":
                self.snapshot_offset = row["log_offset"]
                self.state = ShareState.of(_snapshot(row, batches), row["log_offset"])
            case "update":
                if self.state is not None:
                    self.state.update(_update(row, batches), row["log_offset"])
            case _:  # a record that cannot be read: nothing is known until the next snapshot
                self.state = None

    def is_known(self, complete_from: int) -> bool:
        """Return whether the state has all records since its snapshot."""
        return self.state is not None and self.snapshot_offset >= complete_from


def _states(target: Folder, time_us: int | None, group_id: str | None) -> pa.Table:
    progress = read_progress(target)
    if progress is None:
        raise LandingRefused(f"there are no landed tables in {target.uri}")
    if tables.SHARE_DELIVERIES not in progress.tables:
        raise LandingRefused(f"{target.uri} has no table {tables.SHARE_DELIVERIES}; land that elsewhere")
    rows: list[Row] = []
    for partition, landed in progress.of_log(SHARE_STATE_TOPIC).items():
        rows += _states_of(target, partition, landed, time_us, group_id)
    rows.sort(key=lambda row: (row["group_id"], row["topic_id"], row["partition"]))
    return pa.Table.from_pylist(rows, SCHEMA)


def _states_of(
    target: Folder, partition: int, landed: LandedPartition, time_us: int | None, group_id: str | None
) -> Iterator[Row]:
    """Yield the states of one partition of the log."""
    shares: dict[Place, _Share] = {}
    end = landed.end
    files = _files(target, partition, landed.end)
    for found in _pieces(target, files):
        cut = _cut(found, time_us)
        _apply(shares, _chosen(found, end if cut is None else cut, group_id))
        if cut is not None:
            end = cut
            break
    complete_from = _complete_from(landed, files.values(), end)
    for place, share in shares.items():
        yield _row(place, share, partition, is_known=share.is_known(complete_from))


def _files(target: Folder, partition: int, end: int) -> dict[str, tuple[int, int]]:
    """Return the files of a partition of the log up to an offset, and the offsets of each, in their order."""
    names = tables.whole_files(target.names(f"{tables.SHARE_DELIVERIES}/log_partition={partition}"))
    bounds = {name: tables.bounds_in(name) for name in names}
    return {name: bounds[name] for name in sorted(names, key=bounds.__getitem__) if bounds[name][1] <= end}


def _complete_from(landed: LandedPartition, files: Iterable[tuple[int, int]], end: int) -> int:
    """Return the offset from which on all records before `end` are there.

    Others were removed from the log before they were landed, or with the folders of their dates.
    """
    found = max((gap.end for gap in landed.gaps if gap.start < end), default=0)
    at = landed.start
    for start, following in files:
        if at < min(start, end):
            found = max(found, min(start, end))
        at = max(at, following)
    return found


def _pieces(target: Folder, files: Mapping[str, tuple[int, int]]) -> Iterator[pa.Table]:
    """Yield the records of files, range by range, each in log order."""
    # Files of two dates may overlap: a row is passed on when no later file can have one before it.
    held = _TABLE_SCHEMA.empty_table()
    for name, (start, _) in files.items():
        is_due = pc.less(held["log_offset"], start)
        yield held.filter(is_due)
        new = target.read_table(name, _TABLE_SCHEMA.names).select(_TABLE_SCHEMA.names)
        held = pa.concat_tables([held.filter(pc.invert(is_due)), new]).sort_by([("log_offset", "ascending")])
    yield held


def _cut(rows: pa.Table, time_us: int | None) -> int | None:
    """Return the offset of the first record after a time; None if there is none."""
    if time_us is None:
        return None
    times = rows["log_timestamp"].cast(pa.int64())
    later = rows["log_offset"].filter(pc.fill_null(pc.greater(times, time_us), False))
    return int(later[0].as_py()) if len(later) else None


def _chosen(rows: pa.Table, end: int, group_id: str | None) -> pa.Table:
    where = pc.and_(pc.less(rows["log_offset"], end), pc.is_valid(rows["group_id"]))
    if group_id is not None:
        where = pc.and_(where, pc.equal(rows["group_id"], group_id))
    return rows.filter(where).combine_chunks()


def _apply(shares: dict[Place, _Share], rows: pa.Table) -> None:
    """Apply records, in log order."""
    for row, batches in zip(
        rows.drop_columns(["batches"]).to_pylist(), _batches(rows["batches"]), strict=True
    ):
        place = row["group_id"], row["topic_id"], row["partition"]
        if row["event"] == "removed":
            shares.pop(place, None)
        else:
            shares.setdefault(place, _Share()).apply(row, batches)


def _batches(column: pa.ChunkedArray) -> Iterator[BatchRows]:
    """Yield the batches of each record, as the rules take them."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = array.flatten()
    parts = [np.asarray(flat.field(name)).astype(np.int64) for name in ("first_offset", "last_offset")]
    names = flat.field("delivery_state").to_pylist()
    states = np.array([_number_of(name) for name in names], np.int64)
    counts = np.asarray(flat.field("delivery_count")).astype(np.int64)
    found: BatchRows = np.stack([*parts, states, counts], axis=1)
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
    at = 0
    for size in sizes:
        yield found[at : at + size]
        at += size


def _number_of(name: str) -> int:
    """Return the number of a delivery state; one without a name in this release is its own name."""
    return _NUMBERS[name] if name in _NUMBERS else int(name)


def _snapshot(row: Row, batches: BatchRows) -> ShareSnapshot:
    return ShareSnapshot(
        key=_NO_KEY,
        snapshot_epoch=row["snapshot_epoch"],
        state_epoch=row["state_epoch"],
        leader_epoch=_or_unchanged(row["leader_epoch"]),
        start_offset=_or_unchanged(row["start_offset"]),
        delivery_complete_count=_or_unchanged(row["delivery_complete_count"]),
        created=Millis(0),
        written=Millis(0),
        batches=StateBatches(batches),
    )


def _update(row: Row, batches: BatchRows) -> ShareUpdate:
    return ShareUpdate(
        key=_NO_KEY,
        snapshot_epoch=row["snapshot_epoch"],
        leader_epoch=_or_unchanged(row["leader_epoch"]),
        start_offset=_or_unchanged(row["start_offset"]),
        delivery_complete_count=_or_unchanged(row["delivery_complete_count"]),
        batches=StateBatches(batches),
    )


def _or_unchanged(value: int | None) -> int:
    return UNCHANGED if value is None else value


def _row(place: Place, share: _Share, partition: int, *, is_known: bool) -> Row:
    group_id, topic_id, of_topic = place
    row: Row = {"group_id": group_id, "topic_id": topic_id, "partition": of_topic, "is_known": is_known}
    row |= {"log_partition": partition, "log_offset": share.last["log_offset"]}
    row["log_timestamp"] = share.last["log_timestamp"]
    state = share.state
    if not is_known or state is None:
        return row
    return row | {
        "snapshot_epoch": state.snapshot_epoch,
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": _known(state.start_offset),
        "delivery_complete_count": _known(state.delivery_complete_count),
        "batches": [
            {
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "delivery_state": _NAMES.get(batch.delivery_state, str(batch.delivery_state)),
                "delivery_count": batch.delivery_count,
            }
            for batch in state.batches.batches()
        ],
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value
