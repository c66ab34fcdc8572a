"""One segment's file: every batch in it, and both indexes.

What a scan at start would end the log at is told apart by where it stands. In the last segment of a log that
was not closed well, with no whole batch behind it, it is the tail that a crash tore: a note; and zeros there
are room that was not written to. Anywhere else it is damage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.inspect.findings import Findings
from headgate.inspect.next_start import NextStart
from headgate.inspect.partition import SegmentFiles
from headgate.inspect.reading import Break, FoundBatch, LogFile, find_whole_batch, is_room, walk
from headgate.inspect.verify_index import OffsetIndexCheck, Problem, TimeIndexCheck
from headgate.inspect.verify_records import RecordCheck
from headgate.log.header import MAGIC, BatchHeader
from headgate.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from headgate.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from headgate.topics.leader_epochs import LeaderEpochs

_PROGRESS_BYTES = 1 << 20


@dataclass(slots=True)
class LogState:
    """What is known of a log while its segments are checked in order."""

    findings: Findings
    records: RecordCheck
    was_closed_well: bool
    epochs: LeaderEpochs | None
    index_interval_bytes: int
    on_progress: Callable[[int], None]
    compacted_to: int
    """Below this offset compaction may have taken records out."""
    next_start: NextStart
    consequence: str
    """What becomes of a bad batch at the next start, and what to do about it."""
    expected_offset: int = 0
    """Where the next batch is due."""
    last_end: int = 0
    """Where the last batch that was there ended; behind it compaction may have left less than is due."""
    end_position: int = 0
    """Where in its segment's file that was."""
    last_epoch: int = -1
    is_damaged: bool = False

    def is_gap(self, base_offset: int) -> bool:
        """Whether records are missing before this offset that nothing took out."""
        return base_offset > self.expected_offset and base_offset > self.compacted_to


@dataclass(slots=True)
class SegmentCheck:
    """Checks one segment. `name` is the file's for findings."""

    state: LogState
    segment: SegmentFiles
    name: str
    following_base: int | None
    """The first offset of the next segment; None for the last segment."""
    is_settled: bool
    """Whether the next start takes the segment as it is, indexes included."""
    _is_damaged: bool = False
    _is_lost: bool = False
    """Whether what was due is unknown, because what stood before is."""

    def run(self) -> None:
        """Check the segment. Raises OSError."""
        # A running server writes the log first, so indexes read first never know more than the log.
        offsets = self._read_index(INDEX_SUFFIX)
        times = self._read_index(TIME_INDEX_SUFFIX)
        offset_check = OffsetIndexCheck(
            offsets or b"", self.segment.base_offset, self.state.index_interval_bytes
        )
        time_check = TimeIndexCheck(times or b"", self.segment.base_offset)
        with LogFile(self.segment.path()) as file:
            self._walk(file, offset_check, time_check)
        if self.following_base is not None and self.state.expected_offset > self.following_base:
            self._error(
                None,
                f"it reaches offset {self.state.expected_offset - 1}, and the next segment begins at "
                f"{self.following_base}",
                "Files were renamed or swapped, or a header was changed. " + _RESTORE,
            )
        looked = self.state.findings.looked
        looked.segments += 1
        looked.index_entries += offset_check.entry_count + time_check.entry_count
        self.state.is_damaged |= self._is_damaged
        if not self._is_damaged:
            self._judge_offset_index(offset_check, is_there=offsets is not None)
            self._judge_time_index(time_check, is_there=times is not None)

    def _read_index(self, suffix: str) -> bytes | None:
        try:
            return self.segment.path(suffix).read_bytes()
        except FileNotFoundError:
            return None

    # Batches.

    def _walk(self, file: LogFile, offsets: OffsetIndexCheck, times: TimeIndexCheck) -> None:
        position = told = 0
        looked = self.state.findings.looked
        while True:
            for found in walk(file, position):
                position = found.position
                if isinstance(found, FoundBatch):
                    looked.batches += 1
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
                if position - told >= _PROGRESS_BYTES:
                    self.state.on_progress(position - told)
                    told = position
            if position >= file.size:
                break
        offsets.finish()
        times.finish()
        looked.size_bytes += file.size
        self.state.on_progress(file.size - told)

    def _why_bad(self, found: FoundBatch) -> str | None:
        """Why a scan would end the log at this batch."""
        header, state, expected = found.header, self.state, self.state.expected_offset
        if header.magic != MAGIC:
            return f"message format {header.magic}, only {MAGIC} is known"
        if header.last_offset_delta < 0:
            return f"a last offset delta of {header.last_offset_delta}"
        if (computed := found.computed_crc()) != header.crc:
            return f"the CRC is {header.crc:#010x}, the bytes sum to {computed:#010x}"
        if found.position == 0 and header.base_offset < self.segment.base_offset:
            return (
                f"the file is named for offset {self.segment.base_offset} and begins at {header.base_offset}"
            )
        if header.base_offset < expected:
            return f"offset {header.base_offset} where {expected} was due"
        if self.following_base is None and state.is_gap(header.base_offset) and not self._is_lost:
            return f"offset {header.base_offset} where {expected} was due"
        return None

    def _goes_on_after(self, file: LogFile, found: FoundBatch | Break, problem: str) -> bool:
        """Tell of a bad batch; whether there is more to look at behind it."""
        state, position = self.state, found.position
        is_tail = self.following_base is None and state.next_start.refusal is None
        if is_tail and not state.was_closed_well and not self._is_damaged:
            if isinstance(found, Break) and is_room(file, found):
                return False
            behind = find_whole_batch(file, position + 1, state.expected_offset)
            if behind is None:
                state.findings.note(
                    self.name,
                    f"the log's tail is incomplete: {problem}",
                    f"Nothing: a write was cut short, and the next start cuts these {file.size - position} "
                    "bytes off. Of a running server: it is being written.",
                    position=position,
                )
                return False
        self._error(position, problem, state.consequence)
        self._is_damaged = True
        return True

    def _take(self, found: FoundBatch, *, is_sound: bool) -> None:
        """Go on from a batch; a sound one is looked into."""
        state, header = self.state, found.header
        if is_sound:
            if state.is_gap(header.base_offset) and not self._is_lost:
                what = (
                    f"offset {header.base_offset} where {state.expected_offset} was due: records are missing"
                )
                self._error(found.position, what, _RESTORE)
            self._check_header(found.position, header)
            state.records.check(self.name, found)
        # A batch that is whole tells what comes next, even where it is out of place.
        self._is_lost = not is_sound and (header.magic != MAGIC or found.computed_crc() != header.crc)
        if not self._is_lost:
            state.expected_offset = state.last_end = header.next_offset
            state.end_position = found.end

    def _check_header(self, position: int, header: BatchHeader) -> None:
        state = self.state
        holes = header.last_offset_delta + 1 - header.record_count
        if holes < 0 or header.record_count < 0 or (holes and header.last_offset >= state.compacted_to):
            self._error(
                position,
                f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}",
                _RESTORE,
            )
        self._check_epoch(position, header)

    def _check_epoch(self, position: int, header: BatchHeader) -> None:
        state, epoch = self.state, header.leader_epoch
        advice = "Clients that ask where an epoch ended get a wrong answer. " + _RESTORE
        if epoch < state.last_epoch:
            self._error(position, f"leader epoch {epoch} follows {state.last_epoch}", advice)
        elif state.epochs is not None:
            noted = state.epochs.epoch_of(header.base_offset)
            begins_here = 0 <= state.last_epoch < epoch and header.base_offset == state.last_end
            if noted != epoch:
                self._error(
                    position,
                    f"leader epoch {epoch} in the batch, {noted} by the leader-epoch-checkpoint",
                    advice,
                )
            elif begins_here and state.epochs.epoch_of(header.base_offset - 1) == epoch:
                what = f"leader epoch {epoch} begins here, by the leader-epoch-checkpoint before"
                self._error(position, what, advice)
        state.last_epoch = max(state.last_epoch, epoch)

    # Indexes.

    def _judge_offset_index(self, check: OffsetIndexCheck, *, is_there: bool) -> None:
        if not is_there:
            self._miss_index(INDEX_SUFFIX)
            return
        self._tell_index(INDEX_SUFFIX, check.problems)
        if check.missing and self.is_settled and check.entry_count:
            what = f"it is cut short: the log calls for {check.missing} more entries at its end"
            self._tell_index(INDEX_SUFFIX, [(check.entry_count * OFFSET_ENTRY_BYTES, what)])
        elif check.missing and self.is_settled:
            self.state.findings.note(
                self._index_name(INDEX_SUFFIX),
                f"the index is empty, and the log calls for {check.missing} entries",
                "Nothing, if index.interval.bytes was larger once. Otherwise stop the server and remove it: "
                "it is built again.",
            )

    def _judge_time_index(self, check: TimeIndexCheck, *, is_there: bool) -> None:
        if not is_there:
            self._miss_index(TIME_INDEX_SUFFIX)
            return
        self._tell_index(TIME_INDEX_SUFFIX, check.problems)
        if check.lacks_newest and self.is_settled:
            what = "it is cut short: the segment's newest timestamp is not in it"
            self._tell_index(TIME_INDEX_SUFFIX, [(check.entry_count * TIME_ENTRY_BYTES, what)])

    def _miss_index(self, suffix: str) -> None:
        if self.is_settled:
            self.state.findings.note(
                self._index_name(suffix),
                "the index is not there",
                "Nothing: it is built again from the log when it is needed.",
            )

    def _tell_index(self, suffix: str, problems: list[Problem]) -> None:
        for position, what in problems:
            if self.is_settled:
                advice = (
                    f"Stop the server and remove the segment's {INDEX_SUFFIX} and {TIME_INDEX_SUFFIX} files: "
                )
                self.state.findings.error(
                    self._index_name(suffix), what, advice + "they are built again.", position=position
                )
            else:
                self.state.findings.note(
                    self._index_name(suffix),
                    what,
                    "Nothing: the next start reads the segment whole and indexes it anew.",
                    position=position,
                )

    def _index_name(self, suffix: str) -> str:
        return self.name.removesuffix(".log") + suffix

    def _error(self, position: int | None, what: str, next_step: str) -> None:
        self.state.findings.error(self.name, what, next_step, position=position)


_RESTORE = "Restore the file from a copy if there is one."
