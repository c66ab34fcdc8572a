"""Files without rows for tables without rows.

Spark, DuckDB and others cannot read a folder that is not there, or that has no file. So a table has one file
from the first run on: its columns, in a folder of its partition columns. No reader here takes it, because
its name is not one of `tables.is_landed`. It stays when the table has rows: a query may have planned to read
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headgate.spark.landing import tables
from headgate.spark.landing.current import CURRENT_SCHEMA
from headgate.spark.landing.files import Folder
from headgate.spark.landing.groups import ASSIGNMENTS_SCHEMA
from headgate.spark.landing.merging import SCHEMAS as MERGED_SCHEMAS

SCHEMAS: Mapping[str, pa.Schema] = {
    **MERGED_SCHEMAS,
    tables.OFFSETS_CURRENT: CURRENT_SCHEMA,
    tables.OFFSETS_DAILY: CURRENT_SCHEMA,
    tables.ASSIGNMENTS: ASSIGNMENTS_SCHEMA,
}
"""The columns of the files of each table."""


def write_empty(target: Folder, chosen: Sequence[str], date: str) -> None:
    """Write a file without rows for each table that has no file. Raises OSError."""
    for table in tables.with_daily(chosen):
        if not target.names(table):
            target.write_table(tables.empty_file(table, date), SCHEMAS[table].empty_table())
