"""`--pause`, `--resume` and `--paused-partitions`: pauses of partitions in a running group (KIP-1249)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from headgate.admin import (
    Admin,
    ClientError,
    NotReleased,
    PausedPartition,
    RequestRefused,
    TopicPartition,
    Waiting,
)
from headgate.admin.errors import moment
from headgate.admin.survey import Surveyor
from headgate.cli.advice import in_words, with_notes
from headgate.cli.connecting import INTERRUPTED, caller
from headgate.cli.consumer_groups.changes import OF_ONE_GROUP, named_partitions
from headgate.cli.consumer_groups.groups import asked_groups, not_there
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.remarks import assignment_text
from headgate.cli.incomplete import told_gaps
from headgate.cli.printing import Columns, Row, print_rows, printable, say
from headgate.cli.usage_problem import UsageProblem
from headgate.client.errors import VersionNotSupported
from headgate.domain.errors import ErrorCode
from headgate.domain.pauses import refuse_reason_of_rewind

RELEASE_TIMEOUT_S = 300
_PAUSED: Columns = (
    "group",
    "topic",
    "partition",
    "state",
    "current_offset",
    "owner",
    "since",
    "by",
    "reason",
)
RESUMED: Columns = ("group", "topic", "partition", "state")


# --pause


def checked_reason(reason: str | None) -> str:
    """Return the reason of a pause. Raises `UsageProblem` for that of a rewind."""
    try:
        refuse_reason_of_rewind(reason or "")
    except ValueError as problem:
        raise UsageProblem(f"--reason: {problem}") from problem
    return reason or ""


def pause(admin: Admin, options: Options) -> int:
    """Pause partitions, wait for their release and print them; return 1 if that failed for a group."""
    reason = checked_reason(options.reason)
    found: list[Row] = []
    has_failed = False
    for group_id in dict.fromkeys(options.group):
        try:
            partitions = _partitions(admin, options, admin.committed_offsets(group_id))
            if not partitions:
                say(f"group {group_id} has no committed offsets: name the topics with --topic")
                has_failed = True
                continue
            admin.pause_partitions(group_id, partitions, reason=reason, caller=caller())
            if not options.no_wait:
                wait_for_release(admin, group_id, partitions, options.release_timeout, _waiting_text)
        except NotReleased as error:
            say(in_words(error))
            has_failed = True
        except KeyboardInterrupt:
            say(f"group {group_id}: interrupted; the partitions may be paused: --resume resumes them")
            return INTERRUPTED
        except OF_ONE_GROUP as error:
            say(why_refused(admin, group_id, error))
            has_failed = True
            continue
        found += _paused_rows(group_id, _among(admin.list_paused_partitions(group_id), partitions))
    print_rows(found, _PAUSED, "partitions", options.output)
    return 1 if has_failed else 0


def wait_for_release(
    admin: Admin,
    group_id: str,
    partitions: Iterable[TopicPartition],
    timeout_s: float | None,
    text_of: Callable[[Waiting], str],
) -> None:
    """Wait until no member has these partitions, and show what is waited for. Raises `NotReleased`."""
    with progress(f"group {group_id}: pausing") as show:
        admin.wait_until_paused(
            group_id,
            partitions,
            timeout_s or RELEASE_TIMEOUT_S,
            on_progress=lambda waiting: show(f"group {group_id}: {text_of(waiting)}"),
        )


def _waiting_text(waiting: Waiting) -> str:
    return waiting_text(waiting.waiting_for, waiting.elapsed_s)


def waiting_text(waiting_for: Iterable[PausedPartition], elapsed_s: float) -> str:
    """Return the text that shows what a wait for the release waits for."""
    held = sorted(one.partition for one in waiting_for)
    if not held:
        return "released"
    return f"waiting until {assignment_text(held)} is released ({elapsed_s:.0f} s)"


@contextmanager
def progress(first: str) -> Iterator[Callable[[str], None]]:
    """Show one changing line on standard error during the block, if it is a terminal."""

    def plain(text: str) -> Text:
        return Text(printable(text))  # names may look like markup

    with Console(stderr=True).status(plain(first)) as status:
        yield lambda text: status.update(plain(text))


# --resume


def resume(admin: Admin, options: Options) -> int:
    """Resume partitions and print them; return 1 if a group was refused."""
    rows: list[Row] = []
    is_refused = False
    for group_id in dict.fromkeys(options.group):
        try:
            paused = admin.list_paused_partitions(group_id)
            partitions = _partitions(admin, options, paused)
            admin.resume_partitions(group_id, partitions)
        except OF_ONE_GROUP as error:
            say(why_refused(admin, group_id, error))
            is_refused = True
            continue
        rows += resumed_rows(group_id, partitions, paused)
    print_rows(rows, RESUMED, "partitions", options.output)
    return 1 if is_refused else 0


def resumed_rows(
    group_id: str, partitions: Collection[TopicPartition], paused: Container[TopicPartition]
) -> list[Row]:
    """Return a row for each partition that was to be resumed; `paused` has those that were paused."""
    if not partitions:
        say(f"group {group_id} has no paused partitions")
    return [
        {
            "group": group_id,
            "topic": one.topic,
            "partition": one.partition,
            "state": "resumed" if one in paused else "was not paused",
        }
        for one in partitions
    ]


# --paused-partitions


def list_paused(admin: Admin, options: Options) -> int:
    """Print the paused partitions of groups.

    Return 1 if a named group cannot have any, or if groups are missing.
    """
    surveyor = Surveyor(admin.cluster)
    rows: list[Row] = []
    is_refused = False
    for group_id in asked_groups(surveyor, options):
        try:
            rows += _paused_rows(group_id, admin.list_paused_partitions(group_id))
        except (RequestRefused, VersionNotSupported) as error:
            if not (options.all_groups and _has_no_pauses(error)):
                say(why_refused(admin, group_id, error))
                is_refused = True
    print_rows(rows, _PAUSED, "partitions", options.output)
    is_refused |= told_gaps(surveyor)
    if not rows and not is_refused and options.output == "table":
        say("no partition is paused")
    return 1 if is_refused else 0


def _has_no_pauses(error: RequestRefused | VersionNotSupported) -> bool:
    """Tell whether the group, or every group of its coordinator, cannot be paused."""
    return isinstance(error, VersionNotSupported) or error.error is ErrorCode.GROUP_ID_NOT_FOUND


# --- shared ---


def _partitions(admin: Admin, options: Options, all_topics: Iterable[TopicPartition]) -> list[TopicPartition]:
    return list(all_topics) if options.all_topics else named_partitions(admin, options)


def _among(
    paused: Mapping[TopicPartition, PausedPartition], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PausedPartition]:
    wanted = set(partitions)
    return {partition: each for partition, each in paused.items() if partition in wanted}


def _paused_rows(group_id: str, paused: Mapping[TopicPartition, PausedPartition]) -> list[Row]:
    return [
        {
            "group": group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "current_offset": each.offset,
            **pause_row(each),
        }
        for partition, each in paused.items()
    ]


def pause_row(paused: PausedPartition) -> Row:
    """Return the cells of a row that describe a pause."""
    return {
        "state": str(paused.state),
        "owner": paused.owner,
        "since": moment(paused.since) if paused.since >= 0 else None,
        "by": paused.caller,
        "reason": paused.reason,
    }


def why_refused(admin: Admin, group_id: str, error: ClientError) -> str:
    """Return why a group is refused. Groups that cannot be paused get GROUP_ID_NOT_FOUND too."""
    if isinstance(error, RequestRefused) and error.error is ErrorCode.GROUP_ID_NOT_FOUND:
        if admin.describe_group(group_id) is None:
            return not_there(admin, group_id)
        return with_notes(str(error), error)
    return in_words(error)
