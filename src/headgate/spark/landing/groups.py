"""The groups at one position of a partition of the coordinator's log, and the step to a later one.

`Groups` has what is needed to continue the tables `assignments`, `rebalances` and `pauses` without reading
the log from its start. The rows are those of the transforms `assignments()` and `rebalances()`. Events are
few compared with commits, so they are applied one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.records.share_group_model import ShareGroupRecordType
from headgate.spark.landing.sealed import sealed, unsealed
from headgate.spark.schemas import ASSIGNMENTS, PAUSES, REBALANCES, arrow_schema

Row = dict[str, Any]

_CLASSIC, _CONSUMER, _SHARE, _PAUSED = "classic", "consumer", "share", "paused"


def _schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column for column in schema if column.name != "log_partition"])


ASSIGNMENTS_SCHEMA = _schema(arrow_schema(ASSIGNMENTS))
REBALANCES_SCHEMA = _schema(arrow_schema(REBALANCES))
PAUSES_SCHEMA = _schema(arrow_schema(PAUSES))
EVENT_COLUMNS = (
    "log_offset",
    "log_timestamp",
    "record_type",
    "group_id",
    "event",
    "generation",
    "protocol",
    "leader",
    "state_timestamp",
    "members",
    "epoch",
    "member_id",
    "assigned",
    "paused",
    "is_tombstone",
)


@dataclass(slots=True)
class Groups:
    """The groups at the end offset `end`; each part by group id. Times are in us since the epoch."""

    end: int = 0
    classic: dict[str, Row] = field(default_factory=dict)
    """The last generation: `generation`, `at`, `written`, `log_offset`, and `members` with partitions."""
    consumer: dict[str, Row] = field(default_factory=dict)
    """Consumer and share groups: `members` now and `before`, at the last epoch, its time `at`, and `assigned`
    by member.
    """
    paused: dict[str, list[Row]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        parts = {_CLASSIC: self.classic, _CONSUMER: self.consumer, _PAUSED: self.paused}
        return sealed({"format": 1, "end": self.end, **parts})

    @classmethod
    def from_bytes(cls, data: bytes) -> Groups:
        """Read the state from JSON."""
        found = unsealed(data)
        return cls(found["end"], found[_CLASSIC], found[_CONSUMER], found[_PAUSED])


@dataclass(frozen=True, slots=True)
class Changes:
    """What a range of the log added to the two tables that grow."""

    rebalances: pa.Table
    pauses: pa.Table


def advance(groups: Groups, events: pa.Table, end: int) -> Changes:
    """Apply the rows of `group_events` from `groups.end` to `end`, in log order.

    They need only `EVENT_COLUMNS`.
    """
    rebalances: list[Row] = []
    pauses: list[Row] = []
    rows = _with_integers(events.select(list(EVENT_COLUMNS))).to_pylist()
    for event in rows:
        match event["event"]:
            case "assigned" | "emptied" | "removed":
                rebalances += _generation(groups, event)
            case "group_epoch":
                rebalances += _epoch(groups, event)
            case "member":
                _member(groups, event)
            case "member_assignment":
                _assignment(groups, event)
            case "paused_partitions":
                pauses += _pauses(groups, event)
    groups.end = end
    return Changes(
        pa.Table.from_pylist(rebalances, REBALANCES_SCHEMA), pa.Table.from_pylist(pauses, PAUSES_SCHEMA)
    )


def assignments_of(groups: Groups) -> pa.Table:
    """Return the partitions of each member, as `schemas.ASSIGNMENTS`."""
    rows: list[Row] = []
    for group_id, state in groups.classic.items():
        carried = {"epoch": state["generation"], "at": state["written"], "log_offset": state["log_offset"]}
        rows += (
            {"group_id": group_id, "group_type": _CLASSIC, "member_id": member_id, **carried, **one}
            for member_id, assigned in state["members"].items()
            for one in assigned
        )
    for group_id, state in groups.consumer.items():
        for member_id, of_member in state["assigned"].items():
            carried = {name: of_member[name] for name in ("epoch", "at", "log_offset")}
            kind = of_member.get("group_type", _CONSUMER)
            rows += (
                {"group_id": group_id, "group_type": kind, "member_id": member_id, **carried, **one}
                for one in of_member["partitions"]
            )
    return pa.Table.from_pylist(rows, ASSIGNMENTS_SCHEMA)


def _generation(groups: Groups, event: Row) -> Iterable[Row]:
    """A record of a classic group; it is a change if the generation or the members differ."""
    group_id = event["group_id"]
    before = groups.classic.pop(group_id, None)
    if event["event"] == "removed":
        return
    members = {
        member["member_id"]: [
            {"topic": one["topic"], "partition": one["partition"]} for one in member["assigned"] or ()
        ]
        for member in event["members"]
    }
    at = event["log_timestamp"] if event["state_timestamp"] is None else event["state_timestamp"]
    groups.classic[group_id] = {
        "generation": event["generation"],
        "at": at,
        "written": event["log_timestamp"],
        "log_offset": event["log_offset"],
        "members": members,
    }
    previous = before["members"] if before else {}
    joined = [member for member in members if member not in previous]
    left = [member for member in previous if member not in members]
    if joined or left or event["generation"] != (before["generation"] if before else 0):
        since = _milliseconds_between(at, before["at"] if before else None)
        yield {
            **{name: event[name] for name in ("group_id", "generation", "event", "protocol", "leader")},
            "at": at,
            "member_count": len(members),
            "joined": joined,
            "left": left,
            "since_previous_ms": since,
            "log_offset": event["log_offset"],
        }


def _consumer(groups: Groups, group_id: str) -> Row:
    nobody: Row = {"members": [], "before": [], "epoch": None, "at": None, "assigned": {}}
    return groups.consumer.setdefault(group_id, nobody)


def _member(groups: Groups, event: Row) -> None:
    group, member_id = _consumer(groups, event["group_id"]), event["member_id"]
    is_there = member_id in group["members"]
    if event["is_tombstone"] and is_there:
        group["members"].remove(member_id)
    elif not event["is_tombstone"] and not is_there:
        group["members"].append(member_id)


def _assignment(groups: Groups, event: Row) -> None:
    assigned = _consumer(groups, event["group_id"])["assigned"]
    assigned.pop(event["member_id"], None)
    if not event["is_tombstone"]:
        is_share = event["record_type"] == ShareGroupRecordType.CURRENT_ASSIGNMENT
        assigned[event["member_id"]] = {
            "group_type": _SHARE if is_share else _CONSUMER,
            "epoch": event["epoch"],
            "at": event["log_timestamp"],
            "log_offset": event["log_offset"],
            "partitions": [
                {"topic_id": one["topic_id"], "partition": one["partition"]}
                for one in event["assigned"] or ()
            ],
        }


def _epoch(groups: Groups, event: Row) -> Iterable[Row]:
    """The record of a group epoch, written after the records of the members that came and went.

    It is a change if the epoch or the members differ: a pause of an empty group that ends repeats the epoch.
    """
    group = _consumer(groups, event["group_id"])
    before, now = set(group["before"]), set(group["members"])
    group["before"] = sorted(now)
    if event["is_tombstone"]:
        group["at"] = group["epoch"] = None
        if not group["members"] and not group["assigned"]:
            del groups.consumer[event["group_id"]]
        return
    if now == before and event["epoch"] == group.get("epoch"):  # earlier releases did not keep it
        return
    at, last = event["log_timestamp"], group["at"]
    group["at"], group["epoch"] = at, event["epoch"]
    yield {
        "group_id": event["group_id"],
        "at": at,
        "generation": event["epoch"],
        "event": "assigned" if now else "emptied",
        "member_count": len(now),
        "joined": sorted(now - before),
        "left": sorted(before - now),
        "since_previous_ms": _milliseconds_between(at, last),
        "log_offset": event["log_offset"],
    }


def _pauses(groups: Groups, event: Row) -> Iterable[Row]:
    """Compare the paused partitions of a group with those of its record before."""
    group_id = event["group_id"]
    before = {_place(one): one for one in groups.paused.pop(group_id, ())}
    after = {_place(one): one for one in event["paused"] or ()}
    if after:
        groups.paused[group_id] = list(after.values())
    carried = {
        "group_id": group_id,
        "log_timestamp": event["log_timestamp"],
        "log_offset": event["log_offset"],
    }
    yield from ({**carried, **one, "change": "resumed"} for at, one in before.items() if at not in after)
    yield from ({**carried, **one, "change": "paused"} for at, one in after.items() if at not in before)


def _place(one: Mapping[str, Any]) -> tuple[str, int]:
    return one["topic_id"], one["partition"]


def _milliseconds_between(at: int | None, before: int | None) -> int | None:
    return None if at is None or before is None else at // 1000 - before // 1000


def _with_integers(events: pa.Table) -> pa.Table:
    """Return the events with times as integers, in us: JSON has no times."""
    paused = events["paused"].type
    integer = pa.list_(
        pa.field(
            "element",
            pa.struct(
                [
                    one if one.name != "paused_at" else pa.field(one.name, pa.int64())
                    for one in paused.value_type
                ]
            ),
        )
    )
    fields = [
        pa.field(one.name, pa.int64())
        if pa.types.is_timestamp(one.type)
        else pa.field("paused", integer)
        if one.name == "paused"
        else one
        for one in events.schema
    ]
    return events.cast(pa.schema(fields))
