"""`--history`, `--offsets-as-of`, `--undo` and `--to-offsets-as-of`: show and restore past offsets."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Sequence

from headgate.admin import (
    Admin,
    AlreadyUndone,
    ChangeAuthor,
    Earlier,
    GroupIsActive,
    HistoryUnknown,
    NothingToReset,
    OffsetAsOf,
    OffsetChange,
    OffsetHistory,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    PlannedRestore,
    PlannedUndo,
    RequestRefused,
    TopicGone,
    TopicNow,
    TopicPartition,
)
from headgate.admin.errors import moment
from headgate.admin.reset import outside_of_log
from headgate.admin.survey import Surveyor
from headgate.cli.advice import in_words, of_group_in_words
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_topic
from headgate.cli.consumer_groups.groups import asked_groups, not_there
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.plans import PLAN, plan_row, print_plan, printed_if_it_ends_early
from headgate.cli.incomplete import told_gaps
from headgate.cli.printing import Columns, Row, print_csv, print_json, print_table, say
from headgate.cli.progress import progress_bar
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.times import as_datetime

DEFAULT_LIMIT = 100

_OF_ONE_GROUP = (
    AlreadyUndone,
    GroupIsActive,
    HistoryUnknown,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    RequestRefused,
    TopicGone,
)
"""Errors of one group, after which the command continues with the other groups."""
_CHANGE: Columns = (
    "group",
    "time",
    "topic",
    "partition",
    "change",
    "offset",
    "leader_epoch",
    "metadata",
    "by",
)
_AS_OF: Columns = (
    "group",
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "metadata",
    "since",
    "topic_now",
)
_PLAN: Columns = (*PLAN, "metadata")
UNKNOWN = "unknown"


# --history


def list_history(admin: Admin, options: Options) -> int:
    """Print the changes of the groups' offsets, the newest first. Return 1 if a group never existed."""
    since = None if options.since is None else as_datetime(_parse_time(options.since, "--since"))
    until = None if options.until is None else as_datetime(_parse_time(options.until, "--until"))
    if since is not None and until is not None and since > until:
        raise UsageProblem(f"--since {options.since}: that is later than --until {options.until}")
    places = _places(options)
    found: dict[str, OffsetHistory] = {}
    surveyor = Surveyor(admin.cluster)
    group_ids = _asked_groups(surveyor, options)
    with progress_bar("reading the history", len(group_ids)) as advance:
        for group_id in group_ids:
            found[group_id] = admin.offset_history(
                group_id, places, since=since, until=until, limit=options.limit or DEFAULT_LIMIT
            )
            advance()
    rows = [row for group_id, history in found.items() for row in _change_rows(group_id, history)]
    if options.output == "json":
        document = [
            {
                "group": group_id,
                "known_since": _moment(history.known_since),
                "changes": [_without_group(row) for row in _change_rows(group_id, history)],
            }
            for group_id, history in found.items()
        ]
        print_json({"groups": document})
    else:
        _print(rows, _CHANGE, options)
    is_refused = False
    for group_id, history in found.items():
        if not any(each.changes for each in history.partitions):
            is_known = (since, until) != (None, None) and _is_known(admin, group_id, places)
            nothing = f"group {group_id}: there is no known change of its offsets in that time"
            is_refused |= not is_known and _is_nowhere(admin, options, group_id)
            say(nothing if is_known else _nothing_known(admin, options, group_id))
        _say_what_is_missing(group_id, history)
    return 1 if told_gaps(surveyor) or is_refused else 0


def _change_rows(group_id: str, history: OffsetHistory) -> list[Row]:
    """Return the rows of changes, and a separating row for each topic that was deleted and created again."""
    changes = [change for partition in history.partitions for change in partition.changes]
    changes.sort(key=lambda change: change.log_offset, reverse=True)
    rows: list[Row] = []
    separated: set[TopicName] = set()
    for change in changes:
        if change.topic_now is TopicNow.RECREATED and change.partition.topic not in separated:
            separated.add(change.partition.topic)
            created = history.topics[change.partition.topic].created
            rows.append(_recreation_row(group_id, change.partition.topic, created))
        rows.append(_change_row(group_id, change))
    return rows


def _recreation_row(group_id: str, topic: TopicName, created: Millis) -> Row:
    return {
        "group": group_id,
        "time": _moment(created),
        "topic": topic,
        "partition": None,
        "change": "recreated",
        "offset": None,
        "leader_epoch": None,
        "metadata": None,
        "by": None,
        "topic_now": TopicNow.SAME,
    }


def _by(author: ChangeAuthor | None) -> str | None:
    """Return the client id and the address of who made a change."""
    return f"{author.client_id}{author.host}" if author else None


def _change_row(group_id: str, change: OffsetChange) -> Row:
    committed = change.committed
    return {
        "group": group_id,
        "time": _moment(change.time),
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "change": "removed" if committed is None else "committed",
        "offset": committed.offset if committed else None,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata if committed else None,
        "by": _by(change.author),
        "topic_now": change.topic_now,
    }


def _say_what_is_missing(group_id: str, history: OffsetHistory) -> None:
    changes = (change for each in history.partitions for change in each.changes)
    for topic in sorted({one.partition.topic for one in changes if one.topic_now is TopicNow.DELETED}):
        say(f"group {group_id}: topic {topic} is deleted; its offsets cannot be restored")
    if any(each.earlier is Earlier.MORE for each in history.partitions):
        say(f"group {group_id}: there are older changes; --limit and --since show more")
    if history.known_since >= 0:
        say(f"group {group_id}: offsets replaced before {_moment(history.known_since)} may be missing")


# --offsets-as-of


def offsets_as_of(admin: Admin, options: Options) -> int:
    """Print the groups' offsets as of a time. Return 1 if one of them is unknown, or a group is."""
    asked = _parse_time(options.offsets_as_of or "", "--offsets-as-of")
    _say_if_future(asked)
    places = _places(options)
    rows: list[Row] = []
    unknown = 0
    is_refused = False
    surveyor = Surveyor(admin.cluster)
    group_ids = _asked_groups(surveyor, options)
    with progress_bar("reading the history", len(group_ids)) as advance:
        for group_id in group_ids:
            found = admin.offsets_as_of(group_id, as_datetime(asked), places)
            shown = [each for each in found if not each.is_known or each.committed]
            if not shown:
                is_known = _is_known(admin, group_id, places)
                nothing = f"group {group_id} had no offsets then"
                is_refused |= not is_known and _is_nowhere(admin, options, group_id)
                say(nothing if is_known else _nothing_known(admin, options, group_id))
            rows += [_as_of_row(group_id, each) for each in shown]
            for topic in sorted(
                {each.partition.topic for each in shown if each.topic_now is not TopicNow.SAME}
            ):
                say(f"group {group_id}: its offsets in {topic} belong to a topic that was deleted since")
            unknown += sum(not each.is_known for each in found)
            advance()
    if options.output == "json":
        print_json({"as_of": _moment(asked), "offsets": rows})
    else:
        _print(rows, _AS_OF, options)
    if unknown:
        are = "is" if unknown == 1 else "are"
        say(f"{unknown} of the offsets {are} unknown: the history does not go back so far")
    return 1 if told_gaps(surveyor) or unknown or is_refused else 0


def _as_of_row(group_id: str, each: OffsetAsOf) -> Row:
    committed = each.committed
    return {
        "group": group_id,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "offset": committed.offset if committed else UNKNOWN,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata if committed else None,
        "since": None if each.since is None else _moment(each.since),
        "topic_now": each.topic_now,
    }


# --undo, and --reset-offsets --to-offsets-as-of


def undo(admin: Admin, options: Options) -> int:
    """Show the undo of each group's last change; with --execute, do it. Return 1 if a group was refused."""
    places = _places(options)

    def plan(group_id: str) -> PlannedUndo:
        planned = admin.plan_undo(group_id, places)
        by = _by(planned.author) or "a consumer, an expiry or an unknown client"
        say(f"group {group_id}: the last change was at {_moment(planned.changed_at)}, by {by}")
        if planned.took_back is not None and not options.redo:
            already = AlreadyUndone(group_id, planned.changed_at, planned.took_back)
            if options.execute:
                raise already
            say(in_words(already))
        return planned

    return _restore(admin, options, plan)


def restore_offsets(admin: Admin, options: Options) -> int:
    """Show the restore of each group's offsets; with --execute, do it. Return 1 if a group was refused."""
    asked = _parse_time(options.to_offsets_as_of or "", "--to-offsets-as-of")
    _say_if_future(asked)
    at = as_datetime(min(asked, Millis(time.time_ns() // 1_000_000)))
    places = _places(options)
    return _restore(admin, options, lambda group_id: admin.plan_restore(group_id, at, places))


def _restore(
    admin: Admin, options: Options, plan: Callable[[str], PlannedUndo | Sequence[PlannedRestore]]
) -> int:
    rows: list[Row] = []
    is_refused = False
    surveyor = Surveyor(admin.cluster)
    group_ids = _asked_groups(surveyor, options)
    with (
        printed_if_it_ends_early(options, rows, lambda: print_plan(rows, _PLAN, options)),
        progress_bar("restoring" if options.execute else "planning", len(group_ids)) as advance,
    ):
        for group_id in group_ids:
            advance()
            try:
                planned = plan(group_id)
                if options.execute:
                    admin.execute_restore(group_id, planned)
                partitions = planned.partitions if isinstance(planned, PlannedUndo) else planned
            except NothingToReset:
                say(_nothing_known(admin, options, group_id))
                is_refused = True
                continue
            except _OF_ONE_GROUP as error:
                say(of_group_in_words(group_id, error))
                is_refused = True
                continue
            if not partitions and _is_known(admin, group_id, _places(options)):
                say(f"group {group_id}: all offsets are already as they were then")
            elif not partitions:
                say(_nothing_known(admin, options, group_id))
                is_refused = True
            rows += [_plan_row(group_id, each) for each in partitions]
            for each in partitions:
                if each.past_offset is not None and each.log_start is not None:
                    say(f"group {group_id}: {_outside(each, each.past_offset, each.log_start)}")
    print_plan(rows, _PLAN, options)
    return 1 if told_gaps(surveyor) or is_refused else 0


def _outside(each: PlannedRestore, past: int, start: int) -> str:
    """Return what to know of an offset before the start of its log; an undo restores it all the same."""
    text = outside_of_log(each.partition, past, start)
    if each.restored is None or each.restored.offset == start:
        return text
    moved = f"--reset-offsets --to-offset {start} moves the group there"
    return f"{text}: a consumer begins where its auto.offset.reset says; {moved}"


def _plan_row(group_id: str, each: PlannedRestore) -> Row:
    restored = each.restored
    row = plan_row(group_id, each, restored.offset if restored else None)
    return row | {"metadata": restored.metadata if restored else None}


# Shared


def _asked_groups(surveyor: Surveyor, options: Options) -> list[str]:
    """Return the requested groups. A group that was deleted has a history, but is in no list of groups."""
    group_ids = asked_groups(surveyor, options)
    if options.all_groups:
        say(
            "--all-groups has no groups that were deleted: name them with --group "
            "(the server's log has their names)"
        )
    return group_ids


def _parse_time(text: str, option: str) -> Millis:
    """Parse a date and time from 1970 on. Raises `UsageProblem`."""
    asked = parse_datetime(text, option)
    if asked < 0:
        raise UsageProblem(f"{option} {text}: a time from 1970 on is expected")
    return asked


def _say_if_future(asked: Millis) -> None:
    if asked > time.time() * 1000:
        say(f"{_moment(asked)} is in the future: the present offsets are used")


def _is_known(admin: Admin, group_id: str, places: list[TopicPartition | str] | None) -> bool:
    """Tell whether the history has a change of these partitions."""
    return any(each.changes for each in admin.offset_history(group_id, places, limit=1).partitions)


def _is_nowhere(admin: Admin, options: Options, group_id: str) -> bool:
    """Tell whether a group without known changes does not exist and is in no history."""
    surveyor = Surveyor(admin.cluster)
    is_absent = bool(surveyor.absent([GroupId(group_id)]))
    for error in surveyor.failed.values():
        raise error
    return is_absent and not (options.topic and _is_known(admin, group_id, None))


def _nothing_known(admin: Admin, options: Options, group_id: str) -> str:
    """Return the message for a group without known changes. The usual reason is a mistyped name."""
    if _is_nowhere(admin, options, group_id):
        return not_there(admin, group_id)
    if not options.topic:
        return f"group {group_id} has no known offsets"
    topics = admin.topics()
    named = [parse_topic(each).topic for each in options.topic]
    near = [difflib.get_close_matches(each, topics, n=1) for each in named if each not in topics]
    meant = " ".join(each[0] for each in near if each)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"group {group_id} has no known offsets in {' '.join(options.topic)}{hint}"


def _places(options: Options) -> list[TopicPartition | str] | None:
    """Return the partitions and topics of --topic, which can be deleted ones; None: all in the history."""
    if not options.topic:
        return None
    places: list[TopicPartition | str] = []
    for topic, partitions in map(parse_topic, options.topic):
        if partitions is None:
            places.append(topic)
        else:
            places += (TopicPartition(TopicName(topic), partition) for partition in partitions)
    return places


def _print(rows: list[Row], columns: Columns, options: Options) -> None:
    if options.output == "csv":
        print_csv(rows, columns)
    elif rows:
        print_table(rows, columns)


def _without_group(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "group"}


def _moment(time: Millis) -> str | None:
    """Return a time in ISO 8601, as --to-datetime takes it; None for a negative time."""
    if time < 0:
        return None
    return moment(time)
