"""The formats that a session registers: the Python data sources of `headgate.spark`."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from headgate.spark.options import OptionError, Options, parse
from headgate.spark.reasons import without_stack
from headgate.spark.source import (
    CORRUPTIONS_VIEW,
    GROUP_EVENTS_VIEW,
    INCOMPLETE_COMMITS_VIEW,
    OFFSET_COMMITS_VIEW,
    OFFSETS_HISTORY_VIEW,
    RECORDS_VIEW,
    SHARE_DELIVERIES_VIEW,
    TRANSACTIONS_VIEW,
    CorruptionsReader,
    HistoryReader,
    View,
    ViewReader,
)
from headgate.spark.stream.options import (
    STREAM_NAMES,
    StreamOptions,
    is_of_a_stream,
    parse_stream,
    refuse_for_a_read,
)
from headgate.spark.stream.reader import STREAM_VIEW, GroupStreamReader, names_of

_ONLY_READS = (
    "headgate only reads: to write to a topic use Spark's own format kafka, which works with Headgate as well"
)


class _RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream that cannot be: all its methods raise OptionError.

    If `streamReader` fails itself, PySpark hides the reason behind an UnboundLocalError of its own.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @without_stack(OptionError)
    def initialOffset(self) -> NoReturn:
        """Fail: the first call for a new checkpoint."""
        raise OptionError(self.reason)

    @without_stack(OptionError)
    def prepareForTriggerAvailableNow(self) -> NoReturn:
        """Fail: the first call with the trigger `availableNow`."""
        raise OptionError(self.reason)

    @without_stack(OptionError)
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        """Fail: the first call for a checkpoint whose batches are finished."""
        raise OptionError(self.reason)

    @without_stack(OptionError)
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Fail: the first call for a checkpoint with a batch that is not finished."""
        raise OptionError(self.reason)

    def read(self, partition: InputPartition) -> NoReturn:
        """Fail."""
        raise OptionError(self.reason)


class _ReadingDataSource(DataSource):
    """A source that nothing can be written to. Its options are checked where it is read: those of a write are
    others.
    """

    @without_stack(OptionError)
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raise OptionError."""
        raise OptionError(_ONLY_READS)

    @without_stack(OptionError)
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raise OptionError."""
        raise OptionError(_ONLY_READS)


class _LogDataSource(_ReadingDataSource):
    """A view of a log, by the name of its format; `topic` is the only topic with such a log."""

    of_format: ClassVar[str]
    view: ClassVar[View]
    topic: ClassVar[str | None] = None

    def checked(self) -> Options:
        """Return the options of a read. Raises OptionError."""
        return parse(dict(self.options), self.topic)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return cls.of_format

    @without_stack(OptionError)
    def schema(self) -> StructType:
        """Return the view's schema, or the selected columns."""
        return self.view.only(self.view.names(self.checked()))

    @without_stack(OptionError)
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; the schema is the view's, or columns that the user chose with `.schema`."""
        return ViewReader(self.view, self.checked(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that says what to use instead."""
        return _RefusedStream(
            f"{self.of_format} is for spark.read: for what comes later, land the logs with "
            "`headgate spark land --continuously`"
        )


class HeadgateDataSource(_ReadingDataSource):
    """`format("headgate")`: topics' records, with the columns of Spark's Kafka connector.

    With `spark.read` a read of what there is; with `spark.readStream` and a `group.id` a stream that is a
    consumer group.
    """

    def checked(self) -> StreamOptions | Options:
        """Return the options of a stream or of a read. Raises OptionError."""
        given = dict(self.options)
        if is_of_a_stream(given):
            return parse_stream(given)
        refuse_for_a_read(given)
        return parse(given, others=STREAM_NAMES)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "headgate"

    @without_stack(OptionError)
    def schema(self) -> StructType:
        """Return the columns of records, or the selected ones."""
        checked = self.checked()
        if isinstance(checked, StreamOptions):
            return STREAM_VIEW.only(names_of(checked))
        return RECORDS_VIEW.only(RECORDS_VIEW.names(checked))

    @without_stack(OptionError)
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        checked = self.checked()
        if isinstance(checked, StreamOptions):
            raise OptionError("option group.id is for spark.readStream: a read has no group")
        return ViewReader(RECORDS_VIEW, checked, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream, or one that says why there is none."""
        try:
            checked = self.checked()
            if isinstance(checked, StreamOptions):
                return GroupStreamReader(checked, schema)
        except OptionError as refusal:
            return _RefusedStream(str(refusal))
        return _RefusedStream("option group.id is missing: the consumer group that the stream is")


class OffsetCommitsDataSource(_LogDataSource):
    """`format("headgate_offset_commits")`: the coordinator's log as `schemas.OFFSET_COMMITS`."""

    of_format = "headgate_offset_commits"
    view = OFFSET_COMMITS_VIEW
    topic = GROUP_OFFSETS_TOPIC


class IncompleteCommitsDataSource(_LogDataSource):
    """`format("headgate_incomplete_commits")`: commits that a crash cut, as `schemas.OFFSET_COMMITS`."""

    of_format = "headgate_incomplete_commits"
    view = INCOMPLETE_COMMITS_VIEW
    topic = GROUP_OFFSETS_TOPIC


class OffsetHistoryDataSource(_LogDataSource):
    """`format("headgate_offset_history")`: records that compaction replaced, as `schemas.OFFSET_COMMITS`.

    A record that was moved twice because of a crash occurs twice.
    """

    of_format = "headgate_offset_history"
    view = OFFSETS_HISTORY_VIEW
    topic = OFFSETS_HISTORY_TOPIC

    @without_stack(OptionError)
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return HistoryReader(self.view, self.checked(), schema)


class GroupEventsDataSource(_LogDataSource):
    """`format("headgate_group_events")`: the coordinator's log as `schemas.GROUP_EVENTS`."""

    of_format = "headgate_group_events"
    view = GROUP_EVENTS_VIEW
    topic = GROUP_OFFSETS_TOPIC


class TransactionsDataSource(_LogDataSource):
    """`format("headgate_transactions")`: the transaction coordinator's log as `schemas.TRANSACTIONS`."""

    of_format = "headgate_transactions"
    view = TRANSACTIONS_VIEW
    topic = TRANSACTION_STATE_TOPIC


class ShareDeliveriesDataSource(_LogDataSource):
    """`format("headgate_share_deliveries")`: the share coordinator's log as `schemas.SHARE_DELIVERIES`."""

    of_format = "headgate_share_deliveries"
    view = SHARE_DELIVERIES_VIEW
    topic = SHARE_STATE_TOPIC


class CorruptionsDataSource(_LogDataSource):
    """`format("headgate_corruptions")`: the unreadable parts of a topic's log, as `schemas.CORRUPTIONS`."""

    of_format = "headgate_corruptions"
    view = CORRUPTIONS_VIEW

    @without_stack(OptionError)
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return CorruptionsReader(self.checked(), schema)


DATA_SOURCES = (
    HeadgateDataSource,
    OffsetCommitsDataSource,
    IncompleteCommitsDataSource,
    OffsetHistoryDataSource,
    GroupEventsDataSource,
    TransactionsDataSource,
    ShareDeliveriesDataSource,
    CorruptionsDataSource,
)
