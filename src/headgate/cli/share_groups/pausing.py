"""`--pause`, `--resume`, `--paused-partitions` and `--rewind` of share groups that run (KIP-1249)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from headgate.admin import (
    Admin,
    NotPaused,
    NotReleased,
    PartlyRefused,
    PausedPartition,
    PlannedOffset,
    RequestRefused,
    RewindUnfinished,
    RewoundSharePartition,
    TopicPartition,
    Waiting,
)
from headgate.admin.survey import Surveyor
from headgate.cli.advice import in_words
from headgate.cli.connecting import INTERRUPTED, caller, connection_words
from headgate.cli.consumer_groups.changes import warn_of_moved
from headgate.cli.consumer_groups.pausing import (
    RELEASE_TIMEOUT_S,
    RESUMED,
    checked_reason,
    pause_row,
    progress,
    resumed_rows,
    wait_for_release,
)
from headgate.cli.consumer_groups.remarks import assignment_text
from headgate.cli.incomplete import told_gaps
from headgate.cli.printing import Columns, Row, print_rows, say
from headgate.cli.share_groups.options import Options
from headgate.cli.share_groups.targets import asked_groups, asked_partitions, target_of

_PAUSED: Columns = ("group", "topic", "partition", "state", "start_offset", "owner", "since", "by", "reason")
_REWOUND: Columns = ("group", "topic", "partition", "previous_offset", "new_offset", "state")
_OF_ONE_GROUP = (PartlyRefused, RequestRefused, NotReleased, NotPaused, RewindUnfinished)


def pause(admin: Admin, options: Options) -> int:
    """Pause share-partitions, wait until members have no records of them, and print them."""
    reason = checked_reason(options.reason)
    rows: list[Row] = []
    has_failed = False
    for group_id in dict.fromkeys(options.group):
        try:
            partitions = asked_partitions(admin, group_id, options)
            admin.pause_partitions(group_id, partitions, reason=reason, caller=caller())
            if not options.no_wait:
                wait_for_release(admin, group_id, partitions, options.release_timeout, _waiting_text)
        except NotReleased as error:
            say(in_words(error, "share-groups"))
            has_failed = True
        except KeyboardInterrupt:
            say(f"group {group_id}: interrupted; the partitions may be paused: --resume resumes them")
            return INTERRUPTED
        except _OF_ONE_GROUP as error:
            say(in_words(error, "share-groups"))
            has_failed = True
            continue
        paused = admin.list_paused_partitions(group_id)
        rows += _paused_rows(admin, group_id, [paused[one] for one in partitions if one in paused])
    print_rows(rows, _PAUSED, "partitions", options.output)
    return 1 if has_failed else 0


def _waiting_text(waiting: Waiting) -> str:
    held = sorted(one.partition for one in waiting.waiting_for)
    if not held:
        return "released"
    return f"waiting until members have no records of {assignment_text(held)} ({waiting.elapsed_s:.0f} s)"


def resume(admin: Admin, options: Options) -> int:
    """Resume share-partitions and print them; return 1 if a group was refused."""
    rows: list[Row] = []
    is_refused = False
    for group_id in dict.fromkeys(options.group):
        try:
            paused = admin.list_paused_partitions(group_id)
            partitions = list(paused) if options.all_topics else asked_partitions(admin, group_id, options)
            admin.resume_partitions(group_id, partitions)
        except _OF_ONE_GROUP as error:
            say(in_words(error, "share-groups"))
            is_refused = True
            continue
        rows += resumed_rows(group_id, partitions, paused)
    print_rows(rows, RESUMED, "partitions", options.output)
    return 1 if is_refused else 0


def list_paused(admin: Admin, options: Options) -> int:
    """Print the paused share-partitions of groups; return 1 if a named group does not exist."""
    surveyor = Surveyor(admin.cluster)
    rows: list[Row] = []
    is_refused = False
    for group_id in asked_groups(surveyor, options):
        try:
            rows += _paused_rows(admin, group_id, admin.list_paused_partitions(group_id).values())
        except RequestRefused as error:
            say(in_words(error, "share-groups"))
            is_refused = True
    print_rows(rows, _PAUSED, "partitions", options.output)
    is_refused |= told_gaps(surveyor)
    if not rows and not is_refused and options.output == "table":
        say("no share-partition is paused")
    return 1 if is_refused else 0


def _paused_rows(admin: Admin, group_id: str, paused: Iterable[PausedPartition]) -> list[Row]:
    starts = {one.partition: one.start_offset for one in admin.share_offsets(group_id)} if paused else {}
    return [
        {
            "group": group_id,
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "start_offset": starts.get(one.partition),
            **pause_row(one),
        }
        for one in paused
    ]


# --- --rewind ---


def rewind(admin: Admin, options: Options) -> int:
    """Show the start offsets that a rewind sets; with `--execute`, set them in the running group."""
    rows: list[Row] = []
    is_refused = False
    for group_id in dict.fromkeys(options.group):
        try:
            planned = admin.plan_share_reset(asked_partitions(admin, group_id, options), target_of(options))
            if options.execute:
                starts = {one.partition: one.offset for one in planned}
                rewound = _rewind(admin, group_id, starts, options)
            else:
                rewound = _as_planned(admin, group_id, planned)
        except KeyboardInterrupt as interruption:
            notes = getattr(interruption, "__notes__", ("nothing was changed",))
            say("; ".join([f"group {group_id}: interrupted", *notes]))
            return INTERRUPTED
        except _OF_ONE_GROUP as error:
            say(in_words(error, "share-groups"))
            is_refused = True
            continue
        warn_of_moved(group_id, planned)
        rows += [_row(group_id, one, options) for one in rewound]
        _say_of(group_id, rewound, options)
    print_rows(rows, _REWOUND, "partitions", options.output)
    if rows and not options.execute and options.output == "table":
        say("nothing was changed; add --execute to make the changes")
    return 1 if is_refused else 0


def _rewind(
    admin: Admin, group_id: str, starts: dict[TopicPartition, int], options: Options
) -> list[RewoundSharePartition]:
    with progress(f"group {group_id}: pausing") as show:
        return admin.rewind_share_group(
            group_id,
            starts,
            reason=options.reason or "",
            caller=caller(),
            timeout_s=options.release_timeout or RELEASE_TIMEOUT_S,
            on_waiting=lambda waiting: show(f"group {group_id}: {_waiting_text(waiting)}"),
        )


def _as_planned(admin: Admin, group_id: str, planned: Iterable[PlannedOffset]) -> list[RewoundSharePartition]:
    admin.list_paused_partitions(group_id)  # refused for a group that cannot be paused
    former = {one.partition: one.start_offset for one in admin.share_offsets(group_id)}
    return [
        RewoundSharePartition(
            partition=one.partition,
            before=former.get(one.partition),
            offset=one.offset,
            asked_for=one.asked_for,
            stays_paused=False,
        )
        for one in planned
    ]


def _row(group_id: str, one: RewoundSharePartition, options: Options) -> Row:
    done = "paused" if one.stays_paused else "resumed"
    return {
        "group": group_id,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "previous_offset": one.before,
        "new_offset": one.offset,
        "state": done if options.execute else "planned",
    }


def _say_of(group_id: str, rewound: Iterable[RewoundSharePartition], options: Options) -> None:
    for one in rewound:
        if one.stays_paused:
            words = ["headgate", "share-groups", *connection_words(options), "--resume", "--group", group_id]
            words += ["--topic", f"{one.partition.topic}:{one.partition.partition}"]
            stays = f"{one.partition} is paused by somebody else, and stays paused"
            say(f"group {group_id}: {stays}; to resume it: {shlex.join(words)}")
