"""Resets of many groups: a plan, which is a file, and its execution.

The plan has for each partition the offset that was committed when it was made, and the one to commit. Each
group is one conditional commit: all of its offsets are set if all of them are still those of the plan,
otherwise none. So a plan can be executed again after any interruption: groups that are done are recognised by
their offsets. The undo of a plan is the plan with the two offsets exchanged.

A cluster without conditional commits (Apache Kafka) is asked for the offsets just before it is told new ones.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headgate.admin import Admin, GroupIsActive, OffsetsMoved, PartlyRefused, RequestRefused
from headgate.admin.csv_rows import csv_writer
from headgate.admin.errors import IsShareGroup
from headgate.client.errors import ClientError, VersionNotSupported
from headgate.domain.ids import TopicName, TopicPartition
from headgate.domain.setting import INT_MAX, LONG_MAX
from headgate.log.filesystem import OsFileSystem

_OFFSETS = ("group", "topic", "partition", "committed_offset", "new_offset")
COLUMNS = (*_OFFSETS, "cluster")
"""The last one has the id of the cluster that the plan is for. A plan that is made by hand may lack it."""


_NO_REMOVAL = "offsets would have to be removed, which needs a cluster with conditional commits"


class PlanUnreadable(ValueError):
    """The file is no plan; the message names the line."""


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """The reset of one group. None: no offset is committed; as a new offset it removes the committed one."""

    group_id: str
    committed: Mapping[TopicPartition, int | None]
    new: Mapping[TopicPartition, int | None]
    cluster_id: str = ""
    """The cluster that the group was looked at in; empty if that is not known."""

    @property
    def changes(self) -> bool:
        """Whether any offset is to be changed."""
        return self.committed != self.new


def undo_of(plan: Sequence[PlannedOffsets]) -> list[PlannedOffsets]:
    """Return the plan that takes a plan back."""
    return [PlannedOffsets(each.group_id, each.new, each.committed, each.cluster_id) for each in plan]


# --- the file ---


def save_plan(plan: Sequence[PlannedOffsets], path: Path) -> None:
    """Write a plan as CSV, durably, with a heading. An existing file is replaced whole. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file)
        writer.writerow(COLUMNS)
        for each in plan:
            for (topic, partition), offset in each.new.items():
                committed = each.committed[TopicPartition(topic, partition)]
                row = (each.group_id, topic, partition, committed, offset, each.cluster_id)
                writer.writerow("" if field is None else field for field in row)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    OsFileSystem().sync_directory(path.parent)


def load_plan(path: Path) -> list[PlannedOffsets]:
    """Read a plan. Raises PlanUnreadable, also if the last line has no end, and OSError.

    Such a file may be cut off within a number: 52 is an offset, too, where 522 was planned.
    """
    groups: dict[str, PlannedOffsets] = {}
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets write a byte order mark
        rows = csv.reader(io.StringIO(text, newline=""))
        heading = next(rows, [])
        if tuple(heading) not in (COLUMNS, _OFFSETS):
            raise PlanUnreadable(f"{path}, line 1: the heading {','.join(COLUMNS)} is expected")
        for row in rows:
            _take(groups, row, heading, f"{path}, line {rows.line_num}")
        if not text.endswith(("\n", "\r")):
            raise PlanUnreadable(
                f"{path}, line {rows.line_num}: the last line has no end: the file may be cut off. "
                "If it is not, add a line end"
            )
    except (UnicodeDecodeError, csv.Error) as problem:
        raise PlanUnreadable(f"{path}: not CSV: {problem}") from problem
    if not groups:
        raise PlanUnreadable(f"{path}: the plan is empty")
    return list(groups.values())


def _take(groups: dict[str, PlannedOffsets], row: list[str], heading: list[str], where: str) -> None:
    if not row:
        return
    if len(row) != len(heading) or not _is_number(row[2], INT_MAX):
        raise PlanUnreadable(f"{where}: {','.join(heading)} are expected")
    group_id, topic, partition = row[0], TopicName(row[1]), int(row[2])
    place = TopicPartition(topic, partition)
    cluster_id = row[5] if len(row) > len(_OFFSETS) else ""
    planned = groups.setdefault(group_id, PlannedOffsets(group_id, {}, {}, cluster_id))
    if planned.cluster_id != cluster_id:
        raise PlanUnreadable(f"{where}: the lines of group {group_id} are for two clusters")
    if place in planned.new:
        raise PlanUnreadable(f"{where}: {place} of group {group_id} occurs twice")
    committed, new = (_offset(text, where) for text in row[3:5])
    assert isinstance(planned.committed, dict) and isinstance(planned.new, dict)
    planned.committed[place], planned.new[place] = committed, new


def _offset(text: str, where: str) -> int | None:
    if text and not _is_number(text, LONG_MAX):
        raise PlanUnreadable(f"{where}: {text!r} is no offset")
    return int(text) if text else None


def _is_number(text: str, largest: int) -> bool:
    return text.isdecimal() and len(text) <= len(str(largest)) and int(text) <= largest


# --- the execution ---


class Step(StrEnum):
    """What became of a group."""

    DONE = "done"
    ALREADY = "already done"
    """The offsets were those of the plan before."""
    MOVED = "moved"
    """Offsets were committed since the plan was made: nothing was changed."""
    ACTIVE = "active"
    """The group has members: nothing was changed."""
    REFUSED = "refused"
    """The cluster refused it; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one group."""

    planned: PlannedOffsets
    step: Step
    message: str = ""


def execute(admin: Admin, plan: Sequence[PlannedOffsets]) -> Iterator[Outcome]:
    """Execute a plan, group by group, and yield what became of each. A group of another cluster is refused.

    Raises `ClientError` when the cluster cannot be reached; the same call continues from there.
    """
    cluster_id = cluster_id_of(admin)
    for planned in plan:
        if planned.cluster_id in ("", cluster_id):
            yield _execute_one(admin, planned)
        else:
            yield Outcome(
                planned, Step.REFUSED, f"planned for cluster {planned.cluster_id}, not {cluster_id}"
            )


def cluster_id_of(admin: Admin) -> str:
    """Return the id of the cluster; empty if its nodes do not tell."""
    return admin.cluster.metadata([]).cluster_id or ""


def _execute_one(admin: Admin, planned: PlannedOffsets) -> Outcome:
    try:
        return _compare_and_set(admin, planned)
    except RequestRefused as refused:
        if refused.is_retriable:
            raise
        return Outcome(planned, Step.REFUSED, refusal_text(refused))


def refusal_text(refused: ClientError) -> str:
    """Return why a group is not reset."""
    if isinstance(refused, IsShareGroup):
        return f"group {refused.group_id} is a share group: use `headgate share-groups`"
    return str(refused)


def _compare_and_set(admin: Admin, planned: PlannedOffsets) -> Outcome:
    found = admin.committed_offsets(planned.group_id, planned.new)
    current = {place: found[place].offset if place in found else None for place in planned.new}
    if current == planned.new:
        return Outcome(planned, Step.ALREADY)
    if current != planned.committed:
        return Outcome(planned, Step.MOVED, _difference(current, planned.committed))
    is_conditional = admin.knows_conditions(planned.group_id)
    if not is_conditional and None in planned.new.values():
        return Outcome(planned, Step.REFUSED, _NO_REMOVAL)
    try:
        admin.alter_offsets(planned.group_id, planned.new, planned.committed if is_conditional else None)
    except OffsetsMoved as moved:
        return Outcome(planned, Step.MOVED, str(moved))
    except GroupIsActive as active:
        return Outcome(planned, Step.ACTIVE, str(active))
    except (PartlyRefused, RequestRefused, VersionNotSupported) as refused:
        return Outcome(planned, Step.REFUSED, refusal_text(refused))
    return Outcome(planned, Step.DONE)


def _difference(
    current: Mapping[TopicPartition, int | None], committed: Mapping[TopicPartition, int | None]
) -> str:
    place = next(place for place, offset in committed.items() if current[place] != offset)
    return f"{place} is at {_text(current[place])}, not at {_text(committed[place])}"


def _text(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)
