"""`--list` and `--describe`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from headgate.cli.consumer_groups.expiring import expiry_of, remarks_on_expiry
from headgate.cli.consumer_groups.groups import asked_groups, consumer_listings, not_there
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.remarks import REBALANCING, assignment_text, remarks_on, remarks_on_pauses
from headgate.cli.printing import Columns, Row, print_csv, print_json, print_table, printable, say
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import Millis

STATES = ("Empty", "Stable", *REBALANCING, "Dead")
TYPES = ("Classic", "Consumer")


# --list


def list_groups(admin: Admin, options: Options) -> int:
    """Print the ids of the groups, and with --state and --type their states and types."""
    states, types = _words("--state", options.state, STATES), _words("--type", options.type, TYPES)
    listings = consumer_listings(admin.list_groups(states, types))
    rows = [_listing_row(listing) for listing in listings]
    if options.output == "json":
        print_json({"groups": rows})
        return 0
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
    return 0


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
    """Print the descriptions of the groups. Return 1 if one of them does not exist."""
    group_ids = asked_groups(admin, options)
    described = admin.describe_groups(group_ids)
    found = [group for group in described.values() if group is not None]
    missing = [group_id for group_id, group in described.items() if group is None]
    columns, document = _columns(options), []
    reports: list[tuple[GroupDescription, list[Row], list[str]]] = []
    for group in found:
        positions = _positions(admin, group, options)
        expiry = expiry_of(admin, group) if _shows_offsets(options) else None
        rows = _rows(group, positions, expiry, options)
        remarks = [
            *remarks_on(group, has_rows=bool(rows)),
            *remarks_on_expiry(group, expiry),
            *remarks_on_pauses(group, positions),
        ]
        reports.append((group, rows, remarks))
        document.append(_as_json(group, rows, options))
    if options.output == "json":
        print_json({"groups": document})
    elif options.output == "csv":
        print_csv((row for _, rows, _ in reports for row in rows), columns)
    else:
        for number, (_, rows, remarks) in enumerate(reports):
            if number:
                print()
            for remark in remarks:
                say(remark)
            if rows:
                print_table(rows, _without_empty(rows, columns))
    for group_id in missing:
        say(not_there(admin, group_id))
    return 1 if missing else 0


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


def _positions(admin: Admin, group: GroupDescription, options: Options) -> list[Position]:
    return admin.positions_of(group.group_id, group) if _shows_offsets(options) else []


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
