"""Rewrite the files of past days into one file for each partition and date.

A merged file is written under a hidden name, `_START-END.parquet`. Then the files that it replaces are
deleted, and it gets its name. A hidden file that exists is complete, so a merge that was killed is continued
from there. In between, a reader may miss the rows of that date, but never sees one twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headgate.spark.landing import tables
from headgate.spark.landing.files import Folder, UnreadableFile
from headgate.spark.landing.groups import PAUSES_SCHEMA, REBALANCES_SCHEMA
from headgate.spark.landing.reading import view_schema
from headgate.spark.landing.sampling import ENDS_SCHEMA, LAG_SCHEMA

MOST_ROWS = 4_000_000
"""Maximum number of rows of a merged file, which limits a worker's memory."""

MOST_BYTES = 1 << 30
"""The same in bytes of memory: a column of Arrow cannot be sorted if it has twice as many."""

_SIZE_KEY = b"headgate.bytes"
"""Metadata of a file: the size of its rows in memory. Files of earlier releases have none."""
_SUFFIX = ".parquet"
_OFFSET = "log_offset"

SCHEMAS: Mapping[str, pa.Schema] = {
    **{table: view_schema(table) for table in tables.VIEWS},
    tables.REBALANCES: REBALANCES_SCHEMA,
    tables.PAUSES: PAUSES_SCHEMA,
    tables.END_OFFSETS: ENDS_SCHEMA,
    tables.LAG: LAG_SCHEMA,
}
"""The columns of the files that are merged, by table."""


@dataclass(frozen=True)
class MergeTask:
    """A table's folder of one date, and of one partition for a table that grows."""

    target: str
    table: str
    folder: str
    run_id: str = ""
    """As in `LandingTask`."""


def merge_tasks(target: Folder, chosen: Sequence[str], today: str) -> list[MergeTask]:
    """Return the folders of dates before `today` that have several files, or an unfinished merge."""
    tasks = []
    for table in chosen:
        if table in tables.GROWING or table in tables.SAMPLED:
            counts: dict[str, int] = {}
            for name in filter(tables.is_landed, target.names(table)):
                folder, _, file = name.rpartition("/")
                counts[folder] = counts.get(folder, 0) + (2 if file.startswith(tables.HIDDEN) else 1)
            tasks += [
                MergeTask(target.uri, table, folder)
                for folder, count in counts.items()
                if count > 1 and _is_before(folder, today)
            ]
    return tasks


def with_size(rows: pa.Table) -> pa.Table:
    """Return the rows with their size in the metadata, which a merge asks for."""
    return rows.replace_schema_metadata({_SIZE_KEY: str(rows.nbytes).encode()})


def merge(task: MergeTask) -> None:
    """Merge the files of a folder. Raises OSError."""
    target = Folder(task.target)
    for name in _names(target, task.folder):
        if _file(name).startswith(tables.HIDDEN):
            _finish(target, name)
    for names in _groups(target, _names(target, task.folder)):
        first, last = _bounds(names[0])[0], _bounds(names[-1])[1]
        # Files of an earlier release may lack columns.
        rows = pa.concat_tables(
            [_rows_of(target, task.table, name) for name in names], promote_options="default"
        )
        if order := tables.ORDER.get(task.table):
            rows = rows.sort_by([(column, "ascending") for column in order])
        hidden = f"{task.folder}/{tables.HIDDEN}{first}-{last}{_SUFFIX}"
        target.write_table(hidden, with_size(rows))
        _finish(target, hidden)


def _rows_of(target: Folder, table: str, name: str) -> pa.Table:
    """Read a file. Raises UnreadableFile if its rows are not those of this table and its offsets: they would
    be mixed with others, and the file deleted.
    """
    rows, wanted = target.read_table(name), SCHEMAS[table]
    shared = [column for column in wanted if column.name in rows.column_names]
    is_of_table = len(shared) in (len(wanted), rows.num_columns) and all(
        rows.schema.field(column.name).type == column.type
        for column in shared
        if not pa.types.is_nested(column.type)
    )
    if not is_of_table or (table in tables.GROWING and not _is_in_bounds(rows, name)):
        raise UnreadableFile(
            f"{target.location()}/{name} is not what was landed there, by its columns or offsets: "
            "restore it, or delete it if its rows may be lost"
        )
    return rows


def _is_in_bounds(rows: pa.Table, name: str) -> bool:
    first, end = tables.bounds_in(name)
    offset = rows[_OFFSET]
    is_within = pc.and_(pc.greater_equal(offset, first), pc.less(offset, end))
    return bool(pc.all(is_within, min_count=0).as_py())


def _finish(target: Folder, hidden: str) -> None:
    """Replace the files whose rows are in a hidden file by that file."""
    first, last = _bounds(hidden)
    folder, _, file = hidden.rpartition("/")
    for name in _names(target, folder):
        begin, end = _bounds(name)
        if name != hidden and first <= begin and end <= last:
            target.delete(name)
    target.rename(hidden, f"{folder}/{file.removeprefix(tables.HIDDEN)}")


def _names(target: Folder, folder: str) -> list[str]:
    """Return the files of a landing in a folder: those of other programs are left alone."""
    return [name for name in target.names(folder) if tables.is_landed(name)]


def _groups(target: Folder, names: Sequence[str]) -> Iterator[list[str]]:
    """Yield consecutive files that make one merged file each."""
    group: list[str] = []
    rows = size = 0
    for name in sorted(names, key=_bounds):
        footer = target.footer(name)
        count, bytes_more = footer.num_rows, int((footer.metadata or {}).get(_SIZE_KEY, 0))
        if group and (rows + count > MOST_ROWS or size + bytes_more > MOST_BYTES):
            if len(group) > 1:
                yield group
            group, rows, size = [], 0, 0
        group.append(name)
        rows, size = rows + count, size + bytes_more
    if len(group) > 1:
        yield group


def _bounds(name: str) -> tuple[str, str]:
    """Return the first and the last number in the name of a file, which all have the same width."""
    first, _, last = _file(name).removeprefix(tables.HIDDEN).removesuffix(_SUFFIX).partition("-")
    return first, last or first


def _file(name: str) -> str:
    return name.rpartition("/")[2]


def _is_before(folder: str, today: str) -> bool:
    date = folder.rpartition("date=")[2]
    return date != tables.NO_DATE and date < today
