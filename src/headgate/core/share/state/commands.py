"""Commands to the share coordinator's shard, and their results. They mirror the RPCs 83 to 87.

Each is about one share-partition, and goes to the shard of its key:
`node.share_state.submit(command.key.name, command, on_reply)`. The reply is the command's result, or a
retriable `ErrorCode` from the runtime while the shard is loading or after its log failed.

Epochs: the *state epoch* rises when the state is initialized again (by an administrator, or by a new group of
the same name), the *leader epoch* when another leader of the partition reads the state. A command with a
smaller one than the last is refused (FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH); -1 is not checked and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headgate.domain.errors import ErrorCode
from headgate.records.share_batches import NO_BATCHES, StateBatch, StateBatches
from headgate.records.share_state_model import UNCHANGED as UNCHANGED
from headgate.records.share_state_model import UNKNOWN_COUNT as UNKNOWN_COUNT
from headgate.records.share_state_model import DeadLetterMark as DeadLetterMark
from headgate.records.share_state_model import ShareKey as ShareKey

UNKNOWN_START: Final = -1
"""Start offset of a state whose first reader chooses one (by `share.auto.offset.reset`), or of no state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState:
    """Set a new state without batches, whatever there was. Reply: `StateResult`."""

    key: ShareKey
    state_epoch: int
    start_offset: int = UNKNOWN_START
    keeps_letters: bool = False
    """Refuse it with REBALANCE_IN_PROGRESS if records wait for their dead letters, which would be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Read the state as the partition's leader, and raise the leader epoch. Reply: `ReadStateResult`."""

    key: ShareKey
    leader_epoch: int = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    """Merge batches into the state, and move its start offset forward. Reply: `StateResult`.

    Where batches overlap, with each other or with the state, the higher delivery count wins, then the higher
    delivery state (F18). The start offset never moves backward. A state that is not initialized is refused
    with INVALID_REQUEST.
    """

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = UNCHANGED
    delivery_complete_count: int = UNKNOWN_COUNT
    """Number of offsets from the start offset on whose delivery is complete; it is stored as it is."""
    batches: Sequence[StateBatch] | StateBatches = NO_BATCHES
    dead_letters: DeadLetterMark | None = None
    """None leaves the mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenState:
    """Let records be delivered again whose delivery is complete, whatever the merge rule says (F18).

    The start offset moves down to the first of them; the other offsets up to the old one are acknowledged.
    Not one of Kafka's RPCs. Reply: `StateResult`.
    """

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    delivery_complete_count: int
    offsets: Sequence[tuple[int, int]]
    """First and last offsets, ascending; at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState:
    """Remove the state, if there is one. Reply: `StateResult`."""

    key: ShareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSummary:
    """Read the state without its batches, and without changes. Reply: `SummaryResult`."""

    key: ShareKey
    leader_epoch: int = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNeededPosition:
    """Read from which position on the log is needed. Reply: the position.

    As with every reply, all that it depends on is durable then: the snapshots that replace what is before it.
    """


ShareStateCommand = InitializeState | ReadState | WriteState | ReopenState | DeleteState | ReadSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResult:
    """The result of a change."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateResult:
    """The result of `ReadState`."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = UNKNOWN_START
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: StateBatches = NO_BATCHES
    """Sorted, without overlaps, neighbours with equal state and count joined, none below the start offset."""
    dead_letters: DeadLetterMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryResult:
    """The result of `ReadSummary`; without a state its start offset is `UNKNOWN_START`."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN_START
    delivery_complete_count: int = UNKNOWN_COUNT
