"""`--reset-offsets`, `--delete-offsets` and `--delete`: change offsets and groups, and print the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.admin import (
    Admin,
    ClientError,
    GroupIsActive,
    NothingToReset,
    NotPaused,
    NotReleased,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    PlannedOffset,
    RequestRefused,
    RewindUnfinished,
    RewoundPartition,
    Target,
    ToOffsets,
    TopicPartition,
)
from headgate.admin.reset import remarks_on_plan
from headgate.admin.survey import Surveyor
from headgate.cli.advice import in_words, notes_of, of_group_in_words
from headgate.cli.consumer_groups.arguments import parse_topic, read_offsets, target_of
from headgate.cli.consumer_groups.groups import all_not_there, asked_groups, not_there
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.plans import PLAN, plan_row, print_plan, printed_if_it_ends_early
from headgate.cli.incomplete import told_gaps
from headgate.cli.named_groups import not_to_change
from headgate.cli.named_partitions import partitions_of
from headgate.cli.printing import Row, print_rows, say
from headgate.client.errors import VersionNotSupported
from headgate.domain.errors import ErrorCode

OF_ONE_GROUP = (
    GroupIsActive,
    NotPaused,
    NotReleased,
    NothingToReset,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    RequestRefused,
    RewindUnfinished,
    VersionNotSupported,
)
"""Errors of one group, after which the command continues with the other groups."""
_PLANNED_AT_ONCE = 500
"""Groups whose resets are planned together, before the first of them is executed."""


# --reset-offsets


def reset_offsets(admin: Admin, options: Options) -> int:
    """Show the reset of each group; with --execute, do it. Return 1 if a group was refused."""
    surveyor = Surveyor(admin.cluster)
    targets, partitions = targets_of(admin, options, surveyor)
    refused: dict[str, str] = {}
    if options.from_file is not None or not options.all_groups:
        refused = not_to_change(admin.cluster, targets, are_shares=False, may_be_new=options.create)
    done: list[tuple[str, list[PlannedOffset]]] = []
    # Some at a time: the rest is planned from what is committed when its turn comes.
    group_ids = list(targets)
    with printed_if_it_ends_early(options, done, lambda: print_plans(done, options)):
        for at in range(0, len(group_ids), _PLANNED_AT_ONCE):
            several = group_ids[at : at + _PLANNED_AT_ONCE]
            there = {group_id: targets[group_id] for group_id in several if group_id not in refused}
            plans = admin.plan_resets(there, partitions)
            for group_id in several:
                if group_id in refused:
                    say(refused[group_id])
                    continue
                planned = plans[group_id]
                try:
                    if isinstance(planned, ClientError):
                        raise planned
                    if options.execute:
                        admin.execute_reset(group_id, planned)
                except OF_ONE_GROUP as error:
                    say(of_group_in_words(group_id, error))
                    continue
                done.append((group_id, planned))
                warn_of_moved(group_id, planned)
    print_plans(done, options)
    is_incomplete = told_gaps(surveyor)
    return 1 if is_incomplete or len(done) < len(targets) else 0


def targets_of(
    admin: Admin, options: Options, surveyor: Surveyor
) -> tuple[dict[str, Target], list[TopicPartition] | None]:
    """Return the target of each group, and the partitions of all; None: those of the target, or those with a
    committed offset.
    """
    if options.from_file is not None:
        read = read_offsets(options.from_file, options.group)
        _check_exist(admin, dict.fromkeys(where for offsets in read.values() for where in offsets))
        return {group_id: ToOffsets(offsets) for group_id, offsets in read.items()}, None
    target = target_of(options)
    named = None if options.all_topics else named_partitions(admin, options)
    return dict.fromkeys(asked_groups(surveyor, options), target), named


def named_partitions(admin: Admin, options: Options) -> list[TopicPartition]:
    """Return the partitions of --topic. Raises `RequestRefused` if one does not exist."""
    wanted: list[TopicPartition] = []
    for argument in map(parse_topic, options.topic):
        wanted += partitions_of(admin, *argument)
    return list(dict.fromkeys(wanted))


def _check_exist(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Raises `RequestRefused` if a partition does not exist."""
    numbers: dict[str, list[int]] = {}
    for where in partitions:
        numbers.setdefault(where.topic, []).append(where.partition)
    for topic, wanted in numbers.items():
        partitions_of(admin, topic, wanted)


def warn_of_moved(group_id: str, planned: Sequence[PlannedOffset | RewoundPartition]) -> None:
    """Say which offsets lay outside the log, and where no record is as new as the time asked for."""
    for remark in remarks_on_plan(planned):
        say(f"group {group_id}: {remark}")


def print_plans(done: list[tuple[str, list[PlannedOffset]]], options: Options) -> None:
    """Print the planned offsets of groups."""
    print_plan(
        [plan_row(group_id, each, each.offset) for group_id, planned in done for each in planned],
        PLAN,
        options,
    )


# --delete-offsets


def delete_offsets(admin: Admin, options: Options) -> int:
    """Delete offsets and print the result of each. Return 1 if one was refused."""
    rows: list[Row] = []
    arguments = [parse_topic(text) for text in options.topic]
    for group_id in dict.fromkeys(options.group):
        partitions = [each for argument in arguments for each in partitions_of(admin, *argument)]
        errors: dict[TopicPartition, ClientError] = {}
        try:
            admin.delete_offsets(group_id, partitions)
        except PartlyRefused as refused:
            errors.update(refused.refused)
            for error in {_status(each): each for each in reversed(errors.values())}.values():
                say(in_words(error))
        except RequestRefused as refused:
            is_missing = refused.error is ErrorCode.GROUP_ID_NOT_FOUND
            say(not_there(admin, group_id) if is_missing else in_words(refused))
            errors.update(dict.fromkeys(partitions, refused))
        rows += [
            {
                "group": group_id,
                "topic": each.topic,
                "partition": each.partition,
                "status": _status(errors.get(each)),
            }
            for each in partitions
        ]
    print_rows(rows, ("group", "topic", "partition", "status"), "offsets", options.output)
    return _exit_code(rows)


# --delete


def delete_groups(admin: Admin, options: Options) -> int:
    """Delete groups and print the result of each. Return 1 if one was refused."""
    surveyor = Surveyor(admin.cluster)
    group_ids = asked_groups(surveyor, options)
    errors: dict[str, ClientError] = {}
    notes: list[str] = []
    try:
        admin.delete_groups(group_ids)
    except PartlyRefused as refused:
        errors.update(refused.refused)
        notes = notes_of(refused)
    rows: list[Row] = [{"group": group_id, "status": _status(errors.get(group_id))} for group_id in group_ids]
    print_rows(rows, ("group", "status"), "groups", options.output)
    missing = [
        group_id
        for group_id, error in errors.items()
        if isinstance(error, RequestRefused) and error.error is ErrorCode.GROUP_ID_NOT_FOUND
    ]
    for text in all_not_there(admin, missing):
        say(text)
    for group_id, error in errors.items():
        if group_id not in missing:
            say(in_words(error))
    for note in notes:
        say(note)
    return max(_exit_code(rows), told_gaps(surveyor))


_DELETED = "deleted"


def _status(error: ClientError | None) -> str:
    if error is None:
        return _DELETED
    if isinstance(error, RequestRefused) and error.error is not None:
        return error.error.name
    return str(error)


def _exit_code(rows: Iterable[Row]) -> int:
    return 0 if all(row["status"] == _DELETED for row in rows) else 1
