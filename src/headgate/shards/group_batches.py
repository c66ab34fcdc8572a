"""The batches of one turn of a group shard: beside single records, offsets that come in columns.

A wide commit that came before is a batch of
its own, copied from the last one: that is quicker than laying its records out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.log.builder import BatchBuilder, RecordBlock, RecordOutline
from headgate.log.template import BatchTemplate
from headgate.records import (
    Change,
    OffsetCommits,
    Record,
    StandingCommit,
    StandingCommits,
    encode,
)
from headgate.records.offset_blocks import blocks_of
from headgate.records.offset_commit import (
    INT64_BYTES,
    PLAIN_VALUE_START,
    between_offset_and_timestamp,
    encode_offset_key,
)
from headgate.records.offset_rows import OffsetRows
from headgate.runtime.record_batches import LARGEST_INT32, RecordBatches, is_over_batch
from headgate.runtime.run_batches import RECORD_OVERHEAD, RunBatches

NARROWEST_TEMPLATE: Final = 16
MOST_TEMPLATE_BYTES: Final = 8 << 20
"""What the batches kept to be copied come to at most."""
MOST_OUTLINES: Final = 8192
"""Of how many standing commits the record's outline is kept."""


class TurnBatches(RecordBatches):
    """Makes the batches of one shard's turns; remembers the wide commits that come again."""

    def __init__(
        self, largest_batch_bytes: Callable[[], int] = lambda: LARGEST_INT32, may_be_runs: bool = True
    ) -> None:
        super().__init__(encode, largest_batch_bytes, may_be_runs)
        self._templates = _Templates()
        self._outlines: dict[StandingCommit, RecordOutline] = {}

    def _add_changes(self, changes: Sequence[Change], first_offset: int) -> int:
        if len(changes) == 1 and type(changes[0]) is StandingCommits:
            return self._add_standing(changes[0])
        return self._add_singles(changes) or self._add_copy(changes) or self._add(changes, first_offset)

    def _add_standing(self, commits: StandingCommits) -> int:
        """Commits that come again, of as many commands as fit into a batch at most."""
        known = self._outlines
        try:
            outlines = [known[commit] for commit in commits.commits]
        except KeyError:
            outlines = self._outlines_of(commits.commits)
        size = sum([outline.size_bytes for outline in outlines])
        offsets, timestamp = commits.offset_bytes(), commits.timestamp_bytes()
        self._make_room(size)
        self._shared.add_outlined(outlines, offsets, timestamp, size)
        return len(outlines)

    def _outlines_of(self, commits: Sequence[StandingCommit]) -> list[RecordOutline]:
        known = self._outlines
        if len(known) + len(commits) > MOST_OUTLINES:
            known.clear()
        for commit in commits:
            if commit not in known:
                key = encode_offset_key(commit.group_id, commit.topic, commit.partition)
                between = between_offset_and_timestamp(commit.leader_epoch)
                known[commit] = RecordOutline(key, PLAIN_VALUE_START, INT64_BYTES, between, INT64_BYTES)
        return [known[commit] for commit in commits]

    def _add_singles(self, changes: Sequence[Change]) -> int:
        """Changes of a record each; 0: there are others among them, or too many for a batch."""
        encoded = []
        size = 0
        for change in changes:
            if isinstance(change, (OffsetCommits, OffsetRows, StandingCommits)):
                return 0
            key, value = encode(change)
            encoded.append((key, value))
            size += len(key) + len(value or b"") + RECORD_OVERHEAD
        if is_over_batch(size):
            for key, value in encoded:
                self._check_size(len(key) + len(value or b""))
            return 0
        self._make_room(size)
        self._shared.add_all(encoded, size)
        return len(encoded)

    def _add_copy(self, changes: Sequence[Change]) -> int:
        """A wide commit that came before, in a batch of its own; 0: these changes are something else."""
        change = changes[0]
        if len(changes) > 1 or not isinstance(change, OffsetCommits):
            return 0
        template = self._templates.of(change)
        if template is None:
            return 0
        self._close_shared()
        now = self._shared.timestamp
        self._batches.append(
            template.batch(now, change.offsets, change.leader_epochs, change.commit_timestamp)
        )
        return len(change)

    def _add(self, changes: Sequence[Change], first_offset: int) -> int:
        """Put a command's records into the shared batch, or into a run of their own; returns how many."""
        parts = [_part_of(one) for one in _split(changes)]
        size = sum(part.size for part in parts)
        count = sum(part.count for part in parts)
        self._make_room(size)
        if self._is_run(size, count):
            run = self._run(first_offset, count)
            for part in parts:
                part.add_to_run(run)
            self._batches += run.build()
        else:
            for part in parts:
                part.add_to(self._shared)
        return count


class _Kept(NamedTuple):
    partitions: NDArray[np.int64]
    template: BatchTemplate


class _Templates:
    """A batch to copy from for each wide commit that came more than once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, int], _Kept] = {}
        """By group, topic, metadata and the first partition: members of a group have each their own."""
        self._kept_bytes = 0
        self._seen: set[int] = set()

    def of(self, commits: OffsetCommits) -> BatchTemplate | None:
        """What to copy from; None for a commit that is new, narrow or too large."""
        if len(commits) < NARROWEST_TEMPLATE:
            return None
        name = commits.group_id, commits.topic, commits.metadata, int(commits.partitions[0])
        kept = self._kept.get(name)
        if kept is not None and kept.partitions is commits.partitions:  # nearly always: a request came again
            return kept.template
        partitions = commits.partitions.tobytes()
        if kept is not None and kept.partitions.tobytes() == partitions:
            return kept.template
        seen = hash((name, partitions))
        if seen not in self._seen:
            if len(self._seen) >= 4096:
                self._seen.clear()
            self._seen.add(seen)
            return None
        keys, values = commits.encode()
        if is_over_batch(keys.size + values.size + len(commits) * RECORD_OVERHEAD):
            return None
        template = BatchTemplate(keys, values, commits.value_fields())
        self._kept_bytes += template.size_bytes - (kept.template.size_bytes if kept is not None else 0)
        if self._kept_bytes > MOST_TEMPLATE_BYTES:
            self._kept.clear()
            self._kept_bytes = template.size_bytes
        self._kept[name] = _Kept(commits.partitions, template)
        return template


def _split(changes: Iterable[Change]) -> Iterator[Record | OffsetCommits | OffsetRows]:
    for change in changes:
        if isinstance(change, StandingCommits):
            yield from change.each()
        else:
            yield change


def _part_of(change: Record | OffsetCommits | OffsetRows) -> _Single | _Columns | _Blocks:
    match change:
        case OffsetCommits():
            return _Columns(change)
        case OffsetRows():
            return _Blocks(change)
        case _:
            return _Single(change)


class _Single:
    """One record, encoded."""

    __slots__ = ("_key", "_value", "size")
    count = 1

    def __init__(self, record: Record) -> None:
        self._key, self._value = encode(record)
        self.size = len(self._key) + len(self._value or b"") + RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        builder.add(self._key, self._value, self.size)

    def add_to_run(self, run: RunBatches) -> None:
        run.add(self._key, self._value)


class _Columns:
    """As many records as a wide commit has partitions, encoded."""

    __slots__ = ("_keys", "_values", "count", "size")

    def __init__(self, commits: OffsetCommits) -> None:
        self._keys, self._values = commits.encode()
        self.count = len(commits)
        self.size = self._keys.size + self._values.size + self.count * RECORD_OVERHEAD

    def add_to(self, builder: BatchBuilder) -> None:
        builder.add_columns(self._keys, self._values)

    def add_to_run(self, run: RunBatches) -> None:
        run.add_columns(self._keys, self._values)


class _Blocks:
    """Records that differ in more than numbers, encoded."""

    __slots__ = ("_blocks", "count", "size")

    def __init__(self, rows: OffsetRows) -> None:
        self._blocks = [RecordBlock(*block) for block in blocks_of(rows)]
        self.count = len(rows)
        self.size = self.count * RECORD_OVERHEAD + sum(
            keys.size + (0 if values is None else values.size) for _, keys, values in self._blocks
        )

    def add_to(self, builder: BatchBuilder) -> None:
        builder.add_blocks(self._blocks)

    def add_to_run(self, run: RunBatches) -> None:
        run.add_blocks(self._blocks)
