"""The records of `__share_group_state`: the persisted state of share-partitions (KIP-932).

A state is its last snapshot and the updates after it, in order. An update has batches that are merged into
the state, and a start offset below which all batches are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from headgate.domain.ids import GroupId, Millis, TopicId, topic_id_text
from headgate.records.share_batches import NO_BATCHES, StateBatches

UNCHANGED: Final = -1
"""An epoch or a start offset that a record or a command does not change."""
UNKNOWN_COUNT: Final = -1
"""Delivery complete count that nobody has told yet."""


@dataclass(frozen=True)
class ShareKey:
    """A share-partition: one partition of a topic as one group reads it."""

    group_id: GroupId
    topic_id: TopicId
    partition: int

    @cached_property
    def name(self) -> str:
        """The key of its shard, as in Kafka: group, topic id and partition, with colons between them."""
        return f"{self.group_id}:{topic_id_text(self.topic_id)}:{self.partition}"


class DeadLetterMark(NamedTuple):
    """From where on the dead letters may be that were written last (KIP-1191), or about to be written.

    Those of all offsets whose state is ARCHIVING are there, or nowhere.
    """

    topic_id: TopicId
    """The dead-letter topic."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshot:
    """The whole state of a share-partition."""

    key: ShareKey
    snapshot_epoch: int
    """Rises by one with each snapshot."""
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    created: Millis
    """When the state was initialized, system time."""
    written: Millis
    """When this snapshot was made, system time."""
    batches: StateBatches = NO_BATCHES
    dead_letters: DeadLetterMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """A change of the state since its last snapshot, whose epoch it has."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    """`UNCHANGED` leaves the start offset."""
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: StateBatches = NO_BATCHES
    dead_letters: DeadLetterMark | None = None
    """None leaves the mark."""


@dataclass(frozen=True, slots=True)
class ShareTombstone:
    """The state was removed."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class UnknownShareRecord:
    """A record with a key type that this version does not know."""

    key_bytes: bytes
    value_bytes: bytes | None


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate | ShareTombstone | UnknownShareRecord
