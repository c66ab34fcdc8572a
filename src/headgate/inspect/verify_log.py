"""The check of one partition's directory: its segments in order, and its small files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.domain import ids
from headgate.inspect.directory import PartitionPlace
from headgate.inspect.findings import Findings
from headgate.inspect.next_start import MEND_OR_RESTORE, NextStart, next_start, settings_of
from headgate.inspect.partition import (
    SUFFIXES,
    PartitionFiles,
    read_leader_epochs,
    read_partition,
    segment_file,
)
from headgate.inspect.reading import read_start
from headgate.inspect.strangers import Strangers
from headgate.inspect.verify_records import (
    CatalogueRecordCheck,
    CoordinatorRecordCheck,
    HistoryRecordCheck,
    RecordCheck,
    StateRecordCheck,
    share_partition_of,
    transactional_id_of,
)
from headgate.inspect.verify_segment import LogState, SegmentCheck
from headgate.inspect.verify_state import check_state_file
from headgate.inspect.verify_transactions import TransactionCheck
from headgate.log.checkpoint import CHECKPOINT_NAME
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.state_file import STATE_NAME
from headgate.log.swap import CLEANED_SUFFIX, COMPACTION_NAME
from headgate.log.sync_mark import LARGEST_MARK_BYTES, SYNC_MARK_NAME, SyncMark
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import LEADER_EPOCHS_FILE, PRODUCERS_FILE
from headgate.topics.snapshot import Snapshot

_KAFKAS_OWN = ("partition.metadata", ".snapshot")
"""Files of Apache Kafka that are ignored."""
_OWN_FILES = (
    CHECKPOINT_NAME,
    COMPACTION_NAME,
    SYNC_MARK_NAME,
    LEADER_EPOCHS_FILE,
    PRODUCERS_FILE,
    STATE_NAME,
)
_ANYWHERE = 1 << 62
_KEYS_OF_SHARDS: dict[str, str] = {
    ids.GROUP_OFFSETS_TOPIC: "groups",
    ids.SHARE_STATE_TOPIC: "share-partitions",
    ids.TRANSACTION_STATE_TOPIC: "transactional ids",
}
"""The topics whose logs are loaded by shards, and what the keys of these are."""
_RESTORE = MEND_OR_RESTORE
_NO_MARK = (
    "The server ignores it, and its next start rewrites more of the log than necessary. Stop the server, "
    "then remove the file, or run `headgate log mend`."
)
"""What to do about a damaged sync mark. Without one a start detects less loss, so it is no note."""


@dataclass(slots=True, frozen=True)
class LogToCheck:
    """A log's directory, and facts from other files."""

    directory: Path
    name: str
    """The directory, relative to the data directory."""
    place: PartitionPlace | None
    """None for the catalogue."""
    was_closed_well: bool
    """Whether a clean stop closed the log."""
    newest_epoch: int | None
    """The current leader epoch according to the catalogue; None: unknown."""
    is_running: bool = False
    """Whether a server has the log open. Then the result of the next start is unknown."""


class LogCheck:
    """The check of one log. Call `run` once."""

    def __init__(self, log: LogToCheck, findings: Findings, on_progress: Callable[[int], None]) -> None:
        self._log = log
        self._findings = findings
        self._on_progress = on_progress

    def run(self) -> None:
        """Check everything in the directory. Raises OSError."""
        log, findings = self._log, self._findings
        files = read_partition(log.directory)
        self._check_names(files)
        records = self._record_check()
        following = self._next_start()
        # Without a catalogue, for example in Kafka's directory, it is unknown how far it was compacted.
        compacted_to = files.compaction.compacted_to if self._is_known() else _ANYWHERE
        first_offset = files.segments[0].base_offset if files.segments else 0
        state = LogState(
            findings=findings,
            records=records,
            was_closed_well=log.was_closed_well,
            epochs=self._check_epochs_file(),
            index_interval_bytes=settings_of(log.place).index_interval_bytes,
            on_progress=self._on_progress,
            compacted_to=compacted_to,
            next_start=following,
            consequence=self._consequence(following),
            transactions=TransactionCheck(first_offset, compacted_to),
        )
        errors = findings.errors
        self._check_compaction(files)
        mark = self._read_sync_mark(files)  # before the segments, because a running server advances it
        self._check_segments(files, state)
        records.finish(log.name)
        if not state.is_damaged:
            self._check_compacted_to(files, state)
            self._check_checkpoint(files, state)
            if mark is not None:
                self._check_sync_mark(files, mark, state)
            self._check_producers(files, state)
            if STATE_NAME in files.names and log.place is not None:
                check_state_file(files, log.place, state.expected_offset, findings)
        if following.refusal is not None:
            self._tell_refusal(following, is_explained=findings.errors > errors)

    def _next_start(self) -> NextStart:
        """Return the result of the next start for the log."""
        log = self._log
        if log.is_running:
            return NextStart()
        clean = log.was_closed_well and log.place is not None
        return next_start(log.directory, settings_of(log.place), clean=clean)

    def _consequence(self, following: NextStart) -> str:
        """Return the consequence and the advice for a damaged batch in the log."""
        log = self._log
        if log.is_running:
            return (
                "The server refuses it, or serves it as it is if it wrote or served it before. Copy the "
                "directory before the server stops. " + _RESTORE
            )
        if log.place is None and following.recovery is None:
            return "The server does not start and changes nothing. Restore the catalogue from a backup."
        keys = _KEYS_OF_SHARDS.get(log.place.topic) if log.place is not None else None
        if following == NextStart() and keys is not None:
            return (
                "The server does not load this log, unless shard.checkpoint covers the batch: requests for "
                f"{keys} of this partition fail, all others succeed. {MEND_OR_RESTORE}"
            )
        return following.consequence()

    def _tell_refusal(self, following: NextStart, *, is_explained: bool) -> None:
        """Report that the server does not open the log, in each error if there are any, else in a new one."""
        if is_explained:
            self._findings.advise_all(self._consequence(following))
        else:
            self._findings.error(
                self._log.name,
                f"the server does not open this log: {following.refusal}",
                self._consequence(following),
            )

    def _record_check(self) -> RecordCheck:
        place, findings = self._log.place, self._findings
        if place is None:
            return CatalogueRecordCheck(findings)
        match place.topic:
            case ids.GROUP_OFFSETS_TOPIC:
                return CoordinatorRecordCheck(findings, Strangers(place, "group"))
            case ids.OFFSETS_HISTORY_TOPIC:
                return HistoryRecordCheck(findings)
            case ids.TRANSACTION_STATE_TOPIC:
                strangers = Strangers(place, "transactional id")
                return StateRecordCheck(findings, strangers, transactional_id_of)
            case ids.SHARE_STATE_TOPIC:
                return StateRecordCheck(findings, Strangers(place, "share-partition"), share_partition_of)
        return RecordCheck(findings)

    def _is_known(self) -> bool:
        place = self._log.place
        return place is None or place.entry is not None

    # Names.

    def _check_names(self, files: PartitionFiles) -> None:
        bases = {segment.base_offset for segment in files.segments + files.doomed}
        bases |= set(files.compaction.removed)
        decided = {segment.path(suffix).name for segment in files.segments for suffix in SUFFIXES}
        for name in files.names:
            path = f"{self._log.name}/{name}"
            segment = segment_file(name)
            if segment is not None:
                if segment[0] not in bases:
                    self._tell_lone_index(files, path, segment[0])
            elif name.endswith((".tmp", CLEANED_SUFFIX)) and not (files.directory / name).is_dir():
                if name not in decided:
                    what = "a temporary file of an interrupted write"
                    self._findings.note(path, what, "Nothing: the next start removes it.")
            elif name not in _OWN_FILES and not name.endswith(_KAFKAS_OWN):
                self._findings.note(path, "not a file of a log", "Check what it is: the server ignores it.")
        for doomed in files.doomed:
            self._findings.note(
                f"{self._log.name}/{doomed.path().name}",
                f"the segment ends before the start of the log, {files.checkpoint.log_start_offset}",
                "Nothing: its deletion was interrupted, and the next start removes it.",
            )

    def _tell_lone_index(self, files: PartitionFiles, path: str, base_offset: int) -> None:
        if base_offset < files.log_start_offset:
            self._findings.note(
                path, "an index whose segment was deleted", "Nothing: the next start removes it."
            )
        else:
            self._findings.error(
                path,
                f"an index without its segment: {base_offset:020d}{LOG_SUFFIX} is missing",
                "Restore the data directory from a backup before the next start, which removes the index.",
            )

    # Segments.

    def _check_segments(self, files: PartitionFiles, state: LogState) -> None:
        segments = files.segments
        trusted_below = files.checkpoint.recovery_point
        for at, segment in enumerate(segments):
            following = segments[at + 1].base_offset if at + 1 < len(segments) else None
            name = f"{self._log.name}/{segment.path().name}"
            if at and state.is_gap(segment.base_offset) and not state.is_damaged:
                what = f"it starts after the expected offset {state.expected_offset}: records are missing"
                self._findings.error(name, what, _RESTORE, position=0)
            state.expected_offset = segment.base_offset
            state.end_position = 0
            is_trusted = following is not None and following <= trusted_below
            try:
                SegmentCheck(state, segment, name, following, is_trusted or state.was_closed_well).run()
            except FileNotFoundError:
                state.expected_offset = segment.base_offset if following is None else following
                self._findings.note(
                    name, "the file was removed meanwhile", "Nothing: retention of a running server did it."
                )
            except OSError as problem:
                state.is_damaged = True
                unreadable = Path(problem.filename or segment.path()).name
                self._findings.error(
                    f"{self._log.name}/{unreadable}",
                    f"it cannot be read: {problem.strerror}",
                    # Replaced by another next step if the server does not open the log.
                    "The server opens the log nevertheless. Check the permissions, and the disk.",
                )

    # Small files.

    def _check_epochs_file(self) -> LeaderEpochs | None:
        if self._log.place is None:
            # The catalogue is always written in epoch 0.
            epochs = LeaderEpochs()
            epochs.begin(0, 0)
            return epochs
        read, is_there = read_leader_epochs(self._log.directory)
        name = f"{self._log.name}/{LEADER_EPOCHS_FILE}"
        if read is None:
            self._findings.error(
                name,
                "it cannot be decoded",
                "The server reads the epochs from the log instead. " + _RESTORE,
            )
        elif is_there and self._log.newest_epoch is not None and read.latest > self._log.newest_epoch:
            self._findings.error(
                name,
                f"it has leader epoch {read.latest}, the catalogue only {self._log.newest_epoch}",
                "The catalogue lost records, or the file was changed. " + _RESTORE,
            )
        return read

    def _check_compaction(self, files: PartitionFiles) -> None:
        name = f"{self._log.name}/{COMPACTION_NAME}"
        if not files.has_sound_compaction:
            self._findings.error(
                name,
                "its checksum is wrong",
                "The server does not open this log and changes nothing. " + _RESTORE,
            )
        elif files.compaction.added or files.compaction.removed:
            self._findings.note(
                name,
                f"a compaction up to {files.compaction.compacted_to} was decided and not finished",
                "Nothing: the next start puts the new segments in place. This check uses the new segments.",
            )

    def _check_compacted_to(self, files: PartitionFiles, state: LogState) -> None:
        compacted_to = files.compaction.compacted_to
        if compacted_to > max(state.expected_offset, files.log_start_offset):
            name = f"{self._log.name}/{COMPACTION_NAME}"
            what = f"the log was compacted up to {compacted_to} and ends at {state.expected_offset}"
            self._tell_short_log(name, what, state)

    def _check_checkpoint(self, files: PartitionFiles, state: LogState) -> None:
        name, checkpoint = f"{self._log.name}/{CHECKPOINT_NAME}", files.checkpoint
        end = state.expected_offset if files.segments else 0
        if not files.has_sound_checkpoint:
            self._findings.error(
                name,
                "its checksum is wrong",
                "The server does not open this log and changes nothing. " + _RESTORE,
            )
        elif files.segments and files.segments[0].base_offset > checkpoint.log_start_offset:
            self._findings.error(
                f"{self._log.name}/{files.segments[0].path().name}",
                f"the first segment starts at {files.segments[0].base_offset}, the log at "
                f"{checkpoint.log_start_offset}: records, or {CHECKPOINT_NAME}, are missing",
                _RESTORE,
            )
        if files.segments and checkpoint.recovery_point > end:
            self._findings.error(
                name,
                f"the log was durable up to {checkpoint.recovery_point}, but ends at {end}: records are "
                "missing",
                _RESTORE,
            )
        if files.segments and checkpoint.log_start_offset > end:
            self._tell_short_log(
                name, f"the log starts at {checkpoint.log_start_offset} and ends at {end}", state
            )

    def _read_sync_mark(self, files: PartitionFiles) -> SyncMark | None:
        if SYNC_MARK_NAME not in files.names:
            return None
        name = f"{self._log.name}/{SYNC_MARK_NAME}"
        data = read_start(files.directory / SYNC_MARK_NAME, LARGEST_MARK_BYTES)
        mark = SyncMark.from_bytes(data)
        if mark is None:
            self._findings.error(name, "its checksum is wrong, so it is ignored", _NO_MARK)
        return mark

    def _check_sync_mark(self, files: PartitionFiles, mark: SyncMark, state: LogState) -> None:
        name = f"{self._log.name}/{SYNC_MARK_NAME}"
        sizes = {segment.base_offset: segment.path().stat().st_size for segment in files.segments[:-1]}
        if files.segments:
            sizes[files.segments[-1].base_offset] = state.end_position
        if mark.base_offset < files.compaction.compacted_to:
            return  # Compaction has replaced the segment by a shorter one.
        if mark.position > sizes.get(mark.base_offset, mark.position):
            self._findings.error(
                name,
                f"{mark.position} bytes of segment {mark.base_offset} were synced, but it has "
                f"{sizes[mark.base_offset]}: records are missing",
                _RESTORE,
            )

    def _check_producers(self, files: PartitionFiles, state: LogState) -> None:
        if PRODUCERS_FILE not in files.names:
            return
        name = f"{self._log.name}/{PRODUCERS_FILE}"
        try:
            snapshot = Snapshot.decode(read_start(self._log.directory / PRODUCERS_FILE))
        except FileNotFoundError:
            return
        if snapshot is None:
            self._tell_snapshot(name, "its checksum is wrong", state)
        elif snapshot.end_offset > max(state.expected_offset, files.log_start_offset):
            what = (
                f"it was made for a log that ends at {snapshot.end_offset}, the log ends at "
                f"{state.expected_offset}"
            )
            self._tell_short_log(name, what, state)

    def _tell_snapshot(self, name: str, what: str, state: LogState) -> None:
        if state.was_closed_well:
            self._findings.error(name, what, "Remove it: the next start reads its content from the log.")
        else:
            # The file is not synced, so it can have any content after a power cut.
            self._findings.note(name, what, "Nothing: the next start discards it and reads the log instead.")

    def _tell_short_log(self, name: str, what: str, state: LogState) -> None:
        if state.was_closed_well:
            self._findings.error(name, f"{what}: records are missing", _RESTORE)
        elif state.next_start.refusal is None:  # else records are missing that were durable
            self._findings.note(name, what, "Nothing: the last records were lost before they were durable.")
