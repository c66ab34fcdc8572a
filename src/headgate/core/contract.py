"""The contract between a coordinator shard and the runtime.

A shard is a deterministic state machine. Its two rules:

1. `handle` decides, `apply` changes durable state: only `apply` does, with the same records in the same order
   whether they were just decided or are read from the log.
2. A shard has no inputs but its arguments: `now` is an argument, identifiers are part of commands. `now` is
   steady time, for deadlines; the system time comes as a command (`SystemTimeMoved`), once before `loaded`
   and whenever its distance to steady time changes.

`handle` returns `Effects`: the records to append, all or none, and the replies to send. A reply has the token
of its request, and may belong to an earlier request: a join is answered when the rebalance completes, perhaps
by a `Tick`. The runtime appends and applies the records, and releases the replies when the log is durable up
to the position they were computed at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from headgate.domain.ids import Millis

Token = int
"""Identifies one waiting request; chosen by the runtime, opaque to the shard."""

CommandT = TypeVar("CommandT", contravariant=True)
RecordT = TypeVar("RecordT")
RowsT = TypeVar("RowsT", contravariant=True)


class Producer(NamedTuple):
    """Whose transaction a record is part of."""

    producer_id: int
    epoch: int


class TransactionEnd(NamedTuple):
    """The end of a producer's open transaction, as a marker in the log tells it."""

    producer: Producer
    is_committed: bool
    coordinator_epoch: int = 0
    """The epoch of the transaction coordinator that decided it."""


@dataclass(slots=True)
class Reply:
    """The answer to one waiting request: `result` is the result type of that request's command.

    Replies and effects are never changed after their creation; they are not frozen because every request
    makes both.
    """

    token: Token
    result: object


@dataclass(slots=True)
class Effects(Generic[RecordT]):
    """The result of a command: `records` are appended all or not at all, then `replies` are sent."""

    records: Sequence[RecordT] = ()
    replies: Sequence[Reply] = ()
    transaction: Producer | TransactionEnd | None = None
    """Whose open transaction the records are part of; or its end, and then there are no records."""


class Shard(Protocol[CommandT, RecordT]):
    """The state of one partition of a coordinator, as the runtime uses it."""

    def handle(self, command: CommandT, now: Millis, token: Token = 0) -> Effects[RecordT]:
        """Decide the effects of a command. Volatile state may change, durable state does not.

        `token` identifies the request of the command; a reply to it, now or later, has the token.
        """
        ...

    def apply(self, record: RecordT, position: int, producer: Producer | None = None) -> None:
        """Apply one record to the durable state: live and at load alike.

        `position` is its offset in the log. Live it is the expected offset: where others write to the log as
        well, the record may end up further on, so positions tell the order of records only. `producer` is
        the producer whose transaction the record is part of: it counts when that is committed. None: it
        counts at once. Only a shard that `TakesTransactions` is given a producer.
        """
        ...

    def current_record(self, record: RecordT) -> RecordT | None:
        """Return a record that restores the current value of `record`'s key; None if no single record can."""
        ...

    def loaded(self, now: Millis) -> None:
        """Set volatile state to its defaults and set the deadlines, after the whole log was applied."""
        ...

    def next_deadline(self) -> Millis | None:
        """Return when the runtime must call `handle(Tick(), now)`; None if no deadline is set."""
        ...


@runtime_checkable
class TakesTransactions(Protocol):
    """A shard that can hold records of transactions until they are committed or aborted."""

    def end_transaction(self, end: TransactionEnd, position: int) -> None:
        """Commit or abort the records of the producer's open transaction, live and at load.

        `position` is the offset of the marker. A producer without an open transaction changes nothing.
        """
        ...


@runtime_checkable
class TakesRows(Protocol[RowsT]):
    """A shard that can apply many records of a log at once, as its format reads them in columns.

    Only these records and tombstones may change the same state: between two tombstones of other records, a
    load applies the other records first.
    """

    def apply_rows(self, rows: RowsT) -> None:
        """Do the same as `apply` for each of these records, in order. Raises MalformedRecord."""
        ...


@runtime_checkable
class FinishesLater(Protocol):
    """A shard that may apply long records in steps, so that they do not hold the event loop.

    If `finishes_later` is set, `apply` and `end_transaction` may leave steps behind. Until all of them are
    taken (`finish`), the state is incomplete: the caller handles no command and reads no image. Further
    records may be applied: they follow in order.
    """

    finishes_later: bool
    """Set by a caller that takes the steps. Without it, records are applied to their end."""
    unfinished: deque[Iterator[None]]
    """What is left to do, in order; the same object for the life of the shard."""


def finish(unfinished: deque[Iterator[None]]) -> Iterator[None]:
    """Take the steps that a shard left behind; each `next` takes one. See `FinishesLater`."""
    while unfinished:
        for _ in unfinished[0]:
            yield
        unfinished.popleft()


class MalformedImage(Exception):
    """The parts are not an image of such a shard; the message says why."""


@runtime_checkable
class Pictured(Protocol):
    """A shard whose durable state can be read as an image, in slices, while it changes.

    Each part has the state of the moment it is read. Records applied since the first part may be in the image
    or not: the log since then is applied over the restored state.
    """

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Yield the durable state in parts, each with its kind. Close the iterator if it is not read to its
        end.
        """
        ...

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        """Set a new shard to the state of an image, in steps. `parts` returns the parts of a kind, in order.

        Raises MalformedImage: the shard must not be used then.
        """
        ...

    def contents(self) -> Mapping[str, int]:
        """Return counts of what the state contains: for `restore`, and for information."""
        ...
