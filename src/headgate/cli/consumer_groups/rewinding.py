"""`--rewind`: pause, wait for the release, set the offsets and resume, in a running group (KIP-1249)."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from headgate.admin import (
    Admin,
    RewindProgress,
    RewindStep,
    RewoundPartition,
    Target,
    ToOffsets,
    TopicPartition,
)
from headgate.admin.survey import Surveyor
from headgate.cli.connecting import INTERRUPTED, caller, connection_words
from headgate.cli.consumer_groups.changes import OF_ONE_GROUP, print_plans, targets_of, warn_of_moved
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.pausing import (
    RELEASE_TIMEOUT_S,
    progress,
    waiting_text,
    why_refused,
)
from headgate.cli.printing import Columns, Row, print_rows, say

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_REWOUND: Columns = ("group", "topic", "partition", "previous_offset", "new_offset", "state")


def rewind(admin: Admin, options: Options) -> int:
    """Show the offsets that a rewind sets; with `--execute`, set them. Return 1 if a group was refused."""
    if not options.execute:
        return _show(admin, options)
    with _signals_interrupt():
        return _execute(admin, options)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an interruption, which resumes the partitions before the command ends."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signals = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]  # nohup ignores SIGHUP
    try:
        for one in signals:
            signal.signal(one, interrupt)
        yield
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)


def _targets(admin: Admin, options: Options) -> dict[str, tuple[Target, list[TopicPartition]]]:
    """Return the target and the partitions of each group."""
    targets, named = targets_of(admin, options, Surveyor(admin.cluster))
    found: dict[str, tuple[Target, list[TopicPartition]]] = {}
    for group_id, target in targets.items():
        if named is not None:
            found[group_id] = target, named
        elif isinstance(target, ToOffsets):
            found[group_id] = target, list(target.offsets)
        else:
            found[group_id] = target, list(admin.committed_offsets(group_id))
    return found


def _show(admin: Admin, options: Options) -> int:
    done = []
    is_refused = False
    for group_id, (target, partitions) in _targets(admin, options).items():
        try:
            admin.list_paused_partitions(group_id)  # refused for a group that cannot be paused
            planned = admin.plan_rewind(group_id, dict.fromkeys(partitions, target))
        except OF_ONE_GROUP as error:
            say(why_refused(admin, group_id, error))
            is_refused = True
            continue
        done.append((group_id, planned))
        warn_of_moved(group_id, planned)
    print_plans(done, options)
    return 1 if is_refused else 0


def _execute(admin: Admin, options: Options) -> int:
    rows: list[Row] = []
    is_refused = False
    for group_id, (target, partitions) in _targets(admin, options).items():
        try:
            with progress(f"group {group_id}: pausing") as show:

                def on_progress(at: RewindProgress, group_id: str = group_id) -> None:
                    is_waiting = at.step is RewindStep.WAITING
                    text = waiting_text(at.waiting_for, at.elapsed_s) if is_waiting else str(at.step)
                    show(f"group {group_id}: {text}")

                rewound = admin.rewind(
                    group_id,
                    dict.fromkeys(partitions, target),
                    reason=options.reason or "",
                    caller=caller(),
                    timeout_s=options.release_timeout or RELEASE_TIMEOUT_S,
                    on_progress=on_progress,
                )
        except OF_ONE_GROUP as error:
            say(why_refused(admin, group_id, error))
            is_refused = True
            if isinstance(error.__cause__, KeyboardInterrupt):
                return INTERRUPTED
            continue
        except KeyboardInterrupt as interruption:
            notes = getattr(interruption, "__notes__", ("nothing was changed",))
            say("; ".join([f"group {group_id}: interrupted", *notes]))
            return INTERRUPTED
        rows += [_row(group_id, each) for each in rewound]
        _say_of(group_id, rewound, options)
    print_rows(rows, _REWOUND, "partitions", options.output)
    return 1 if is_refused else 0


def _row(group_id: str, each: RewoundPartition) -> Row:
    return {
        "group": group_id,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "previous_offset": each.before.offset if each.before else None,
        "new_offset": each.offset,
        "state": "paused" if each.stays_paused else "resumed",
    }


def _say_of(group_id: str, rewound: Sequence[RewoundPartition], options: Options) -> None:
    """Print the differences to the requested rewind, and how to undo it."""
    warn_of_moved(group_id, rewound)
    for each in rewound:
        if each.stays_paused:
            stays = f"{each.partition} is paused by somebody else, and stays paused"
            say(f"group {group_id}: {stays}: --resume resumes it")
    moved = [each for each in rewound if each.before is not None and each.before.offset != each.offset]
    if moved:
        say(f"to take it back: {_undo_command(group_id, moved, options)}")
        if new := [str(each.partition) for each in rewound if each.before is None]:
            say(
                f"group {group_id}: no offset before: {', '.join(new)}; that command leaves the new one there"
            )


def _undo_command(group_id: str, moved: Sequence[RewoundPartition], options: Options) -> str:
    """Return the command that restores the former offsets; for several partitions they go into a file."""
    words = ["headgate", "consumer-groups", *connection_words(options), "--rewind", "--group", group_id]
    former = [(each.partition, each.before.offset) for each in moved if each.before is not None]
    if len(former) == 1:
        ((topic, partition), offset) = former[0]
        words += ["--topic", f"{topic}:{partition}", "--to-offset", str(offset)]
    else:
        words += ["--from-file", _write_undo(group_id, former)]
    return shlex.join([*words, "--execute"])


def _write_undo(group_id: str, former: Iterable[tuple[TopicPartition, int]]) -> str:
    """Write the former offsets to a new file in the working directory, in the format of --from-file.

    Return its name. If the file cannot be written, print the offsets for the user.
    """
    lines = [f"{topic},{partition},{offset}" for (topic, partition), offset in former]
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in group_id)[:100]
    path = Path(f"headgate-undo-{safe}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}.csv")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
    except OSError as error:
        say(f"{path.name} cannot be written ({error.strerror}); it would have these lines:")
        for line in lines:
            say(line)
    return path.name
