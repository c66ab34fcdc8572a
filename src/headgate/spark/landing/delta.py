"""A Delta log beside landed tables, made by `deltalake`: an option over the progress, not another truth.

Rules:

1. At the end of each run the log of a table gets, in one commit, the difference between the files that the
   progress covers and those that the log has. So a run that was killed needs nothing: the next one finds the
   same difference. A log that was restored to an earlier version, or deleted, is made up for in the same way.
2. Only tables whose files never change have a log; those that are replaced as a whole do not.
3. Files that were merged change no data: streams over the table do not get their rows again.
4. Only landings write. Files of another program in the log stay there, and the run fails with what to do.
5. A log that cannot be read or written is a failure of the run, after all tables were landed.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from headgate.domain.wording import counted
from headgate.spark.landing import tables
from headgate.spark.landing.checking import is_covered
from headgate.spark.landing.empty import SCHEMAS
from headgate.spark.landing.files import DELTA_LOG, FileAbout, Folder
from headgate.spark.landing.progress import Progress
from headgate.spark.options import OptionError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyarrow.parquet import FileMetaData

_DATE, _LOG_PARTITION = "date", "log_partition"
_PARTITION_TYPES: Mapping[str, pa.DataType] = {_LOG_PARTITION: pa.int32(), _DATE: pa.string()}


_ARROW = "\u21b3"
_COLOUR = re.compile(r"\x1b\[\d+m")


class NotOurs(ValueError):
    """Another program wrote to a Delta log."""


@dataclass(frozen=True, slots=True)
class _Logged:
    """A file in a Delta log: its size in bytes, and its rows, -1 if the log does not tell them."""

    size: int
    row_count: int


def check_installed() -> None:
    """Raise OptionError if the library is missing."""
    if find_spec("deltalake") is None:
        raise OptionError("a Delta log needs deltalake: pip install 'headgate[delta]'")


def sync_logs(target: Folder, progress: Progress) -> list[str]:
    """Bring the Delta logs of all tables up to the progress; return what went wrong, for each table."""
    from deltalake.exceptions import DeltaError

    problems = []
    for table in tables.with_daily(progress.tables):
        if table in tables.CURRENT:
            continue
        try:
            there = target.about(table)
            if any(tables.is_hidden(one.name) and tables.is_landed(one.name) for one in there):
                continue  # a merge failed: its files change no data only together
            files = [one for one in there if _is_finished(table, one.name, progress)]
            _sync(target, table, {_path(one): one for one in files})
        except NotOurs as problem:
            problems.append(str(problem))
        except (DeltaError, OSError, ValueError, pa.ArrowException) as problem:
            log = f"{target.location()}/{table}/{DELTA_LOG}"
            problems.append(
                f"the Delta log of {table} does not follow the table: {_reason(problem)}. If it happens "
                f"again, delete {log}: the next run makes it anew"
            )
    return problems


def _reason(problem: Exception) -> str:
    """Return the message and its causes, which the library marks by arrows, without its frames."""
    first, *lines = _COLOUR.sub("", str(problem)).splitlines() or [repr(problem)]
    causes = [line.partition(_ARROW)[2].strip() for line in lines if line.lstrip().startswith(_ARROW)]
    return ": ".join([first, *causes])


def _is_finished(table: str, name: str, progress: Progress) -> bool:
    """Return whether a file has its final name and the rows of finished ranges."""
    if tables.is_hidden(name) or not tables.is_landed(name):
        return False
    if table in tables.GROWING:
        return is_covered(table, name, progress)
    return table in tables.SAMPLED or table == tables.OFFSETS_DAILY


def _sync(target: Folder, table: str, files: Mapping[str, FileAbout]) -> None:
    """Commit the difference between the files of a table and its log; `files` are by path in the table."""
    from deltalake import DeltaTable
    from deltalake.transaction import RemoveAction

    uri = f"{target.location()}/{table}"
    log = DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None
    known = {} if log is None else _known(log)
    _check_writer(uri, table, known)
    added = [one for path, one in files.items() if path not in known or known[path].size != one.size]
    removed = {path: known[path] for path in sorted(known.keys() - files.keys())}
    if log is not None and not added and not removed:
        return
    footers = {_path(one): target.footer(one.name) for one in added}
    merged = _merged({path: footer.num_rows for path, footer in footers.items()}, removed)
    adding = [
        _add_action(one, footers[_path(one)].num_rows, data_change=_path(one) not in merged) for one in added
    ]
    if log is None:
        path = tables.empty_file(table, "")
        _create(uri, _schema(footers) if added else _with_partitions(SCHEMAS[table], path), path, adding)
        return
    now = time.time_ns() // 1_000_000
    gone = [
        RemoveAction(path, data_change=path not in merged, deletion_timestamp=now, size=one.size)
        for path, one in removed.items()
    ]
    if added:
        _add_columns(log, _schema(footers))
    columns = log.metadata().partition_columns
    log.create_write_transaction([*adding, *gone], "append", log.schema(), columns)


def _create(uri: str, schema: pa.Schema, path: str, adding: list[AddAction]) -> None:
    """Create a log; `path` is one of a file of the table."""
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    columns = list(_partition_values(path))
    create_table_with_add_actions(uri, Schema.from_arrow(schema), adding, partition_by=columns)


def _known(log: DeltaTable) -> dict[str, _Logged]:
    """Return the files in the log, by path."""
    found = pa.table(log.get_add_actions(flatten=True))
    rows = found.select(["path", "size_bytes", "num_records"]).to_pylist()
    return {
        row["path"]: _Logged(row["size_bytes"], -1 if row["num_records"] is None else row["num_records"])
        for row in rows
    }


def _check_writer(uri: str, table: str, known: Iterable[str]) -> None:
    """Raise NotOurs if the log has files that no landing wrote."""
    if strangers := sorted(path for path in known if not tables.is_landed(f"{table}/{path}")):
        raise NotOurs(
            f"the Delta log of {table} has {counted(len(strangers), 'file')} that no landing wrote, "
            f"{strangers[0]} among them: another program wrote to the table, and only landings may. The "
            "landed files are still there unless a vacuum removed them. Delete its files and "
            f"{uri}/{DELTA_LOG}: the next run makes the log anew"
        )


def _add_action(file: FileAbout, row_count: int, *, data_change: bool) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        path=_path(file),
        size=file.size,
        partition_values=_partition_values(file.name),
        modification_time=file.modified_ms,
        data_change=data_change,
        stats=json.dumps({"numRecords": row_count}),
    )


def _merged(added: Mapping[str, int], removed: Mapping[str, _Logged]) -> set[str]:
    """Return the added files that have only rows of removed ones, and these, by their names and rows.

    `added` has the number of rows of each added file.
    """
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in removed:
        by_folder[path.rpartition("/")[0]].append(path)
    merged = set()
    for path, row_count in added.items():
        parts = [one for one in by_folder[path.rpartition("/")[0]] if _is_part(one, path)]
        if parts and sum(removed[one].row_count for one in parts) == row_count:
            merged |= {path, *parts}
    return merged


def _is_part(path: str, whole: str) -> bool:
    """Return whether the rows of a file are in a merged file, by their names."""
    (first, last), (begin, end) = tables.bounds_in(path), tables.bounds_in(whole)
    return begin <= first and last <= end


def _add_columns(log: DeltaTable, schema: pa.Schema) -> None:
    """Add columns that tables of earlier releases lack."""
    from deltalake import Schema

    there = {column.name for column in log.schema().fields}
    missing = [column for column in Schema.from_arrow(schema).fields if column.name not in there]
    if missing:
        log.alter.add_columns(missing)


def _schema(footers: Mapping[str, FileMetaData]) -> pa.Schema:
    """Return the columns of one or more files, with those in their paths."""
    schemas = [footer.schema.to_arrow_schema().remove_metadata() for footer in footers.values()]
    return _with_partitions(pa.unify_schemas(schemas, promote_options="permissive"), next(iter(footers)))


def _with_partitions(schema: pa.Schema, path: str) -> pa.Schema:
    """Return the columns with those in the path of a file."""
    return pa.schema([*schema, *(pa.field(name, _PARTITION_TYPES[name]) for name in _partition_values(path))])


def _path(file: FileAbout) -> str:
    """Return the path of a file in the folder of its table."""
    return file.name.partition("/")[2]


def _partition_values(name: str) -> dict[str, str]:
    """Return the values in the path of a file."""
    return dict(part.split("=", 1) for part in name.split("/") if "=" in part)
