"""A kind of shard, as the runtime knows it: one registration.

A kind says in which topic its shards keep their state, how its records are written and read, which shard
holds a key, and how an empty shard is made. The runtime knows no kind by name. CONTRIBUTING.md tells how to
add one, and `tests/runtime/registers.py` is the smallest one there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.core.contract import Shard
from headgate.domain.ids import Millis, TopicName
from headgate.domain.partitioning import partition_for
from headgate.log.record_columns import RecordColumns
from headgate.runtime.record_batches import Encode, RecordBatches
from headgate.runtime.state_log import StateLog

Int64s = NDArray[np.int64]

Decode = Callable[[bytes | None, bytes | None, Millis], Any]
"""Makes a record of a key, a value, and the time at which a log has it. Raises MalformedRecord."""

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class Rows(Protocol):
    """Records of one sort as columns, in the order of the log."""

    @property
    def stretch_of(self) -> Int64s:
        """For each row the stretch it belongs to, ascending: rows of a stretch need one look-up."""
        ...

    def __len__(self) -> int: ...

    def between(self, first: int, end: int) -> Any:
        """The rows from `first` up to and without `end`."""
        ...


class ColumnFormat(Protocol):
    """How records that come in thousands are read from a log many at a time.

    The shard of such a kind `TakesRows`. What is read this way is what `decode` reads one by one.
    """

    def read(self, columns: RecordColumns) -> tuple[Int64s, Rows]:
        """Which of the records are of this sort, ascending, and these as rows. Raises MalformedRecord."""
        ...

    def is_apart(self, columns: RecordColumns, at: int) -> bool:
        """Whether a record that is not of this sort touches nothing that rows do: it may come before them."""
        ...


def _one(change: Any) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """How the records of a kind are written and read."""

    encode: Encode
    decode: Decode
    record_count: Callable[[Any], int] = _one
    """How many records of the log a record takes, as a shard decides it."""
    batches: Callable[[Encode, Callable[[], int], bool], RecordBatches] = RecordBatches
    """Makes what lays out the batches of a turn; another one than the standard where records are columns."""
    columns: ColumnFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKind(Generic[ShardT]):
    """One kind of shard on one node."""

    topic: TopicName
    """The internal topic; `headgate.topics.names` lists it. One partition is the log of one shard."""
    partition_count: int
    """How many partitions the topic gets when it is created."""
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings then, by name."""
    records: RecordFormat
    new_shard: Callable[[], ShardT]
    """Makes an empty shard, at start and after a failure; it may be given commands that write nothing."""
    first_commands: Callable[[], Iterable[Any]] = tuple
    """What a shard is told as soon as it is loaded."""
    partition_of: Callable[[str, int], int] = partition_for
    """The partition that holds a key, of so many."""

    def batches_for(self, log: StateLog) -> RecordBatches:
        """What lays out the batches for a log."""
        records = self.records
        return records.batches(records.encode, lambda: log.max_batch_bytes, not log.compacts_itself)
