"""What a user has to mend is said by the readers: without a stack, and without PySpark's own errors."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, StructField, StructType

from headgate.spark.formats import DATA_SOURCES, HeadgateDataSource
from headgate.spark.options import OptionError
from headgate.spark.stream.positions import ForeignOffsets, StreamOffsets

SERVER = {"kafka.bootstrap.servers": "127.0.0.1:1"}
WRONG = StructType([StructField("foo", IntegerType())])
STREAM = {**SERVER, "subscribe": "t", "group.id": "g"}


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        (STREAM, WRONG, "no column 'foo'"),
        ({**STREAM, "startingOffsets": "firts"}, None, "startingOffsets"),
        ({**SERVER, "subscribe": "t"}, None, "group.id is missing"),
    ],
)
def test_a_stream_that_cannot_be_says_why_in_its_first_call(
    options: dict[str, str], schema: StructType | None, message: str
) -> None:
    """PySpark hides an error of `streamReader` behind one of its own."""
    reader: Any = HeadgateDataSource(options).streamReader(schema or StructType())
    for call in (
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(OptionError, match=message) as caught:
            call()
        assert is_without_stack(caught)


@pytest.mark.parametrize("source", DATA_SOURCES)
def test_a_wrong_schema_of_a_read_is_told_without_a_stack(source: type[DataSource]) -> None:
    """The columns that a user gave with `.schema` are known first where Spark asks for a reader."""
    options = {**SERVER, **({} if getattr(source, "topic", None) else {"subscribe": "t"})}
    with pytest.raises(OptionError, match="no column 'foo'") as caught:
        source(options).reader(WRONG)
    assert is_without_stack(caught)


def is_without_stack(caught: pytest.ExceptionInfo[OptionError]) -> bool:
    """Return whether the error comes from `reasons` itself."""
    return str(caught.traceback[-1].path).endswith("reasons.py") and caught.value.__suppress_context__


ENTRY = {"s": 0, "o": 5, "e": 1}


@pytest.mark.parametrize(
    "stored",
    [
        {"stream": "s", "topics": {"t": {"id": None, "partitions": {"0": {**ENTRY, "o": "5"}}}}},
        {"stream": "s", "topics": {"t": {"id": None, "partitions": {"0": {**ENTRY, "o": -5}}}}},
        {"stream": "s", "topics": {"t": {"id": None, "partitions": {"0": {**ENTRY, "s": 6}}}}},
        17,
    ],
)
def test_a_checkpoint_with_impossible_numbers_is_refused(stored: Any) -> None:
    """Before anything is read or committed."""
    with pytest.raises(ForeignOffsets, match="the checkpoint is damaged"):
        StreamOffsets.from_json(stored)
