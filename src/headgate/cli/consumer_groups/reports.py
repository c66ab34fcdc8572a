"""`--list` and `--describe`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.admin import (
    Admin,
    GroupDescription,
    GroupExpiry,
    GroupListing,
    MemberDescription,
    Position,
    TopicPartition,
)
from headgate.admin.errors import moment
from headgate.admin.survey import SurveyedGroup, Surveyor, survey_groups
from headgate.cli.consumer_groups.expiring import remarks_on_expiry
from headgate.cli.consumer_groups.groups import all_not_there, asked_groups
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.remarks import REBALANCING, assignment_text, remarks_on, remarks_on_pauses
from headgate.cli.incomplete import gaps, told_gaps
from headgate.cli.printing import (
    Columns,
    Row,
    headings_of,
    print_csv,
    print_json,
    print_table,
    printable,
    say,
)
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import GroupId, Millis

STATES = ("Empty", "Stable", *REBALANCING, "Dead")
TYPES = ("Classic", "Consumer")


# --list


def list_groups(admin: Admin, options: Options) -> int:
    """Print the ids of the groups, and with --state and --type their states and types.

    Return 1 if groups are missing.
    """
    states, types = _words("--state", options.state, STATES), _words("--type", options.type, TYPES)
    surveyor = Surveyor(admin.cluster)
    listings = surveyor.listings(states, types)
    _print_listings(listings, options)
    return 1 if told_gaps(surveyor) else 0


def _print_listings(listings: Sequence[GroupListing], options: Options) -> None:
    rows = [_listing_row(listing) for listing in listings]
    if options.output == "json":
        print_json({"groups": rows})
        return
    shown = ["group"] + [
        name for name in ("type", "state") if name in options.given or options.output == "csv"
    ]
    if options.output == "csv":
        print_csv(rows, shown)
    elif shown == ["group"]:
        for listing in listings:
            print(printable(listing.group_id))
    else:
        print_table(rows, shown)


def _words(option: str, text: str | None, known: Sequence[str]) -> list[str]:
    """Return the words of a comma-separated list in Kafka's spelling. Raises `UsageProblem`."""
    spelt = {word.lower(): word for word in known}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word.lower() not in spelt:
            raise UsageProblem(f"{option} {text}: {word} is unknown; choose from {', '.join(known)}")
    return [spelt[word.lower()] for word in words]


def _listing_row(listing: GroupListing) -> Row:
    return {
        "group": listing.group_id,
        "type": listing.group_type or None,
        "state": listing.state or None,
        "protocol_type": listing.protocol_type,
    }


# --describe

_OFFSETS = (
    "group",
    "topic",
    "partition",
    "current_offset",
    "log_end_offset",
    "lag",
    "consumer_id",
    "host",
    "client_id",
    "paused",
    "expires",
)
_OFFSETS_VERBOSE = (*_OFFSETS[:3], "leader_epoch", *_OFFSETS[3:], "metadata")
_MEMBERS = ("group", "consumer_id", "group_instance_id", "host", "client_id", "partition_count")
_MEMBERS_VERBOSE = (
    *_MEMBERS,
    "current_epoch",
    "assignment",
    "target_epoch",
    "target_assignment",
    "upgraded",
)
_STATE = ("group", "coordinator", "type", "assignment_strategy", "state", "member_count")
_STATE_VERBOSE = (*_STATE[:5], "group_epoch", "target_assignment_epoch", _STATE[5])


def describe_groups(admin: Admin, options: Options) -> int:
    """Print the descriptions of the groups. Return 1 if one of them does not exist, or has no answer."""
    surveyor = Surveyor(admin.cluster)
    surveyed = _survey(surveyor, asked_groups(surveyor, options), options)
    columns = _columns(options)
    reports = [_report(one, options) for one in surveyed.values() if one.description is not None]
    if options.output == "json":
        print_json({"groups": [_as_json(one.group, one.rows, options) for one in reports]})
    elif options.output == "csv":
        print_csv((row for one in reports for row in one.rows), columns)
    else:
        has_printed = False
        for one in reports:
            for remark in one.remarks:
                say(remark)
            if one.rows:
                if has_printed:
                    print()
                has_printed = True
                shown = _without_empty(one.rows, columns)
                print_table(one.rows, shown, headings_of(shown, assignment="CURRENT-ASSIGNMENT"))
    missing = [group_id for group_id, one in surveyed.items() if one.description is None]
    problems = [*all_not_there(admin, missing), *gaps(surveyor)]
    for problem in problems:
        say(problem)
    return 1 if problems else 0


@dataclass(frozen=True, slots=True)
class _Report:
    group: GroupDescription
    rows: list[Row]
    remarks: list[str]


def _survey(surveyor: Surveyor, group_ids: Iterable[str], options: Options) -> Mapping[str, SurveyedGroup]:
    wanted = list(map(GroupId, group_ids))
    if _shows_offsets(options):
        return survey_groups(surveyor, wanted, with_expiry=True).groups
    described = surveyor.descriptions(wanted)
    return {
        group_id: SurveyedGroup(description=group, positions=(), expiry=None)
        for group_id, group in described.items()
    }


def _report(one: SurveyedGroup, options: Options) -> _Report:
    group = one.description
    assert group is not None
    rows = _rows(group, one.positions, one.expiry, options)
    remarks = [
        *remarks_on(group, has_rows=bool(rows)),
        *remarks_on_expiry(group, one.expiry),
        *remarks_on_pauses(
            f"group {group.group_id}", (each.paused for each in one.positions if each.paused is not None)
        ),
    ]
    return _Report(group, rows, remarks)


def _columns(options: Options) -> Columns:
    if options.members:
        return _MEMBERS_VERBOSE if options.verbose else _MEMBERS
    if options.state is not None:
        return _STATE_VERBOSE if options.verbose else _STATE
    return _OFFSETS_VERBOSE if options.verbose else _OFFSETS


def _without_empty(rows: Sequence[Row], columns: Columns) -> Columns:
    """Omit the columns for instance ids, upgrades, pauses and expiry if there are none."""
    empty = {
        "group_instance_id": not any(row.get("group_instance_id") for row in rows),
        "upgraded": not any(row.get("upgraded") is False for row in rows),
        "paused": not any(row.get("paused") for row in rows),
        "expires": not any(row.get("expires") for row in rows),
    }
    return [column for column in columns if not empty.get(column)]


def _shows_offsets(options: Options) -> bool:
    return not options.members and options.state is None


def _rows(
    group: GroupDescription, positions: Iterable[Position], expiry: GroupExpiry | None, options: Options
) -> list[Row]:
    if options.members:
        return [_member_row(group, member) for member in group.members]
    if options.state is not None:
        return [_state_row(group)]
    expiries = {} if expiry is None else expiry.offsets
    return [_position_row(group, position, expiries.get(position.partition)) for position in positions]


def _position_row(group: GroupDescription, position: Position, expires_at: Millis | None) -> Row:
    committed, member = position.committed, position.member
    return {
        "group": group.group_id,
        "topic": position.partition.topic,
        "partition": position.partition.partition,
        "current_offset": committed.offset if committed else None,
        "log_end_offset": position.log_end_offset,
        "lag": position.lag,
        "consumer_id": member.member_id if member else None,
        "host": member.host if member else None,
        "client_id": member.client_id if member else None,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata if committed else None,
        "paused": str(position.paused.state) if position.paused else None,
        "expires": None if expires_at is None else moment(expires_at),
    }


def _member_row(group: GroupDescription, member: MemberDescription) -> Row:
    return {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partition_count": None if member.assignment is None else len(member.assignment),
        "current_epoch": member.member_epoch,
        "assignment": None if member.assignment is None else assignment_text(member.assignment),
        "target_epoch": group.assignment_epoch,
        "target_assignment": None if member.target is None else assignment_text(member.target),
        "upgraded": member.is_upgraded,
    }


def _state_row(group: GroupDescription) -> Row:
    return {
        "group": group.group_id,
        "coordinator": group.coordinator,
        "type": group.group_type,
        "assignment_strategy": group.assignor or None,
        "state": group.state,
        "member_count": len(group.members),
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
    }


def _as_json(group: GroupDescription, rows: Sequence[Row], options: Options) -> Row:
    """Return the group's state, and its `offsets` or `members` as requested."""
    about = _state_row(group)
    if options.state is not None:
        return about
    if options.members:
        return {
            **about,
            "members": [
                {
                    **{name: value for name, value in row.items() if name != "group"},
                    "assignment": _partitions_as_json(member.assignment),
                    "target_assignment": _partitions_as_json(member.target),
                    "subscribed_topics": member.subscribed_topics,
                    "subscribed_regex": member.subscribed_regex,
                }
                for row, member in zip(rows, group.members, strict=True)
            ],
        }
    return {**about, "offsets": [{k: v for k, v in row.items() if k != "group"} for row in rows]}


def _partitions_as_json(partitions: Iterable[TopicPartition] | None) -> list[Row] | None:
    if partitions is None:
        return None
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
