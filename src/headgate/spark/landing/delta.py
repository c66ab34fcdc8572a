"""A Delta log beside landed tables, made by `deltalake`: an option over the progress, not another truth.

At the end of each run the log of a table gets, in one commit, the difference between the files that the
progress covers and those that the log has. So a run that was killed needs nothing: the next one finds the
same difference. Only tables whose files never change have a log; those that are replaced as a whole do not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from headgate.spark.landing import tables
from headgate.spark.landing.files import FileAbout, Folder
from headgate.spark.landing.progress import Progress
from headgate.spark.options import OptionError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

_DATE, _LOG_PARTITION = "date", "log_partition"
_PARTITION_TYPES: Mapping[str, pa.DataType] = {_LOG_PARTITION: pa.int32(), _DATE: pa.string()}


def check_installed() -> None:
    """Raise OptionError if the library is missing."""
    if find_spec("deltalake") is None:
        raise OptionError("a Delta log needs deltalake: pip install 'headgate[delta]'")


def sync_logs(target: Folder, progress: Progress) -> None:
    """Bring the Delta logs of all tables up to the progress. Raises OSError, and errors of `deltalake`."""
    for table in (*progress.tables, tables.OFFSETS_DAILY):
        files = [one for one in target.about(table) if _is_covered(table, one.name, progress)]
        _sync(target, table, {one.name.partition("/")[2]: one for one in files})


def _is_covered(table: str, name: str, progress: Progress) -> bool:
    """Return whether a file has its final name and the rows of finished ranges."""
    if tables.is_hidden(name):
        return False
    if table in tables.GROWING:
        partition = int(_partition_values(name)[_LOG_PARTITION])
        landed = progress.of_log(tables.log_of(table)).get(partition)
        return landed is not None and tables.bounds_in(name)[1] <= landed.end
    return table in tables.SAMPLED or table == tables.OFFSETS_DAILY


def _sync(target: Folder, table: str, files: Mapping[str, FileAbout]) -> None:
    """Commit the difference between the files of a table and its log; `files` are by path in the table."""
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import RemoveAction, create_table_with_add_actions

    uri = f"{target.location()}/{table}"
    log = DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None
    known = {} if log is None else _known(log)
    added = [one for path, one in files.items() if known.get(path) != one.size]
    removed = sorted(known.keys() - files.keys())
    if not added and not removed:
        return
    adding = [_add_action(target, one) for one in added]
    if log is None:
        schema = Schema.from_arrow(_schema(target, added))
        create_table_with_add_actions(uri, schema, adding, partition_by=_partition_columns(added))
        return
    _add_columns(log, _schema(target, added))
    now = time.time_ns() // 1_000_000
    gone = [
        RemoveAction(path, data_change=True, deletion_timestamp=now, size=known[path]) for path in removed
    ]
    log.create_write_transaction([*adding, *gone], "append", log.schema(), log.metadata().partition_columns)


def _known(log: DeltaTable) -> dict[str, int]:
    """Return the files in the log, each with its size in bytes."""
    found = pa.table(log.get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pylist()
    return {row["path"]: row["size_bytes"] for row in found}


def _add_action(target: Folder, file: FileAbout) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.name.partition("/")[2],
        size=file.size,
        partition_values=_partition_values(file.name),
        modification_time=file.modified_ms,
        data_change=True,
        stats=json.dumps({"numRecords": target.row_count(file.name)}),
    )


def _add_columns(log: DeltaTable, schema: pa.Schema) -> None:
    """Add columns that tables of earlier releases lack."""
    from deltalake import Schema

    there = {column.name for column in log.schema().fields}
    missing = [column for column in Schema.from_arrow(schema).fields if column.name not in there]
    if missing:
        log.alter.add_columns(missing)


def _schema(target: Folder, files: Iterable[FileAbout]) -> pa.Schema:
    """Return the columns of files, with those in their paths."""
    schemas = [target.schema(one.name).remove_metadata() for one in files]
    columns = [pa.field(name, _PARTITION_TYPES[name]) for name in _partition_columns(files)]
    return pa.schema([*pa.unify_schemas(schemas), *columns]) if schemas else pa.schema([])


def _partition_columns(files: Iterable[FileAbout]) -> list[str]:
    """Return the columns in the paths of the files of a table."""
    return list(_partition_values(next(iter(files)).name))


def _partition_values(name: str) -> dict[str, str]:
    """Return the values in the path of a file."""
    return dict(part.split("=", 1) for part in name.split("/") if "=" in part)
