"""The manual names every option, column, event and transform."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.types import StructType

from headgate.spark import group_transforms, schemas, transforms
from headgate.spark.options import NAMES
from headgate.spark.stream.options import STREAM_NAMES

MANUAL = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_every_option_column_event_and_transform_is_in_the_manual() -> None:
    """A new one needs an entry in the manual."""
    tables = [value for value in vars(schemas).values() if isinstance(value, StructType)]
    columns = {name for table in tables for name in table.fieldNames()}
    made = {
        name
        for module in (transforms, group_transforms)
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__ and name[0] != "_"
    } - {"exactly"}
    events = {*schemas.EVENTS, *schemas.TRANSACTION_EVENTS, *schemas.SHARE_EVENTS}
    assert len(columns) > 40
    assert {"lag_over_time", "rebalances"} <= made
    missing = {name for name in {*NAMES, *STREAM_NAMES, *columns, *events, *made} if name not in MANUAL}
    assert missing == set()
