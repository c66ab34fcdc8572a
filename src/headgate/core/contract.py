"""The contract between a coordinator shard and whatever runs it.

A shard is a deterministic state machine. Its two rules:

1. `handle` decides and `apply` remembers: durable state changes in `apply` alone, with the same records
   in the same order whether they were decided a moment ago or are read back from the log.
2. Nothing is asked of the world: the time is an argument, identifiers arrive inside commands. That time only
   ever passes, and is for deadlines; what the system's clock says comes as a command (`SystemTimeMoved`),
   once before `loaded` and whenever the two moved against each other.

`handle` returns `Effects`: the records to append, which stand or fall as one, and the replies to send. A
reply is keyed by the token of the request that waits for it, and need not be to the command at hand: a join
is answered when the rebalance completes, perhaps by a `Tick`. The runtime appends and applies the records,
and releases the replies when the log is durable up to the position they were computed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from headgate.domain.ids import Millis
from headgate.records.offset_rows import OffsetRows

Token = int
"""Names one waiting request; chosen by the runtime, meaningless to the shard."""

CommandT = TypeVar("CommandT", contravariant=True)
RecordT = TypeVar("RecordT")


@dataclass(slots=True)
class Reply:
    """The answer to one waiting request: `result` is the result type of that request's command.

    Nobody changes a reply or effects; they are not frozen because every request makes both.
    """

    token: Token
    result: object


@dataclass(slots=True)
class Effects(Generic[RecordT]):
    """What a command leads to: `records` are appended all or not at all, then `replies` are sent."""

    records: Sequence[RecordT] = ()
    replies: Sequence[Reply] = ()


class Shard(Protocol[CommandT, RecordT]):
    """One partition's worth of coordinator state, as the runtime sees it."""

    def handle(self, command: CommandT, now: Millis, token: Token = 0) -> Effects[RecordT]:
        """Decide what a command leads to. Durable state is not touched; volatile state may be.

        `token` names the request behind the command; a reply to it, now or later, carries it.
        """
        ...

    def apply(self, record: RecordT, position: int) -> None:
        """Take one record, at this log offset, into durable state: live and at load, the same way."""
        ...

    def standing(self, record: RecordT) -> RecordT | None:
        """The record that leaves what `record` is about as it stands; None if that cannot be said by one."""
        ...

    def loaded(self, now: Millis) -> None:
        """The log has been applied to its end: set volatile state to its defaults, arm the deadlines."""
        ...

    def next_deadline(self) -> Millis | None:
        """When the runtime must call `handle(Tick(), now)`; None: not before something else happens."""
        ...


@runtime_checkable
class TakesRows(Protocol):
    """A shard that takes the offset records of a log many at a time.

    Only offset records and tombstones may touch the same state: between two tombstones of other kinds a load
    applies the records of other kinds first.
    """

    def apply_rows(self, rows: OffsetRows) -> None:
        """The same as `apply` for each of these records, in order. Raises MalformedRecord."""
        ...


@runtime_checkable
class Pictured(Protocol):
    """A shard whose durable state can be taken as an image, in slices, while it goes on changing.

    Each part is as things are when it is taken. What was applied since the first was asked for may be in the
    image or not: applying the log since then over what was restored makes up for it.
    """

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Durable state in parts, each with its kind. Close the iterator when it is not read to its end."""
        ...

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        """Become what an image says; the shard must be fresh. `parts` gives the parts of a kind, in order.

        Between two steps others may have their turn. Raises MalformedImage: the shard is good for nothing.
        """
        ...

    def contents(self) -> Mapping[str, int]:
        """How much there is of what: for `restore`, and for people."""
        ...
