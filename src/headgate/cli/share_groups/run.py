"""Run the requested action and return its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from headgate.admin import (
    Admin,
    ClientError,
    PartlyRefused,
    PausedPartition,
    RequestRefused,
    ShareGroupDescription,
    TopicPartition,
)
from headgate.admin.survey import Surveyor
from headgate.cli.absent_groups import all_absent
from headgate.cli.advice import in_words, notes_of
from headgate.cli.connecting import run_with_admin
from headgate.cli.consumer_groups.changes import warn_of_moved
from headgate.cli.consumer_groups.remarks import assignment_text, remarks_on_pauses
from headgate.cli.incomplete import told_gaps
from headgate.cli.named_groups import not_to_change
from headgate.cli.printing import (
    Columns,
    Row,
    print_csv,
    print_json,
    print_rows,
    print_table,
    printable,
    say,
)
from headgate.cli.share_groups.options import Options
from headgate.cli.share_groups.pausing import list_paused, pause, resume, rewind
from headgate.cli.share_groups.records import archive, redeliver, release, show_records
from headgate.cli.share_groups.targets import asked_groups, asked_partitions, target_of
from headgate.cli.share_groups.usage import action_of
from headgate.cli.usage_problem import UsageProblem
from headgate.client.pauses import list_on_nodes
from headgate.client.share_groups import SHARE, ShareOffset, share_offsets_on_nodes
from headgate.client.survey import Answers, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.domain.wording import counted

STATES = ("Empty", "Stable")
AnswerT = TypeVar("AnswerT")

_OFFSETS: Columns = ("group", "topic", "partition", "start_offset", "lag")
_OFFSETS_VERBOSE: Columns = (*_OFFSETS[:3], "leader_epoch", *_OFFSETS[3:])
_PAUSED: Columns = ("paused",)
"""An additional column of offsets. A table has it if a partition is paused."""
_MEMBERS: Columns = ("group", "consumer_id", "host", "client_id", "partition_count", "assignment")
_MEMBERS_VERBOSE: Columns = (*_MEMBERS[:5], "member_epoch", "assignment")
_STATE: Columns = ("group", "coordinator", "state", "member_count")
_STATE_VERBOSE: Columns = (*_STATE[:3], "group_epoch", "assignment_epoch", "member_count")


def run(options: Options) -> int:
    """Run the requested action, print its result and return the exit code."""
    return run_with_admin(options, lambda admin: _ACTIONS[action_of(options)](admin, options), "share-groups")


def list_groups(admin: Admin, options: Options) -> int:
    """Print the ids of the groups, and with --state their states."""
    states = [word.strip() for word in (options.state or "").split(",") if word.strip()]
    for word in states:
        if word.capitalize() not in STATES:
            raise UsageProblem(f"--state {options.state}: {word} is unknown; choose from {', '.join(STATES)}")
    surveyor = Surveyor(admin.cluster)
    listings = surveyor.all_listings([word.capitalize() for word in states], [SHARE])
    rows: list[Row] = [{"group": one.group_id, "state": one.state} for one in listings]
    if options.output == "table" and options.state is None:
        for one in listings:
            print(printable(one.group_id))
    else:
        print_rows(rows, ("group", "state"), "groups", options.output)
    return 1 if told_gaps(surveyor) else 0


# --- --describe ---


def describe_groups(admin: Admin, options: Options) -> int:
    """Print the descriptions of the groups. Return 1 if one of them does not exist."""
    surveyor = Surveyor(admin.cluster)
    group_ids = asked_groups(surveyor, options)
    described = admin.describe_share_groups(group_ids)
    found = [group for group in described.values() if group is not None]
    wanted = [group.group_id for group in found] if _columns(options)[1] == "offsets" else []
    survey = Survey(admin.cluster)
    offsets, failed = _parted(share_offsets_on_nodes(survey, wanted))
    paused, also_failed = _parted(list_on_nodes(survey, wanted))
    failed = {**also_failed, **failed}
    reports = [
        (group, _rows(group, offsets.get(group.group_id, []), paused.get(group.group_id, {}), options))
        for group in found
        if group.group_id not in failed
    ]
    columns, name = _columns(options)
    if options.output == "json":
        print_json({"groups": [{**_state_row(group), name: rows} for group, rows in reports]})
    elif options.output == "csv":
        print_csv((row for _, rows in reports for row in rows), (*columns, *_of_pauses(name)))
    else:
        has_printed = False
        for group, rows in reports:
            if not group.members and name != "offsets":
                say(f"share group {group.group_id} has no active members")
            pauses = paused.get(group.group_id, {})
            for remark in remarks_on_pauses(f"share group {group.group_id}", pauses.values()):
                say(remark)
            if rows:
                if has_printed:
                    print()
                has_printed = True
                print_table(rows, (*columns, *_of_pauses(name)) if pauses else columns)
            elif name == "offsets":
                say(f"share group {group.group_id} has no offset information")
    for text in all_absent(admin, [each for each in described if described[each] is None], are_shares=True):
        say(text)
    for text in dict.fromkeys(_in_words(error) for error in failed.values()):
        say(text)
    is_incomplete = told_gaps(surveyor)
    return 1 if is_incomplete or len(reports) < len(described) else 0


def _parted(answers: Answers[GroupId, AnswerT]) -> tuple[dict[GroupId, AnswerT], dict[GroupId, ClientError]]:
    """Return the answers of groups, and the errors of the others."""
    failed = {group_id: one for group_id, one in answers.items() if isinstance(one, ClientError)}
    found = {group_id: one for group_id, one in answers.items() if not isinstance(one, ClientError)}
    return found, failed


def _of_pauses(name: str) -> Columns:
    return _PAUSED if name == "offsets" else ()


def _columns(options: Options) -> tuple[Columns, str]:
    if options.members:
        return (_MEMBERS_VERBOSE if options.verbose else _MEMBERS), "members"
    if options.state is not None:
        return (_STATE_VERBOSE if options.verbose else _STATE), "states"
    return (_OFFSETS_VERBOSE if options.verbose else _OFFSETS), "offsets"


def _rows(
    group: ShareGroupDescription,
    offsets: list[ShareOffset],
    paused: Mapping[TopicPartition, PausedPartition],
    options: Options,
) -> list[Row]:
    if options.members:
        return [
            {
                "group": group.group_id,
                "consumer_id": member.member_id,
                "host": member.host,
                "client_id": member.client_id,
                "partition_count": len(member.assignment),
                "member_epoch": member.member_epoch,
                "assignment": assignment_text(member.assignment),
            }
            for member in group.members
        ]
    if options.state is not None:
        return [_state_row(group)]
    states = {where: str(one.state) for where, one in paused.items()}
    return [
        {
            "group": group.group_id,
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "leader_epoch": one.leader_epoch,
            "start_offset": one.start_offset,
            "lag": one.lag,
            "paused": states.get(one.partition),
        }
        for one in offsets
    ]


def _state_row(group: ShareGroupDescription) -> Row:
    return {
        "group": group.group_id,
        "coordinator": f"{group.coordinator} ({group.coordinator_id})",
        "state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
    }


# --- changes ---


def reset_offsets(admin: Admin, options: Options) -> int:
    """Show the new start offsets of each group; with --execute, set them. Return 1 if a group was refused."""
    target = target_of(options)
    rows: list[Row] = []
    is_refused = False
    group_ids = list(dict.fromkeys(options.group))
    refused = not_to_change(admin.cluster, group_ids, are_shares=True, may_be_new=options.create)
    for group_id in group_ids:
        if group_id in refused:
            say(refused[group_id])
            is_refused = True
            continue
        try:
            planned = admin.plan_share_reset(asked_partitions(admin, group_id, options), target)
            if options.execute:
                starts = {one.partition: one.offset for one in planned}
                admin.alter_share_offsets(group_id, starts)
        except PartlyRefused as error:
            say(_in_words(error))
            is_refused = True
            planned = [one for one in planned if one.partition not in error.refused]
        except RequestRefused as error:
            is_busy = error.error is ErrorCode.NON_EMPTY_GROUP
            say(f"{error}; {_REWIND}" if is_busy and admin.knows_pauses(group_id) else _in_words(error))
            is_refused = True
            continue
        if not options.execute:
            _warn_of_members(admin, group_id)
        warn_of_moved(group_id, planned)
        rows += [
            {
                "group": group_id,
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "new_offset": one.offset,
            }
            for one in planned
        ]
    if options.output == "json":
        print_json({"is_executed": options.execute, "offsets": rows})
    else:
        print_rows(rows, ("group", "topic", "partition", "new_offset"), "offsets", options.output)
        if rows and options.output == "table" and not options.execute:
            say("nothing was changed; add --execute to make the changes")
    return 1 if is_refused else 0


def _warn_of_members(admin: Admin, group_id: str) -> None:
    """Say of a plan that it cannot be executed while the group has members."""
    found = admin.describe_share_groups([group_id])[group_id]
    if found is not None and found.members:
        say(f"group {group_id} has {counted(len(found.members), 'member')}: {_STOP_OR_REWIND}")


def delete_groups(admin: Admin, options: Options) -> int:
    """Delete groups and print the result of each. Return 1 if one was refused."""
    surveyor = Surveyor(admin.cluster)
    group_ids = asked_groups(surveyor, options)
    errors: dict[str, ClientError] = {}
    kinds = Surveyor(admin.cluster)
    shares = kinds.share_groups(map(GroupId, group_ids))
    errors.update((str(group_id), error) for group_id, error in kinds.failed.items())
    missing = [group_id for group_id in group_ids if group_id not in shares and group_id not in errors]
    notes: list[str] = []
    try:
        admin.delete_groups(sorted(shares))
    except PartlyRefused as refused:
        errors.update(refused.refused)
        notes = notes_of(refused)
    not_found = RequestRefused("", ErrorCode.GROUP_ID_NOT_FOUND)
    results = {**errors, **dict.fromkeys(missing, not_found)}
    rows: list[Row] = [{"group": one, "status": _status(results.get(one))} for one in group_ids]
    code = _print_results(rows, ("group", "status"), "groups", errors, options)
    for text in [*all_absent(admin, missing, are_shares=True), *notes]:
        say(text)
    return max(code, bool(missing), told_gaps(surveyor))


def delete_offsets(admin: Admin, options: Options) -> int:
    """Forget topics in groups and print the result of each. Return 1 if one was refused."""
    rows: list[Row] = []
    errors: dict[str, ClientError] = {}
    topics = list(dict.fromkeys(options.topic))
    for group_id in dict.fromkeys(options.group):
        refused: Mapping[str, ClientError] = {}
        try:
            admin.delete_share_offsets(group_id, topics)
        except PartlyRefused as partly:
            refused = partly.refused
        except RequestRefused as error:
            refused = dict.fromkeys(topics, error)
        errors.update(refused)
        rows += [
            {"group": group_id, "topic": topic, "status": _status(refused.get(topic))} for topic in topics
        ]
    return _print_results(rows, ("group", "topic", "status"), "topics", errors, options)


_DELETED = "deleted"
_STOP_OR_REWIND = "stop them before --execute, or set start offsets while they run with --rewind"
_REWIND = (
    "`headgate share-groups --rewind` sets start offsets while the group runs; or stop its members first"
)


def _status(error: ClientError | None) -> str:
    if error is None:
        return _DELETED
    if isinstance(error, RequestRefused) and error.error is not None:
        return error.error.name
    return str(error)


def _print_results(
    rows: list[Row], columns: Columns, name: str, errors: Mapping[str, ClientError], options: Options
) -> int:
    print_rows(rows, columns, name, options.output)
    for text in dict.fromkeys(_in_words(error) for error in errors.values()):
        say(text)
    return 1 if errors else 0


def _in_words(error: ClientError) -> str:
    return in_words(error, "share-groups")


_ACTIONS: dict[str, Callable[[Admin, Options], int]] = {
    "list": list_groups,
    "describe": describe_groups,
    "records": show_records,
    "release": release,
    "archive": archive,
    "redeliver_dead_letters": redeliver,
    "pause": pause,
    "resume": resume,
    "paused_partitions": list_paused,
    "rewind": rewind,
    "reset_offsets": reset_offsets,
    "delete": delete_groups,
    "delete_offsets": delete_offsets,
}
