"""The plan of a reset of many groups, without changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.admin import Admin, NothingToReset, Target, ToOffsets, TopicPartition
from headgate.admin.reset import plan
from headgate.domain.ids import Millis, TopicName
from headgate.fleet.reset import Outcome, PlannedOffsets, PlanUnreadable, Step

_DESCRIBED_AT_ONCE = 100
_TABLE_COLUMNS = (("group_id", "group"), ("topic",), ("partition",), ("committed_offset", "offset"))
"""The columns of a table of offsets; any of several names."""

Offsets = Mapping[TopicPartition, int]


class _OffsetsAt:
    """The offsets of a cluster by time, each asked for once: thousands of groups read the same partitions."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: dict[int, dict[TopicPartition, int]] = {}

    def of(self, timestamp: int, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offset at a timestamp in each partition, as `Cluster.list_offsets` does."""
        known = self._known.setdefault(timestamp, {})
        missing = [partition for partition in partitions if partition not in known]
        if missing:
            known.update(self._admin.cluster.list_offsets(dict.fromkeys(missing, timestamp)))
        return known


def plan_resets(admin: Admin, targets: Mapping[str, Target], topics: Iterable[str] = ()) -> Iterator[Outcome]:
    """Yield a plan for each group, without changes: a step DONE means that it can be executed.

    A group's partitions are those of its target, or those with a committed offset; of `topics` if any are
    named. A group without such partitions has an empty plan. Raises `ClientError` if the cluster cannot be
    reached.
    """
    offsets_at = _OffsetsAt(admin)
    now = Millis(time.time_ns() // 1_000_000)
    wanted = set(topics)
    for several in _in_portions(list(targets)):
        described = admin.describe_groups(several)
        for group_id, group in described.items():
            if group is not None and group.is_active:
                text = f"group {group_id} has members (state {group.state})"
                yield Outcome(PlannedOffsets(group_id, {}, {}), Step.ACTIVE, text)
            else:
                yield _plan_one(admin, group_id, targets[group_id], wanted, offsets_at, now)


def _in_portions(group_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(group_ids), _DESCRIBED_AT_ONCE):
        yield group_ids[start : start + _DESCRIBED_AT_ONCE]


def _plan_one(
    admin: Admin, group_id: str, target: Target, topics: set[str], offsets_at: _OffsetsAt, now: Millis
) -> Outcome:
    nothing = PlannedOffsets(group_id, {}, {})
    try:
        committed = admin.committed_offsets(group_id)
        asked = list(target.offsets) if isinstance(target, ToOffsets) else list(committed)
        partitions = [each for each in asked if not topics or each.topic in topics]
        if not partitions:
            return Outcome(nothing, Step.ALREADY, "no partitions to reset")
        planned = plan(target, partitions, committed, lambda at: offsets_at.of(at, partitions), now)
    except NothingToReset as problem:
        return Outcome(nothing, Step.REFUSED, str(problem))
    return Outcome(
        PlannedOffsets(
            group_id,
            {each.partition: each.committed.offset if each.committed else None for each in planned},
            {each.partition: each.offset for each in planned},
        ),
        Step.DONE,
    )


# --- a table of offsets ---


def read_targets(path: Path) -> dict[str, Target]:
    """Return the offsets of each group in a table: CSV or Parquet, a file or a folder (a landed table).

    Its columns are group_id (or group), topic, partition, committed_offset (or offset); others are ignored,
    and so are rows without an offset. Raises PlanUnreadable, OSError.
    """
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for group_id, topic, partition, offset in _read_rows(path):
        if offset is None:
            continue
        place = TopicPartition(TopicName(str(topic)), int(partition))
        if not isinstance(offset, int):
            raise PlanUnreadable(
                f"{path}: the offset of {place} of group {group_id} is {offset!r}: leave it out"
            )
        of_group = offsets.setdefault(str(group_id), {})
        if place in of_group:
            raise PlanUnreadable(
                f"{path}: {place} of group {group_id} occurs twice: one offset each is needed"
            )
        of_group[place] = offset
    if not offsets:
        raise PlanUnreadable(f"{path}: the table has no offsets")
    return {group_id: ToOffsets(each) for group_id, each in offsets.items()}


def _read_rows(path: Path) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield group, topic, partition and offset of each row; an offset that is no number unchanged."""
    import pyarrow as pa
    from pyarrow import dataset

    is_csv = path.suffix.lower() == ".csv"
    try:
        table = dataset.dataset(path, format="csv" if is_csv else "parquet", partitioning="hive")
        names = [_column(path, several, table.schema.names) for several in _TABLE_COLUMNS]
        rows = table.to_table(names).to_pydict()
    except pa.ArrowInvalid as problem:
        raise PlanUnreadable(f"{path}: {problem}") from problem
    for group_id, topic, partition, offset in zip(*(rows[name] for name in names), strict=True):
        is_number = isinstance(offset, str) and offset.isdecimal()
        yield group_id, topic, partition, int(offset) if is_number else offset


def _column(path: Path, several: Sequence[str], there: Sequence[str]) -> str:
    found = [name for name in several if name in there]
    if not found:
        raise PlanUnreadable(f"{path}: the table has no column {several[0]}; it has {', '.join(there)}")
    return found[0]
