"""The landed tables: their names, and where their files are.

    growing   TABLE/log_partition=7/date=2026-11-22/START-END.parquet     one file for each range and date
    current   TABLE/log_partition=7/current.parquet                       one file, replaced as a whole
    daily     offsets_daily/log_partition=7/date=2026-11-22/last.parquet  the last `offsets_current` of a day
    samples   TABLE/date=2026-11-22/RUN.parquet                           one file for each sample
    empty     TABLE/log_partition=0/date=2026-11-22/empty.parquet         no rows: the table had no other file

A current table has its end offset in the metadata of the file. A repeated run therefore recognises a file
that it has replaced already. Files with other names are not a landing's: a program that rewrites a table by
its Delta log leaves some. No reader here takes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TopicName
from headgate.spark.source import (
    GROUP_EVENTS_VIEW,
    OFFSET_COMMITS_VIEW,
    SHARE_DELIVERIES_VIEW,
    TRANSACTIONS_VIEW,
)

OFFSET_COMMITS: Final = "offset_commits"
GROUP_EVENTS: Final = "group_events"
OFFSETS_CURRENT: Final = "offsets_current"
OFFSETS_DAILY: Final = "offsets_daily"
ASSIGNMENTS: Final = "assignments"
REBALANCES: Final = "rebalances"
PAUSES: Final = "pauses"
TRANSACTIONS: Final = "transactions"
SHARE_DELIVERIES: Final = "share_deliveries"
END_OFFSETS: Final = "end_offsets"
LAG: Final = "lag"

VIEWS = {
    OFFSET_COMMITS: OFFSET_COMMITS_VIEW,
    GROUP_EVENTS: GROUP_EVENTS_VIEW,
    TRANSACTIONS: TRANSACTIONS_VIEW,
    SHARE_DELIVERIES: SHARE_DELIVERIES_VIEW,
}
"""The tables that are views of a log, each with the columns of the reader of that name."""

_OTHER_LOGS = {TRANSACTIONS: TRANSACTION_STATE_TOPIC, SHARE_DELIVERIES: SHARE_STATE_TOPIC}
"""The logs of tables that are not made from the group coordinator's log."""

TABLES = (
    OFFSET_COMMITS,
    GROUP_EVENTS,
    OFFSETS_CURRENT,
    ASSIGNMENTS,
    REBALANCES,
    PAUSES,
    TRANSACTIONS,
    SHARE_DELIVERIES,
    END_OFFSETS,
    LAG,
)
"""The tables that can be chosen. `offsets_daily` comes with `offsets_current`."""

OF_GROUPS = (ASSIGNMENTS, REBALANCES, PAUSES)
GROWING = (OFFSET_COMMITS, GROUP_EVENTS, REBALANCES, PAUSES, TRANSACTIONS, SHARE_DELIVERIES)
SAMPLED = (END_OFFSETS, LAG)
CURRENT = (OFFSETS_CURRENT, ASSIGNMENTS)

ORDER = {
    OFFSET_COMMITS: ("group_id", "topic", "partition", "log_offset"),
    GROUP_EVENTS: ("group_id", "log_offset"),
    REBALANCES: ("group_id", "log_offset"),
    PAUSES: ("group_id", "log_offset", "topic_id", "partition"),
    TRANSACTIONS: ("transactional_id", "log_offset"),
    SHARE_DELIVERIES: ("group_id", "topic_id", "partition", "log_offset"),
}
"""The order of the rows in the files of the tables that grow."""

TIME = {
    OFFSET_COMMITS: "log_timestamp",
    GROUP_EVENTS: "log_timestamp",
    REBALANCES: "at",
    PAUSES: "log_timestamp",
    TRANSACTIONS: "log_timestamp",
    SHARE_DELIVERIES: "log_timestamp",
}
"""The column whose UTC date a file is stored under."""

NEEDS = {LAG: (OFFSETS_CURRENT, END_OFFSETS)}
"""The tables that another table is made from."""

NO_DATE = "unknown"

HIDDEN = "_"
"""The first character of the names of files that readers of a folder ignore."""

_FILE = re.compile(r"(log_partition=\d+/)?date=[^/]+/_?(\d+(-\d+)?|last)\.parquet")


def log_of(table: str) -> TopicName:
    """Return the topic whose log a table is made from."""
    return _OTHER_LOGS.get(table, GROUP_OFFSETS_TOPIC)


def logs_of(tables: Iterable[str]) -> list[TopicName]:
    """Return the topics that tables are made from, in order, each once."""
    return sorted({log_of(table) for table in tables if table != END_OFFSETS})


def missing_for(tables: Iterable[str]) -> list[str]:
    """Return the tables that these tables are made from, and that are not among them."""
    chosen = set(tables)
    return sorted({need for table in chosen for need in NEEDS.get(table, ())} - chosen)


def in_order(tables: Sequence[str]) -> tuple[str, ...]:
    """Return the tables in the order of `TABLES`, each once."""
    return tuple(table for table in TABLES if table in tables)


def with_daily(chosen: Iterable[str]) -> list[str]:
    """Return the chosen tables, and `offsets_daily` if it comes with them."""
    tables = list(chosen)
    return [*tables, OFFSETS_DAILY] if OFFSETS_CURRENT in tables else tables


def range_file(table: str, partition: int, date: str, start: int, end: int) -> str:
    """Return the name of a file of a growing table."""
    return f"{table}/log_partition={partition}/date={date}/{start:020d}-{end:020d}.parquet"


def bounds_in(name: str) -> tuple[int, int]:
    """Return the first and the last number in the name of a file: start and end offset, or runs."""
    first, _, last = name.rpartition("/")[2].removeprefix(HIDDEN).removesuffix(".parquet").partition("-")
    return int(first), int(last or first)


def partition_in(name: str) -> int:
    """Return the partition of the log in the name of a file."""
    return int(name.partition("log_partition=")[2].partition("/")[0])


def is_hidden(name: str) -> bool:
    """Return whether readers ignore a file, by its name."""
    return name.rpartition("/")[2].startswith(HIDDEN)


def is_landed(name: str) -> bool:
    """Return whether the name is one that a landing gives to a file of a table with dates."""
    return _FILE.fullmatch(name.partition("/")[2]) is not None


def whole_files(names: Iterable[str]) -> list[str]:
    """Return the files of a growing table that have its rows, each row once.

    A merged file of a killed run is complete under its hidden name, and some of the files that it replaces
    are deleted: it is taken in their place.
    """
    landed = [name for name in names if is_landed(name)]
    merged = defaultdict(list)
    for name in landed:
        if is_hidden(name):
            merged[name.rpartition("/")[0]].append(bounds_in(name))
    return [
        name for name in landed if is_hidden(name) or not _is_within(name, merged[name.rpartition("/")[0]])
    ]


def _is_within(name: str, ranges: Sequence[tuple[int, int]]) -> bool:
    first, last = bounds_in(name)
    return any(begin <= first and last <= end for begin, end in ranges)


def current_file(table: str, partition: int) -> str:
    """Return the name of the file of a current table."""
    return f"{table}/log_partition={partition}/current.parquet"


def daily_file(partition: int, time_us: int) -> str:
    """Return the name of the last `offsets_current` of the day of a time."""
    return f"{OFFSETS_DAILY}/log_partition={partition}/date={date_of(time_us)}/last.parquet"


def sample_file(table: str, run: int, time_us: int) -> str:
    """Return the name of the file of a sample."""
    return f"{table}/date={date_of(time_us)}/{run:012d}.parquet"


def empty_file(table: str, date: str) -> str:
    """Return the name of the file of a table that has no other file. Its path has the partition columns."""
    partition = "" if table in SAMPLED else "log_partition=0/"
    dated = "" if table in CURRENT else f"date={date}/"
    return f"{table}/{partition}{dated}empty.parquet"


def date_of(time_us: int) -> str:
    """Return the UTC date of a time, in us since the epoch."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%d")
