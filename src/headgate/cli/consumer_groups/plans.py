"""Planned changes of offsets, printed in the formats of `--output`, or as `--from-file` reads them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager

from headgate.admin import ClientError, PlannedOffset, PlannedRestore
from headgate.admin.csv_rows import csv_writer
from headgate.cli.consumer_groups.options import Options
from headgate.cli.printing import Columns, Row, print_json, print_rows, say
from headgate.domain.wording import some_of

PLAN: Columns = ("group", "topic", "partition", "current_offset", "new_offset")


def plan_row(group_id: str, planned: PlannedOffset | PlannedRestore, new_offset: int | None) -> Row:
    """Return the row of one planned offset; None if it is to be removed."""
    return {
        "group": group_id,
        "topic": planned.partition.topic,
        "partition": planned.partition.partition,
        "current_offset": planned.committed.offset if planned.committed else None,
        "new_offset": new_offset,
    }


def print_plan(rows: Sequence[Row], columns: Columns, options: Options) -> None:
    """Print planned or executed changes; in a table, say if nothing was changed."""
    if options.export:
        _export(rows, is_one=len(options.group) == 1)
    elif options.output == "json":
        print_json({"is_executed": options.execute, "offsets": rows})
    else:
        print_rows(rows, columns, "offsets", options.output)
        if rows and options.output == "table" and not options.execute:
            say("nothing was changed; add --execute to make the changes")


@contextmanager
def printed_if_it_ends_early(options: Options, done: Sized, print_done: Callable[[], None]) -> Iterator[None]:
    """Print the executed changes also if a lost server or Ctrl-C ends the command before its last group."""
    try:
        yield
    except (ClientError, KeyboardInterrupt):
        if options.execute and done:
            print_done()
            say("the command ended before its last group: only what is printed was changed")
        raise


def _export(rows: Sequence[Row], *, is_one: bool) -> None:
    """Print Kafka's CSV format, which --from-file reads: no heading, and no group if there is only one.

    It cannot represent offsets to be removed, which are omitted, and told.
    """
    writer = csv_writer(sys.stdout)
    names = ("topic", "partition", "new_offset")
    for row in rows:
        if row["new_offset"] is not None:
            writer.writerow([row[name] for name in (names if is_one else ("group", *names))])
    removed = [
        f"{row['group']} {row['topic']}-{row['partition']}" for row in rows if row["new_offset"] is None
    ]
    if removed:
        say(
            "the format of --export cannot say that an offset is removed; left out: "
            + some_of(removed, len(removed))
        )
