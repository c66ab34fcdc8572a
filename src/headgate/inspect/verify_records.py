"""The check of the records in undamaged batches. Records that the server reads itself must be valid."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import numpy as np

from headgate.domain.ids import Millis
from headgate.inspect.findings import Findings
from headgate.inspect.history_records import why_no_history
from headgate.inspect.reading import FoundBatch
from headgate.inspect.runs import RunWatch, TornRun
from headgate.inspect.strangers import Strangers
from headgate.log.batch import CorruptBatch, Record, iterate_records
from headgate.log.record_columns import RecordColumns, read_columns
from headgate.records import MalformedRecord, UnknownRecord, decode
from headgate.records.offset_commit import names_of
from headgate.records.offset_rows import Spans, read_rows
from headgate.records.runs import run_place
from headgate.records.share_state import decode_share
from headgate.records.share_state_model import UnknownShareRecord
from headgate.records.transactions import decode_transaction
from headgate.topics.catalogue import NEWEST_RECORD_VERSION

_ASK_THE_WRITER = (
    "The checksum is right, so the writer is at fault: find out what wrote it. Reading it fails."
)
_CANNOT_LOAD = "The coordinator cannot load this log. Keep a copy; find out what wrote the record."

KeyOf = Callable[[Record], str | None]
"""Returns the key of a record's shard; None: it has none. Raises MalformedRecord."""

_FEWEST_IN_COLUMNS = 32
"""Minimum number of records of a batch that are read faster as columns."""


def _columns_of(batch: FoundBatch) -> RecordColumns | None:
    """Return the records of a large batch; None for others, and if one has headers or is invalid."""
    header = batch.header
    if header.is_control or header.record_count < _FEWEST_IN_COLUMNS:
        return None
    try:
        columns = read_columns([(header, batch.data)])
    except CorruptBatch:
        return None
    return None if columns is None or columns.has_headers.any() else columns


class RecordCheck:
    """The check of a client topic's records: they must unpack."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def check(self, file: str, batch: FoundBatch) -> None:
        """Check the records of a batch whose checksum is right, in columns if that says enough."""
        columns = _columns_of(batch)
        if columns is not None and self.check_columns(file, batch.position, columns):
            self.findings.checked.records += len(columns)
            return
        count = 0
        try:
            for offset, record in iterate_records(batch.data):
                count += 1
                if not batch.header.is_control:
                    self.check_record(file, batch.position, offset, record)
        except CorruptBatch as problem:
            self.findings.error(
                file,
                f"records of the batch at offset {batch.header.base_offset} are invalid: {problem.reason}",
                _ASK_THE_WRITER,
                position=batch.position,
            )
        self.findings.checked.records += count

    def check_columns(self, file: str, position: int, columns: RecordColumns) -> bool:
        """Check many records, which unpack and have no headers; return False to have them one by one."""
        return True

    def check_record(self, file: str, position: int, offset: int, record: Record) -> None:
        """Check one record."""

    def finish(self, directory: str) -> None:
        """End the log."""


class CoordinatorRecordCheck(RecordCheck):
    """The check of the records of `__consumer_offsets`: they must decode, and runs must be complete."""

    def __init__(self, findings: Findings, strangers: Strangers) -> None:
        super().__init__(findings)
        self._strangers = strangers
        self._runs = RunWatch()
        self._torn: list[tuple[str, int, TornRun]] = []
        self._unknown: Counter[int] = Counter()
        self._place = ("", 0)

    def check_columns(self, file: str, position: int, columns: RecordColumns) -> bool:
        """Check many records; those that are no plain offsets are decoded one by one."""
        keys = Spans(columns.key_starts, columns.key_sizes)
        try:
            plain, rows = read_rows(columns.data, keys, Spans(columns.value_starts, columns.value_sizes))
            group_ids = {names_of(prefix)[0] for prefix in rows.prefixes}
        except MalformedRecord:
            return False
        for group_id in group_ids:
            self._strangers.look(group_id, file, position)
        is_other = np.ones(len(columns), np.bool_)
        is_other[plain[1:]] = False  # the first record ends a run, if one is open
        for row in np.flatnonzero(is_other).tolist():
            record = Record(columns.key(row), columns.value(row), int(columns.timestamps[row]))
            self.check_record(file, position, int(columns.offsets[row]), record)
        return True

    def check_record(self, file: str, position: int, offset: int, record: Record) -> None:
        """Check one record."""
        self._place = file, position
        torn = self._runs.take(offset, run_place(record.headers))
        if torn is not None:
            self._torn.append((file, position, torn))
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecord as problem:
            _tell_unreadable(self.findings, file, position, offset, problem)
            return
        if isinstance(decoded, UnknownRecord):
            self._unknown[decoded.key_type] += 1
        else:
            self._strangers.look(decoded.group_id, file, position)

    def finish(self, directory: str) -> None:
        """End the log, and report groups of other logs, and torn runs at its end and in its middle."""
        self._strangers.tell(self.findings)
        at_tail = self._runs.end()
        mended = [(file, position, torn) for file, position, torn in self._torn if torn not in at_tail]
        for file, position, torn in mended:
            self.findings.note(
                file,
                f"an incomplete commit over several batches ends before here: {_words(torn)}",
                "Nothing: readers ignore it, and complete records follow it.",
                position=position,
            )
        for torn in at_tail:
            self.findings.note(
                self._place[0] or directory,
                f"an incomplete commit over several batches is at the end of the log: {_words(torn)}",
                "Nothing: the next start appends the values before it again.",
                position=self._place[1],
            )
        if self._unknown:
            kinds = ", ".join(f"{count} of key type {kind}" for kind, count in sorted(self._unknown.items()))
            self.findings.note(
                directory,
                f"records of types that this version does not know: {kinds}",
                "Nothing: they are kept unchanged and have no effect.",
            )


def _words(torn: TornRun) -> str:
    return f"{torn.present} of {torn.total} records from offset {torn.first_offset} on"


class StateRecordCheck(RecordCheck):
    """The check of the records of another coordinator: they must decode, and belong to this partition."""

    def __init__(self, findings: Findings, strangers: Strangers, key_of: KeyOf) -> None:
        super().__init__(findings)
        self._strangers = strangers
        self._key_of = key_of

    def check_columns(self, file: str, position: int, columns: RecordColumns) -> bool:
        """Have the records one by one."""
        return False

    def check_record(self, file: str, position: int, offset: int, record: Record) -> None:
        """Check one record."""
        try:
            key = self._key_of(record)
        except MalformedRecord as problem:
            _tell_unreadable(self.findings, file, position, offset, problem)
            return
        if key is not None:
            self._strangers.look(key, file, position)

    def finish(self, directory: str) -> None:
        """End the log, and report keys of other logs."""
        self._strangers.tell(self.findings)


def transactional_id_of(record: Record) -> str | None:
    """Return the transactional id of a record of `__transaction_state`. Raises MalformedRecord."""
    return decode_transaction(record.key, record.value).transactional_id


def share_partition_of(record: Record) -> str | None:
    """Return the name of a record's share-partition; None for an unknown type. Raises MalformedRecord."""
    decoded = decode_share(record.key, record.value, Millis(record.timestamp))
    return None if isinstance(decoded, UnknownShareRecord) else decoded.key.name


class HistoryRecordCheck(RecordCheck):
    """The check of the records of `__consumer_offsets_history`: offsets with their origin, and marks."""

    def check_columns(self, file: str, position: int, columns: RecordColumns) -> bool:
        """Have the records one by one: each has headers, or is a mark."""
        return False

    def check_record(self, file: str, position: int, offset: int, record: Record) -> None:
        """Check one record."""
        why = why_no_history(record)
        if why is not None:
            self.findings.error(
                file,
                f"the record at offset {offset} is not a record of the history: {why}",
                "The history skips the record. Find out what wrote it.",
                position=position,
            )


class CatalogueRecordCheck(RecordCheck):
    """The check of the catalogue's records: JSON of a known version."""

    def check_columns(self, file: str, position: int, columns: RecordColumns) -> bool:
        """Have the records one by one: they are few."""
        return False

    def check_record(self, file: str, position: int, offset: int, record: Record) -> None:
        """Check one record."""
        why = _why_no_event(record.value)
        if why is not None:
            self.findings.error(
                file,
                f"the catalogue's record at offset {offset} {why}",
                "The server does not start with it. Use a newer Headgate if that wrote it, or restore the "
                "catalogue from a backup.",
                position=position,
            )


def _why_no_event(value: bytes | None) -> str | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return "is not JSON"
    if not isinstance(event, dict) or not isinstance(event.get("v"), int):
        return "has no version"
    if not isinstance(event.get("type"), str):
        return "has no type"
    if event["v"] > NEWEST_RECORD_VERSION:
        return f"has version {event['v']}; this Headgate reads up to {NEWEST_RECORD_VERSION}"
    return None


def _tell_unreadable(
    findings: Findings, file: str, position: int, offset: int, problem: MalformedRecord
) -> None:
    what = f"the record at offset {offset} is not a record of the coordinator: {problem}"
    findings.error(file, what, _CANNOT_LOAD, position=position)
