"""The log compared with a list of batches, with syncs, faults, crashes, deletion and truncation."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.log.support import DIRECTORY, Place, batch_at, contents, delete, first_at, memory, newest, sync

from headgate.log.batch import iterate_records, read_header
from headgate.log.filesystem import Fault, MemoryFileSystem
from headgate.log.log import LogFailed, LogSettings, SyncRequest


class LogModel(RuleBasedStateMachine):
    """`kept` has every batch from the first segment on; the log must return those that reach its start."""

    files: MemoryFileSystem
    place: Place

    @initialize(segment_bytes=st.sampled_from([150, 400, 1000]), interval=st.sampled_from([0, 100, 300]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        """An empty data directory."""
        self.files = memory()
        self.place = Place(self.files, settings=LogSettings(segment_bytes, 500, interval))
        self.log = self.place.open()
        self.kept: list[bytes] = []
        self.start = self.end = self.durable = 0
        self.request: SyncRequest | None = None

    def visible(self) -> list[bytes]:
        """The batches readers may see."""
        return [batch for batch in self.kept if read_header(batch).next_offset > self.start]

    @precondition(lambda self: self.log.failure is None)
    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=4), jump=st.sampled_from([0, 0, 0, 600, -3])
    )
    def append(self, counts: list[int], jump: int) -> None:
        """Several batches in one write."""
        batches = []
        for count in counts:
            batches.append(batch_at(self.end, count, timestamp=1000 + self.end + jump))
            self.end += count
        self.log.append(b"".join(batches), [read_header(batch) for batch in batches])
        self.kept += batches

    @precondition(lambda self: self.log.failure is None)
    @rule(
        kind=st.sampled_from(["pwrite", "truncate", "open", "make_directory"]),
        after=st.integers(0, 1),
        written=st.integers(0, 120),
        is_short=st.booleans(),
    )
    def append_with_a_fault(self, kind: str, after: int, written: int, is_short: bool) -> None:
        """An append either happens or raises OSError and leaves the log as it was."""
        self.files.inject(Fault(None if is_short else errno.ENOSPC, kind, after=after, written=written))
        batch = batch_at(self.end, 2)
        try:
            self.log.append(batch, [read_header(batch)])
        except OSError:
            pass
        else:
            self.kept.append(batch)
            self.end += 2
        self.files.heal()

    @precondition(lambda self: self.log.failure is None)
    @rule()
    def fail_to_cut_back(self) -> None:
        """A torn write that cannot be cut back stops the log until it is recovered."""
        if not self.kept:
            return
        self.files.inject(Fault(errno.EIO, "pwrite", written=30, path_ends=".log"))
        self.files.inject(Fault(errno.EIO, "truncate", path_ends=".log"))
        batch = batch_at(self.end, 2)
        try:
            self.log.append(batch, [read_header(batch)])
        except OSError:
            assert self.log.failure is not None
        self.files.heal()

    @rule()
    def recover(self) -> None:
        """Reading the log again keeps every batch and makes all of it durable."""
        self.finish_request()
        self.log.recover()
        self.durable = self.end if self.kept else self.durable
        assert self.log.failure is None

    @precondition(lambda self: self.log.failure is None)
    @rule()
    def sync(self) -> None:
        """A sync makes durable what there was."""
        sync(self.log)
        self.durable = self.end

    @precondition(lambda self: self.log.failure is None and self.request is None)
    @rule()
    def begin_sync(self) -> None:
        """A sync that another thread runs while the log goes on."""
        self.request = self.log.begin_sync()

    @precondition(lambda self: self.request is not None)
    @rule()
    def finish_request(self) -> None:
        """The sync is completed: durable up to where it began, if the log was not read again since."""
        if self.request is None:
            return
        request, self.request = self.request, None
        with suppress(FileNotFoundError):
            request.run()
        try:
            self.log.complete_sync(request)
        except LogFailed:
            return
        self.durable = max(self.durable, request.end_offset)

    @precondition(lambda self: self.log.failure is None and self.durable < self.end)
    @rule(drop=st.booleans())
    def fail_to_sync(self, drop: bool) -> None:
        """A failed sync stops the log; what the page cache dropped is lost, the rest written again."""
        self.finish_request()
        if not self.log.needs_sync:
            return
        self.files.inject(Fault(errno.EIO, "datasync", path_ends=".log"))
        try:
            sync(self.log)
        except OSError:
            assert self.log.failure is not None
            batch = batch_at(self.end)
            try:
                self.log.append(batch, [read_header(batch)])
                raise AssertionError("a failed log took an append")
            except LogFailed:
                pass
        else:
            # Nothing but names was left to sync.
            self.durable = self.end
        self.files.heal()
        if drop:
            self.files.drop_caches()
            self.log.recover()
            self.accept_prefix()

    @rule(seed=st.integers(0, 2**32), kind=st.sampled_from(["lose all", "lose some", "kill"]))
    def crash(self, seed: int, kind: str) -> None:
        """After a restart what was synced is there, and of the rest a prefix."""
        if kind == "kill":
            self.files.kill()
        else:
            self.files.crash(Random(seed) if kind == "lose some" else None)
        self.request = None
        self.log = self.place.open()
        self.accept_prefix()
        again = contents(self.log)
        reports = len(self.place.reported)
        self.log = self.place.open()
        assert contents(self.log) == again
        assert len(self.place.reported) == reports, "a second recovery found something to drop"

    def accept_prefix(self) -> None:
        """The log may have lost the newest batches, but none that were durable."""
        end = self.log.log_end_offset
        assert end >= self.durable
        assert end <= max(self.end, self.start)
        self.kept = [batch for batch in self.kept if read_header(batch).next_offset <= end]
        if self.kept:
            assert read_header(self.kept[-1]).next_offset == end or end == self.start
        self.end = self.durable = end

    @precondition(lambda self: self.log.failure is None)
    @rule()
    def close_and_open(self) -> None:
        """A clean stop and start loses nothing and scans nothing."""
        self.finish_request()
        self.log.close()
        reports = len(self.place.reported)
        self.log = self.place.open(clean=True)
        assert len(self.place.reported) == reports
        self.durable = self.end

    @rule()
    def close_files(self) -> None:
        """Giving back descriptors and indexes changes nothing."""
        self.log.close_files()

    @rule(fraction=st.floats(0, 1))
    def delete_before(self, fraction: float) -> None:
        """Records below an offset are gone for good."""
        self.start = self.start + round((self.end - self.start) * fraction)
        self.log.delete_before(self.start)
        self.kept = self.visible()

    @precondition(lambda self: self.log.failure is None)
    @rule(surplus=st.integers(0, 2000))
    def retain_bytes(self, surplus: int) -> None:
        """Retention removes whole durable segments from the front, never more than the surplus."""
        # What lies below the start already goes first, whatever the limits.
        self.log.delete_before(self.start)
        limit = max(self.log.size_bytes - surplus, 0)
        before = self.log.size_bytes
        self.log.apply_retention(0, -1, limit)
        assert self.log.size_bytes >= limit or before < limit
        self.accept_start()

    @precondition(lambda self: self.log.failure is None)
    @rule(age=st.integers(0, 60))
    def retain_time(self, age: int) -> None:
        """Retention removes the segments whose newest record is too old."""
        now = 1000 + self.end
        self.log.apply_retention(now, age, -1)
        self.accept_start()

    def accept_start(self) -> None:
        """The start moved forward, to where a batch begins, and not past what is durable."""
        start = self.log.log_start_offset
        assert self.start <= start <= max(self.durable, self.start)
        self.start = start
        self.kept = self.visible()

    @precondition(lambda self: self.log.failure is None)
    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        """Batches that reach an offset are gone for good."""
        offset = self.start + round((self.end - self.start) * fraction)
        self.log.truncate(offset)
        if offset < self.end:
            self.kept = [batch for batch in self.kept if read_header(batch).next_offset <= offset]
            self.end = self.log.log_end_offset
            assert self.end <= offset
            self.start = min(self.start, self.end)
            self.durable = min(self.durable, self.end)

    @invariant()
    def log_is_the_list(self) -> None:
        """The log tells the same offsets and holds the same batches as the model."""
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.durable_offset <= self.end
        assert self.log.durable_offset >= min(self.durable, self.end)
        assert contents(self.log) == self.visible()

    @precondition(lambda self: self.start < self.end)
    @rule(fraction=st.floats(0, 1), max_bytes=st.integers(0, 600), limit_fraction=st.floats(0, 1))
    def read(self, fraction: float, max_bytes: int, limit_fraction: float) -> None:
        """A read gives the batches from the one with the offset on, within its limits."""
        offset = self.start + round((self.end - 1 - self.start) * fraction)
        bounds = [read_header(batch).base_offset for batch in self.visible()] + [self.end]
        up_to = bounds[round((len(bounds) - 1) * limit_fraction)]
        data = self.log.read(offset, max_bytes, up_to=up_to)
        expected = [
            batch
            for batch in self.visible()
            if read_header(batch).next_offset > offset and read_header(batch).next_offset <= up_to
        ]
        assert b"".join(expected).startswith(data)
        if expected:
            assert len(data) >= len(expected[0])
            assert len(data) <= max(max_bytes, len(expected[0]))
            assert self.log.read(offset, max_bytes, minimum_one=False, up_to=up_to) == (
                data if len(data) <= max_bytes else b""
            )
        else:
            assert data == b""

    @rule(timestamp=st.integers(990, 1100), end_fraction=st.floats(0, 1))
    def find_timestamp(self, timestamp: int, end_fraction: float) -> None:
        """The first record at or after a time, and the first one with the largest timestamp below an offset,
        are those that a walk over all records finds.
        """
        bounds = [read_header(batch).next_offset for batch in self.visible()] + [self.end]
        up_to = bounds[round((len(bounds) - 1) * end_fraction)]
        expected = largest = None
        for offset, record in iterate_records(b"".join(self.visible())):
            if offset < self.start:
                continue
            if expected is None and record.timestamp >= timestamp:
                expected = record.timestamp, offset
            if offset < up_to and (largest is None or record.timestamp > largest[0]):
                largest = record.timestamp, offset
        assert first_at(self.log, timestamp) == expected
        assert newest(self.log, up_to) == largest

    @rule()
    def delete(self) -> None:
        """A deleted log leaves nothing; a new one begins at zero."""
        if not self.kept or self.end % 7:
            return
        delete(self.log)
        assert not self.files.exists(DIRECTORY)
        self.files.sync_directory(DIRECTORY.parent)
        self.log = self.place.open()
        self.kept, self.start, self.end, self.durable, self.request = [], 0, 0, 0, None


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
