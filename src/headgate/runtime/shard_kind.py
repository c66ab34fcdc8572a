"""The registration of a kind of shard, which is all that the runtime knows of it.

A kind defines the topic of its shards' state, the encoding of its records, the shard of a key, and the
construction of an empty shard. The runtime names no kind. CONTRIBUTING.md explains how to add one, and
`tests/runtime/registers.py` is the smallest example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""Decodes a record's key, value and timestamp. Raises MalformedRecord."""

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class RecordRows(Protocol):
    """Records of one type as columns, in log order."""

    @property
    def stretch_of(self) -> Int64s:
        """Number of each row's stretch, ascending: all rows of a stretch need one look-up."""
        ...

    def __len__(self) -> int: ...

    def between(self, first: int, end: int) -> Any:
        """Return the rows `first` to `end - 1`."""
        ...


class ColumnFormat(Protocol):
    """Decodes many records of a log at a time, for records that come in thousands.

    The shard of such a kind implements `TakesRows`. The result equals that of `decode`, record by record.
    """

    def read(self, columns: RecordColumns) -> tuple[Int64s, RecordRows]:
        """Return the indexes of records of this type, ascending, and their rows. Raises MalformedRecord."""
        ...

    def is_apart(self, columns: RecordColumns, at: int) -> bool:
        """Return whether a record of another type is independent of the rows, and may be applied first."""
        ...


def _one(change: Any) -> int:
    return 1


def _no_keys(shard: Any) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """Encoding and decoding of the records of a kind."""

    encode: Encode
    decode: Decode
    record_count: Callable[[Any], int] = _one
    """Returns how many log records one decided record takes."""
    batches: Callable[[Encode, Callable[[], int], bool], RecordBatches] = RecordBatches
    """Makes the encoder of batches; a subclass of the standard one where records come in columns."""
    columns: ColumnFormat | None = None
    are_long: bool = False
    """Whether a record may take milliseconds to encode: the records of one command are encoded in slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKind(Generic[ShardT]):
    """One kind of shard on one node."""

    topic: TopicName
    """Internal topic, listed in `headgate.topics.names`. Each partition is the log of one shard."""
    partition_count: int
    """Number of partitions at the creation of the topic."""
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the topic at its creation, by name."""
    records: RecordFormat
    new_shard: Callable[[], ShardT]
    """Makes an empty shard, at the start and after a failure; it may run commands without records."""
    first_commands: Callable[[], Iterable[Any]] = tuple
    """Commands for a shard that was loaded."""
    partition_of: Callable[[str, int], int] = partition_for
    """Returns the partition of a key, given the number of partitions."""
    keys_of: Callable[[ShardT], Iterator[str]] = _no_keys
    """Returns the keys of all that a shard holds. They are checked after a load."""

    def batches_for(self, log: StateLog) -> RecordBatches:
        """Make the encoder of batches for a log."""
        records = self.records
        return records.batches(records.encode, lambda: log.max_batch_bytes, not log.compacts_itself)
