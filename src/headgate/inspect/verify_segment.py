"""The check of one segment: all its batches, and its indexes.

A bad batch is judged by its position. In the last segment of a log that was not closed cleanly, with no whole
batch after it, it is a tail torn by a crash: a note. Zeros there are reserved space. Anywhere else it is
damage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.inspect.findings import Findings
from headgate.inspect.next_start import MEND_OR_RESTORE, NextStart
from headgate.inspect.partition import SegmentFiles
from headgate.inspect.reading import Break, FoundBatch, LogFile, find_whole_batch, is_room, read_start, walk
from headgate.inspect.verify_index import OffsetIndexCheck, Problem, TimeIndexCheck
from headgate.inspect.verify_records import RecordCheck
from headgate.inspect.verify_transactions import TransactionCheck
from headgate.log.header import MAGIC, BatchHeader, CorruptBatch
from headgate.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from headgate.log.rewriting import is_filling
from headgate.log.segment_file import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from headgate.topics.leader_epochs import LeaderEpochs

_PROGRESS_BYTES = 1 << 20


@dataclass(slots=True)
class LogState:
    """The state of a log's check, while its segments are checked in order."""

    findings: Findings
    records: RecordCheck
    was_closed_well: bool
    epochs: LeaderEpochs | None
    index_interval_bytes: int
    on_progress: Callable[[int], None]
    compacted_to: int
    """Below this offset compaction can have removed records."""
    next_start: NextStart
    consequence: str
    """The consequence and the advice for a bad batch."""
    transactions: TransactionCheck
    expected_offset: int = 0
    """The expected base offset of the next batch."""
    last_end: int = 0
    """The offset after the last batch. Compaction can have removed records from there on."""
    end_position: int = 0
    """The position after the last batch in its segment's file."""
    last_epoch: int = -1
    is_damaged: bool = False

    def is_gap(self, base_offset: int) -> bool:
        """Tell whether records are missing before this offset that compaction did not remove."""
        return base_offset > self.expected_offset and base_offset > self.compacted_to


@dataclass(slots=True)
class SegmentCheck:
    """The check of one segment. `name` is the file's name in findings."""

    state: LogState
    segment: SegmentFiles
    name: str
    following_base: int | None
    """The first offset of the next segment; None for the last segment."""
    is_settled: bool
    """Whether the next start uses the segment and its indexes without recovery."""
    _is_damaged: bool = False
    _is_lost: bool = False
    """Whether the expected offset is unknown, because of damage before."""

    def run(self) -> None:
        """Check the segment. Raises OSError."""
        # Read the indexes first: a running server writes the log before them, so they are never ahead of it.
        offsets = self._read_index(INDEX_SUFFIX)
        times = self._read_index(TIME_INDEX_SUFFIX)
        aborted = self._read_index(TRANSACTION_INDEX_SUFFIX)
        self.state.transactions.begin()
        offset_check = OffsetIndexCheck(
            offsets or b"", self.segment.base_offset, self.state.index_interval_bytes
        )
        time_check = TimeIndexCheck(times or b"", self.segment.base_offset)
        with LogFile(self.segment.path()) as file:
            self._walk(file, offset_check, time_check)
        if self.following_base is not None and self.state.expected_offset > self.following_base:
            self._error(
                None,
                f"it ends at offset {self.state.expected_offset - 1}, but the next segment starts at "
                f"{self.following_base}",
                "Files were renamed or swapped, or a header was changed. " + _RESTORE,
            )
        checked = self.state.findings.checked
        checked.segments += 1
        checked.index_entries += offset_check.entry_count + time_check.entry_count
        self.state.is_damaged |= self._is_damaged
        if not self._is_damaged:
            self._judge_offset_index(offset_check, is_there=offsets is not None)
            self._judge_time_index(time_check, is_there=times is not None)
            self._judge_transactions(aborted)

    def _read_index(self, suffix: str) -> bytes | None:
        try:
            return read_start(self.segment.path(suffix))
        except FileNotFoundError:
            return None

    # Batches.

    def _walk(self, file: LogFile, offsets: OffsetIndexCheck, times: TimeIndexCheck) -> None:
        position = reported = 0
        checked = self.state.findings.checked
        while True:
            for found in walk(file, position):
                position = found.position
                if isinstance(found, FoundBatch):
                    checked.batches += 1
                    problem = self._why_bad(found)
                else:
                    problem = found.reason
                if problem is not None and not self._goes_on_after(file, found, problem):
                    position = file.size
                    break
                if isinstance(found, Break):
                    resumed = find_whole_batch(file, position + 1, self.state.expected_offset)
                    position = file.size if resumed is None else resumed
                    self._is_lost = True
                    break
                self._take(found, is_sound=problem is None)
                offsets.pass_batch(found.position, found.header)
                times.pass_batch(found.header)
                position = found.end
                if position - reported >= _PROGRESS_BYTES:
                    self.state.on_progress(position - reported)
                    reported = position
            if position >= file.size:
                break
        offsets.finish()
        times.finish()
        checked.size_bytes += file.size
        self.state.on_progress(file.size - reported)

    def _why_bad(self, found: FoundBatch) -> str | None:
        """Return why recovery would end the log at this batch; None for a good batch."""
        header, state, expected = found.header, self.state, self.state.expected_offset
        if header.magic != MAGIC:
            return f"message format {header.magic}; only {MAGIC} is supported"
        if header.last_offset_delta < 0:
            return f"the last offset delta is {header.last_offset_delta}"
        if (computed := found.computed_crc()) != header.crc:
            return f"the CRC is {header.crc:#010x}, that of the bytes is {computed:#010x}"
        if found.position == 0 and header.base_offset < self.segment.base_offset:
            return (
                f"the file is named for offset {self.segment.base_offset}, but starts at {header.base_offset}"
            )
        if header.base_offset < expected:
            return f"offset {header.base_offset} instead of {expected}"
        if self.following_base is None and state.is_gap(header.base_offset) and not self._is_lost:
            return f"offset {header.base_offset} instead of {expected}"
        return None

    def _goes_on_after(self, file: LogFile, found: FoundBatch | Break, problem: str) -> bool:
        """Report a bad batch. Return True if the check continues after it."""
        state, position = self.state, found.position
        is_last = self.following_base is None and not state.was_closed_well
        opens = state.next_start.refusal is None
        if is_last and (opens or self._is_damaged) and isinstance(found, Break) and is_room(file, found):
            return False
        if is_last and opens and not self._is_damaged:
            behind = find_whole_batch(file, position + 1, state.expected_offset)
            if behind is None:
                state.findings.note(
                    self.name,
                    f"the log's tail is incomplete: {problem}",
                    f"Nothing: a write was interrupted, and the next start truncates these "
                    f"{file.size - position} bytes; or a running server is writing them.",
                    position=position,
                )
                return False
        self._error(position, problem, state.consequence)
        self._is_damaged = True
        return True

    def _take(self, found: FoundBatch, *, is_sound: bool) -> None:
        """Continue after a batch. Check the records of a sound one."""
        state, header = self.state, found.header
        if is_sound:
            if state.is_gap(header.base_offset) and not self._is_lost:
                what = f"offset {header.base_offset} instead of {state.expected_offset}: records are missing"
                self._error(found.position, what, _RESTORE)
            self._check_header(found.position, header)
            state.records.check(self.name, found)
            try:
                state.transactions.pass_batch(found)
            except CorruptBatch as problem:
                self._error(found.position, problem.reason, _RESTORE)
        # An undamaged batch determines the next offset, even if it is in the wrong place.
        self._is_lost = not is_sound and (header.magic != MAGIC or found.computed_crc() != header.crc)
        if not self._is_lost:
            state.expected_offset = state.last_end = header.next_offset
            state.end_position = found.end

    def _check_header(self, position: int, header: BatchHeader) -> None:
        state = self.state
        holes = header.last_offset_delta + 1 - header.record_count
        if is_filling(header):
            if header.last_offset >= state.compacted_to:
                what = f"the records from {header.base_offset} to {header.last_offset} were lost"
                state.findings.note(self.name, what, "Nothing: the log was mended.", position=position)
        elif holes < 0 or header.record_count < 0 or (holes and header.last_offset >= state.compacted_to):
            self._error(
                position,
                f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}",
                _RESTORE,
            )
        self._check_epoch(position, header)

    def _check_epoch(self, position: int, header: BatchHeader) -> None:
        state, epoch = self.state, header.leader_epoch
        advice = "Requests for the end offset of an epoch get a wrong response. " + _RESTORE
        if epoch < state.last_epoch:
            self._error(position, f"leader epoch {epoch} follows {state.last_epoch}", advice)
        elif state.epochs is not None:
            noted = state.epochs.epoch_of(header.base_offset)
            begins_here = 0 <= state.last_epoch < epoch and header.base_offset == state.last_end
            if noted != epoch:
                self._error(
                    position,
                    f"leader epoch {epoch} in the batch, {noted} in the leader-epoch-checkpoint",
                    advice,
                )
            elif begins_here and state.epochs.epoch_of(header.base_offset - 1) == epoch:
                what = f"leader epoch {epoch} starts here, but earlier in the leader-epoch-checkpoint"
                self._error(position, what, advice)
        state.last_epoch = max(state.last_epoch, epoch)

    # Indexes.

    def _judge_offset_index(self, check: OffsetIndexCheck, *, is_there: bool) -> None:
        if not is_there:
            self._miss_index(INDEX_SUFFIX)
            return
        self._tell_index(INDEX_SUFFIX, check.problems)
        if check.missing and self.is_settled and check.entry_count:
            what = f"it is truncated: the log needs {check.missing} more entries at its end"
            self._tell_index(INDEX_SUFFIX, [(check.entry_count * OFFSET_ENTRY_BYTES, what)])
        elif check.missing and self.is_settled:
            self.state.findings.note(
                self._index_name(INDEX_SUFFIX),
                f"the index is empty, but the log needs {check.missing} entries",
                "Nothing, if index.interval.bytes was larger before. Otherwise stop the server and remove "
                "the index; then it is rebuilt.",
            )

    def _judge_time_index(self, check: TimeIndexCheck, *, is_there: bool) -> None:
        if not is_there:
            self._miss_index(TIME_INDEX_SUFFIX)
            return
        self._tell_index(TIME_INDEX_SUFFIX, check.problems)
        if check.lacks_newest and self.is_settled:
            what = "it is truncated: the segment's newest timestamp is not in it"
            self._tell_index(TIME_INDEX_SUFFIX, [(check.entry_count * TIME_ENTRY_BYTES, what)])

    def _judge_transactions(self, data: bytes | None) -> None:
        for what in self.state.transactions.problems(data, is_settled=self.is_settled):
            self.state.findings.note(
                self._index_name(TRANSACTION_INDEX_SUFFIX),
                what,
                "Nothing: the next start reads the transactions from the log, and writes the file again. "
                "Tools of Apache Kafka read it as it is.",
            )

    def _miss_index(self, suffix: str) -> None:
        if self.is_settled:
            self.state.findings.note(
                self._index_name(suffix),
                "the index is missing",
                "Nothing: it is rebuilt from the log when it is needed.",
            )

    def _tell_index(self, suffix: str, problems: list[Problem]) -> None:
        for position, what in problems:
            if self.is_settled:
                advice = (
                    f"Stop the server and remove the segment's {INDEX_SUFFIX} and {TIME_INDEX_SUFFIX} files: "
                )
                self.state.findings.error(
                    self._index_name(suffix), what, advice + "they are rebuilt.", position=position
                )
            else:
                self.state.findings.note(
                    self._index_name(suffix),
                    what,
                    "Nothing: the next start reads the whole segment and rebuilds its indexes.",
                    position=position,
                )

    def _index_name(self, suffix: str) -> str:
        return self.name.removesuffix(".log") + suffix

    def _error(self, position: int | None, what: str, next_step: str) -> None:
        self.state.findings.error(self.name, what, next_step, position=position)


_RESTORE = MEND_OR_RESTORE
