"""The plan of a reset of many groups, without changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.admin import (
    Admin,
    ClientError,
    NothingToReset,
    RequestRefused,
    Target,
    ToOffsets,
    TopicPartition,
)
from headgate.admin.errors import IsShareGroup
from headgate.admin.reset import plan, remarks_on_plan
from headgate.client.groups import GroupDescription, describe_on_nodes
from headgate.client.offsets import CommittedOffset
from headgate.client.share_groups import are_share_groups
from headgate.client.survey import Answers, Survey
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.fleet.reset import (
    Outcome,
    PlannedOffsets,
    PlanUnreadable,
    Step,
    cluster_id_of,
    refusal_text,
)

_DESCRIBED_AT_ONCE = 100
_TABLE_COLUMNS = (("group_id", "group"), ("topic",), ("partition",), ("committed_offset", "offset"))
"""The columns of a table of offsets; any of several names."""
_IS_KNOWN = "is_known"
"""A column of offsets as of a time: false for one that may have been another, which is printed as unknown."""

Offsets = Mapping[TopicPartition, int]


class _OffsetsAt:
    """The offsets of a cluster by time, each asked for once: thousands of groups read the same partitions."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: dict[int, dict[TopicPartition, int]] = {}
        self._existing: set[TopicPartition] | None = None

    def of(self, timestamp: int, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offset at a timestamp in each partition, as `Cluster.list_offsets` does."""
        known = self._known.setdefault(timestamp, {})
        missing = [partition for partition in partitions if partition not in known]
        if missing:
            self._check(missing)
            known.update(self._admin.cluster.list_offsets(dict.fromkeys(missing, timestamp)))
        return known

    def _check(self, partitions: Sequence[TopicPartition]) -> None:
        """Raise `NothingToReset` for a partition that does not exist, without waiting for it to appear."""
        if self._existing is None:
            self._existing = {
                TopicPartition(TopicName(topic.name), partition.partition_index)
                for topic in self._admin.cluster.metadata().topics
                if topic.name is not None
                for partition in topic.partitions
            }
        for partition in partitions:
            if partition not in self._existing:
                raise NothingToReset(f"{partition} does not exist")


def plan_resets(admin: Admin, targets: Mapping[str, Target], topics: Iterable[str] = ()) -> Iterator[Outcome]:
    """Yield a plan for each group, without changes: a step DONE means that it can be executed. Its message
    names the offsets outside of a log, in whose place the nearest inside is planned.

    A group's partitions are those of its target, or those with a committed offset; of `topics` if any are
    named. A group without such partitions has an empty plan. A step REFUSED says what cannot be planned for
    one group. Raises `ClientError` if the cluster cannot be reached.
    """
    offsets_at = _OffsetsAt(admin)
    now = Millis(time.time_ns() // 1_000_000)
    wanted = set(topics)
    cluster_id = cluster_id_of(admin)
    for several in _in_portions(list(targets)):
        for group_id, group in _described(admin, several).items():
            if isinstance(group, ClientError):
                if not isinstance(group, RequestRefused) or group.is_retriable:
                    raise group
                yield Outcome(PlannedOffsets(group_id, {}, {}), Step.REFUSED, refusal_text(group))
            elif group is not None and group.is_active:
                text = f"group {group_id} has members (state {group.state})"
                yield Outcome(PlannedOffsets(group_id, {}, {}), Step.ACTIVE, text)
            else:
                outcome = _plan_one(admin, group_id, targets[group_id], wanted, offsets_at, now)
                yield replace(outcome, planned=replace(outcome.planned, cluster_id=cluster_id))


def _described(admin: Admin, group_ids: list[str]) -> Answers[GroupId, GroupDescription | None]:
    """Describe groups; None for one that does not exist, an error for a share group."""
    survey = Survey(admin.cluster)
    found = describe_on_nodes(survey, map(GroupId, group_ids))
    absent = [group_id for group_id, group in found.items() if group is None]
    for group_id, is_share in are_share_groups(survey, absent).items():
        if isinstance(is_share, ClientError):
            found[group_id] = is_share
        elif is_share:
            found[group_id] = IsShareGroup(group_id)
    return found


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
        _refuse_negative(committed, partitions)
        planned = plan(target, partitions, committed, lambda at: offsets_at.of(at, partitions), now)
    except NothingToReset as problem:
        return Outcome(nothing, Step.REFUSED, f"group {group_id}: {problem}")
    except RequestRefused as refused:
        if refused.is_retriable:
            raise
        return Outcome(nothing, Step.REFUSED, f"group {group_id}: {refused}")
    return Outcome(
        PlannedOffsets(
            group_id,
            {each.partition: each.committed.offset if each.committed else None for each in planned},
            {each.partition: each.offset for each in planned},
        ),
        Step.DONE,
        "; ".join(remarks_on_plan(planned)),
    )


def _refuse_negative(
    committed: Mapping[TopicPartition, CommittedOffset], partitions: Sequence[TopicPartition]
) -> None:
    """Raise `NothingToReset` for an offset that no condition can name: a client may commit any number."""
    for place in partitions:
        found = committed.get(place)
        if found is not None and found.offset < 0:
            raise NothingToReset(f"{place} is at offset {found.offset}, which is no place in a log")


# --- a table of offsets ---


def read_targets(path: Path) -> dict[str, Target]:
    """Return the offsets of each group in a table: CSV or Parquet, a file or a folder (a landed table).

    Its columns are group_id (or group), topic, partition, committed_offset (or offset), and is_known, if
    there are unknown offsets, which are refused; others are ignored, and so are rows without an offset.
    Names are texts, also `007` in CSV. Raises PlanUnreadable, OSError.
    """
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for group_id, topic, partition, offset in _read_rows(path):
        if offset is None:
            continue
        is_place = isinstance(group_id, str) and isinstance(topic, str) and type(partition) is int
        if not is_place:
            raise PlanUnreadable(f"{path}: {group_id}, {topic}, {partition} is no group with a partition")
        place = TopicPartition(TopicName(topic), partition)
        if type(offset) is not int or offset < 0:
            raise PlanUnreadable(
                f"{path}: the offset of {place} of group {group_id} is {offset!r}: leave it out"
            )
        of_group = offsets.setdefault(group_id, {})
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
    from pyarrow import csv, dataset

    if path.is_file() and not path.stat().st_size:
        raise PlanUnreadable(f"{path}: the file is empty")
    texts = dict.fromkeys((*_TABLE_COLUMNS[0], *_TABLE_COLUMNS[1]), pa.string())
    as_csv = dataset.CsvFileFormat(
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=texts | {"partition": pa.int64()}),
    )
    try:
        is_csv = path.suffix.lower() == ".csv"
        table = dataset.dataset(path, format=as_csv if is_csv else "parquet", partitioning="hive")
        columns = [_column(path, several, table.schema.names) for several in _TABLE_COLUMNS]
        told = [_IS_KNOWN] if _IS_KNOWN in table.schema.names else []
        rows = table.to_table(columns + told).to_pydict()
    except pa.ArrowInvalid as problem:
        raise PlanUnreadable(f"{path}: {problem}") from problem
    for group_id, topic, partition, offset, *is_known in zip(*rows.values(), strict=True):
        is_number = isinstance(offset, str) and offset.isdecimal()
        found = int(offset) if is_number else offset
        yield group_id, topic, partition, "unknown" if is_known == [False] else found


def _column(path: Path, several: Sequence[str], there: Sequence[str]) -> str:
    found = [name for name in several if name in there]
    if not found:
        raise PlanUnreadable(f"{path}: the table has no column {several[0]}; it has {', '.join(there)}")
    return found[0]
