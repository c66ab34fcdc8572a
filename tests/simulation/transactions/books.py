"""What is known of all transactions and offsets from the requests and their answers alone.

A transaction may be committed if a client asked for it, and is committed for certain if the answer said so.
Everything else follows from times: a request whose answer came took effect between the two; one whose answer
was lost may take effect until the server ends.

An offset of a group is that of the last record in the log, among the plain commits, the removals, and the
commits of transactions that were committed, whatever the order of their markers. The order of two records is
known if one request was answered before the other one was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from tests.simulation.clock import SimulatedTime
from tests.simulation.requests import Violation

from headgate.core.contract import Producer

Place = tuple[str, int]
"""Topic and partition."""
Key = tuple[str, str, int]
"""Group, topic and partition."""
_READING_SECONDS = 0.002
"""Two readings of the clock within a millisecond may differ by one."""
NOTHING = -1
"""The offset of a partition without one."""


class Fate(Enum):
    """What became of a transaction, or of a record of one."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(eq=False)
class Ask:
    """A request for the producer of a transactional id, and until when it may have taken effect."""

    transactional_id: str
    sent_at: float
    until: float = inf


@dataclass(eq=False)
class Transaction:
    """One transaction of a client."""

    number: int
    ask: Ask
    producer: Producer
    timeout_seconds: float
    began_at: float = inf
    """When the first request was sent that may have begun it at the server."""
    is_known: bool = False
    """Whether the server answered a request that is part of it."""
    is_commit_asked: bool = False
    is_end_asked: bool = False
    fate: Fate = Fate.OPEN
    complete_at: float = inf
    """From when on all its markers are known to be durable."""
    records: dict[bytes, Place] = field(default_factory=dict)
    """All records that were sent, by value."""
    acknowledged: set[bytes] = field(default_factory=set)
    input: tuple[int, int] | None = None
    """Of a worker: the partition and the offset that it processes."""
    is_input_committed: bool = False
    """Whether the offset after its input is part of the transaction."""

    def ends(self, fate: Fate) -> None:
        """Note its fate. Raises Violation if it is known to be another one."""
        if fate is Fate.COMMITTED and not self.is_commit_asked:
            raise Violation(f"{self} was committed, and nobody asked for that")
        if self.fate not in (Fate.OPEN, fate):
            raise Violation(f"{self} is {fate.value} now")
        self.fate = fate


@dataclass(eq=False)
class OffsetWrite:
    """A request that writes the offset of one partition; NOTHING removes it."""

    value: int
    sent_at: float
    transaction: Transaction | None
    until: float = inf
    """When its record was in the log, or will never be."""
    is_acknowledged: bool = False

    def may_count(self) -> bool:
        """Return whether the offset may be a committed one."""
        one = self.transaction
        return one is None or (one.is_commit_asked and one.fate is not Fate.ABORTED)

    def counts(self, at: float) -> bool:
        """Return whether its record certainly counted at that time."""
        one = self.transaction
        if not self.is_acknowledged or self.until > at:
            return False
        return one is None or (one.fate is Fate.COMMITTED and one.complete_at <= at)


class Books:
    """All transactions and all writes of offsets."""

    def __init__(self, time: SimulatedTime) -> None:
        self._time = time
        self.transactions: dict[int, Transaction] = {}
        self.writes: dict[Key, list[OffsetWrite]] = {}
        self.seen: dict[Place, list[bytes]] = {}
        """What readers of committed records have seen."""
        self._current: dict[str, tuple[Producer, float]] = {}
        """The newest producer of each transactional id, and when the server answered with it."""
        self._asks: list[Ask] = []
        self._numbers = 0

    def next_number(self) -> int:
        """Return a number that was not used before."""
        self._numbers += 1
        return self._numbers

    # --- producers ---

    def asks(self, transactional_id: str, now: float) -> Ask:
        """Note that a client asks for a producer, which fences all earlier ones."""
        ask = Ask(transactional_id, now)
        self._asks.append(ask)
        return ask

    def granted(self, ask: Ask, producer: Producer, now: float) -> None:
        """Note that the server answered with a producer: no transaction of an earlier one is open."""
        self._goes_on(ask.transactional_id, producer, now)
        self.complete_before(ask.transactional_id, producer, now)

    def goes_on(self, transactional_id: str, producer: Producer, now: float) -> None:
        """Note that the end of a transaction gave its producer the next epoch, or a new id."""
        self._goes_on(transactional_id, producer, now)

    def _goes_on(self, transactional_id: str, producer: Producer, now: float) -> None:
        known = self._current.get(transactional_id)
        if known is None or known[0] < producer:
            self._current[transactional_id] = producer, now

    def accepted(self, transactional_id: str, producer: Producer, sent_at: float) -> None:
        """Note that a request of a producer was accepted. Raises Violation if it was fenced before."""
        current, at = self._current[transactional_id]
        if current > producer and at < sent_at:
            raise Violation(f"a request of {producer} was accepted after {current} had fenced it")

    def may_be_refused(self, ask: Ask, one: Transaction | None, now: float) -> bool:
        """Return whether the producer of an answer may be fenced: by another one, or because its transaction
        took too long.
        """
        if one is not None and self.may_have_timed_out(one, now):
            return True
        return any(
            other is not ask and other.transactional_id == ask.transactional_id and other.until > ask.sent_at
            for other in self._asks
        )

    def may_have_timed_out(self, one: Transaction, now: float) -> bool:
        """Return whether the coordinator may find that a transaction took too long.

        While it runs, it goes by steady time. After a load it goes by the system time, which may have been
        set forward meanwhile.
        """
        if one.began_at > now:
            return False
        rise_seconds = self._time.largest_rise(one.began_at, now) / 1000 + _READING_SECONDS
        return max(now - one.began_at, rise_seconds) >= one.timeout_seconds

    # --- transactions ---

    def begin(self, ask: Ask, producer: Producer, timeout_seconds: float) -> Transaction:
        """Begin a transaction; the server does not know yet."""
        one = Transaction(self.next_number(), ask, producer, timeout_seconds)
        self.transactions[one.number] = one
        return one

    def began(self, one: Transaction, now: float) -> None:
        """Note that the server accepted a request of a transaction: those before it are complete."""
        one.is_known = True
        self.complete_before(one.ask.transactional_id, one.producer, now, one.number)

    def complete_before(
        self, transactional_id: str, producer: Producer, now: float, number: int = -1
    ) -> None:
        """Note that no transaction of the id before this producer is open or prepared, and none of this
        producer before the one with this number.
        """
        for one in self.transactions.values():
            is_before = (one.producer, one.number) < (producer, number)
            if one.ask.transactional_id == transactional_id and is_before and one.complete_at == inf:
                one.complete_at = now
                if not one.is_commit_asked:
                    one.ends(Fate.ABORTED)

    def decided_complete(self, now: float) -> None:
        """Note that all decided transactions are carried through."""
        for one in self.transactions.values():
            if one.complete_at == inf and one.fate is not Fate.OPEN:
                one.complete_at = now

    def is_open_for_certain(self, one: Transaction, now: float) -> bool:
        """Return whether a transaction that the server knows is open, as nobody may have ended it."""
        return (
            not one.is_end_asked
            and one.fate is Fate.OPEN
            and one.complete_at == inf
            and not self.may_be_refused(one.ask, one, now)
        )

    # --- offsets ---

    def writes_offset(self, key: Key, value: int, one: Transaction | None, now: float) -> OffsetWrite:
        """Note that a request is sent that writes an offset."""
        write = OffsetWrite(value, now, one)
        self.writes.setdefault(key, []).append(write)
        return write

    def server_ended(self, now: float) -> None:
        """Note that requests without an answer have no effect after this."""
        for writes in self.writes.values():
            for write in writes:
                write.until = min(write.until, now)
        for ask in self._asks:
            ask.until = min(ask.until, now)

    def check_offset(self, key: Key, value: int, since: float, now: float) -> None:
        """Check an offset that was read between two times. Raises Violation."""
        writes = self.writes.get(key, [])
        sure = [one for one in writes if one.counts(since)]
        if value == NOTHING:
            found = [one for one in writes if one.value == NOTHING and one.sent_at <= now]
            if not sure:
                return
        else:
            found = [one for one in writes if one.value == value and one.sent_at <= now and one.may_count()]
        if not any(all(one.until >= other.sent_at for other in sure if other is not one) for one in found):
            raise Violation(f"{key} is {value} between {since} and {now}, of {list(self._last(writes))}")

    def _last(self, writes: list[OffsetWrite]) -> Iterator[str]:
        for one in writes[-8:]:
            yield f"{one}"

    def check_stability(self, key: Key, is_unstable: bool, since: float, now: float) -> None:
        """Check whether an offset that was read is told to be unstable. Raises Violation."""
        writes = self.writes.get(key, [])
        removed_until = max((one.until for one in writes if one.value == NOTHING), default=-inf)
        if is_unstable:
            if any(one.transaction and one.transaction.complete_at > since for one in writes):
                return
            raise Violation(f"{key} is unstable, and all its transactions are complete")
        for one in writes:
            transaction = one.transaction
            if transaction is None or not one.is_acknowledged or one.until > since:
                continue
            if removed_until < one.sent_at and self.is_open_for_certain(transaction, now):
                raise Violation(f"{key} is told to be stable, while {transaction} has {one}")
