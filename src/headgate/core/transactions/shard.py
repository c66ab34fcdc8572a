"""One shard of the transaction coordinator; a `headgate.core.contract.Shard`.

    durable    the state of each transactional id                     changed only by `apply`
    volatile   deadlines, the prepared transactions that the writer of markers was not told of yet, partitions
               that wait for the end of a transaction: changed by `handle`, reset by `loaded`

Rules:

1. A transaction that is open for longer than its timeout is aborted. Live, steady time counts; after a load,
   the time since the recorded start, which is system time, but never more than the whole timeout again.
2. A prepared transaction is told to the writer of markers when its record is durable, and after a load again.
   The writer answers with `MarkersWritten`.
3. An id that had no transition for `transactional.id.expiration.ms` is forgotten, unless a transaction is
   open or prepared. A sweep looks for them, some at a time.
4. Partitions that are added while the last transaction is being completed wait for its markers, for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, TypeAlias

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Effects, Producer, Reply, Token, TransactionEnd
from headgate.core.deadlines import Deadlines
from headgate.core.events import Events, TransactionTimedOut
from headgate.core.image import apply_record_parts, parts_of
from headgate.core.system_time import SystemTime
from headgate.core.transactions import states
from headgate.core.transactions.commands import (
    AddPartitions,
    AwaitPrepared,
    DecideTransaction,
    DescribeTransaction,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    PreparedTransaction,
    PreparedTransactions,
    VerifyPartitions,
)
from headgate.core.transactions.decisions import (
    Decision,
    add_partitions,
    end_transaction,
    init_producer_id,
    verify_partitions,
)
from headgate.core.transactions.listing import listed
from headgate.core.transactions.overview import TransactionOverview
from headgate.core.transactions.states import BETWEEN_TRANSACTIONS, PREPARED
from headgate.core.transactions.transitions import completed, fenced
from headgate.core.transactions.waiting import PATIENCE_MS, PatienceOver, WaitingPartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.domain.settings import Settings
from headgate.records.transactions import (
    NO_TIME,
    TransactionMetadata,
    TransactionRecord,
    TransactionTombstone,
    decode_transaction,
    encode_transaction,
)

TransactionEffects: TypeAlias = Effects[TransactionRecord]
_NOTHING: TransactionEffects = Effects()

PREPARED_AT_ONCE: Final = 100
"""Maximum of transactions in one reply to the writer of markers."""
DUE_AT_ONCE: Final = 20
AGAIN_MS: Final = 10_000
"""Delay after which an abort that could not be recorded is decided again."""
SWEPT_AT_ONCE: Final = 1000
BETWEEN_SLICES_MS: Final = 5


class _Sweep(Enum):
    SWEEP = auto()


_SWEEP: Final = _Sweep.SWEEP


class TransactionShard:
    """The transactional ids of one partition of `__transaction_state`."""

    def __init__(self, settings: Settings) -> None:
        self.by_id: dict[str, TransactionMetadata] = {}
        self.overview = TransactionOverview()
        """For the metrics."""
        self.events = Events()
        self._settings = settings
        self._system_time = SystemTime()
        self._deadlines: Deadlines[str | PatienceOver | _Sweep] = Deadlines()
        """When transactions time out, by transactional id, when waits end, and the sweep. The deadline of a
        transaction that has ended remains, and has no effect.
        """
        self._untold: dict[str, None] = {}
        """Ids with a prepared transaction that the writer of markers was not told of."""
        self._writer: Token | None = None
        """The parked `AwaitPrepared`; there are no untold transactions then."""
        self._waiting = WaitingPartitions()
        self._unswept: list[str] = []
        self._handlers: dict[type[Any], Callable[[Any, Millis, Token], TransactionEffects]] = {
            InitProducerId: self._init_producer_id,
            AddPartitions: self._add_partitions,
            VerifyPartitions: self._verify_partitions,
            DecideTransaction: self._end_transaction,
            AwaitPrepared: self._await_prepared,
            MarkersWritten: self._markers_written,
            DescribeTransaction: self._describe,
            ListTransactions: self._list,
            SystemTimeMoved: self._system_time_moved,
            Tick: self._tick,
        }

    # --- the contract ---

    def handle(self, command: Any, now: Millis, token: Token = 0) -> TransactionEffects:
        """Decide the effects of a command; see `headgate.core.contract.Shard`."""
        return self._handlers[type(command)](command, now, token)

    def apply(self, record: TransactionRecord, position: int, producer: Producer | None = None) -> None:
        """Apply a record to the durable state."""
        if isinstance(record, TransactionTombstone):
            self.overview.note(self.by_id.pop(record.transactional_id, None), None)
        else:
            self.overview.note(self.by_id.get(record.transactional_id), record)
            self.by_id[record.transactional_id] = record

    def current_record(self, record: TransactionRecord) -> TransactionRecord:
        """Return the record of the current state of `record`'s id; a tombstone if it is not known."""
        current = self.by_id.get(record.transactional_id)
        return TransactionTombstone(record.transactional_id) if current is None else current

    def loaded(self, now: Millis) -> None:
        """Set the deadlines of open transactions, and tell of all prepared ones."""
        self._deadlines = Deadlines()
        self._untold, self._writer, self._unswept = {}, None, []
        self._waiting = WaitingPartitions()
        for transactional_id, one in self.by_id.items():
            if one.state is states.ONGOING:
                age_ms = self._system_time.at(now) - one.start_timestamp
                left_ms = min(max(one.timeout_ms - age_ms, 0), one.timeout_ms)
                self._deadlines.set(transactional_id, Millis(now + left_ms))
            elif one.state in PREPARED:
                self._untold[transactional_id] = None
        self._deadlines.set(_SWEEP, Millis(now + self._sweep_interval_ms))

    def next_deadline(self) -> Millis | None:
        """Return when `Tick` is due; None if no deadline is set."""
        return self._deadlines.next()

    # --- images ---

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Yield the durable state in parts; see `headgate.core.contract.Pictured`."""
        return parts_of(self._current_records(), encode_transaction)

    def _current_records(self) -> Iterator[TransactionMetadata]:
        for transactional_id in list(self.by_id):
            one = self.by_id.get(transactional_id)
            if one is not None:
                yield one

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        """Restore the state of an image; see `headgate.core.contract.Pictured`."""
        return apply_record_parts(self.apply, parts, decode_transaction)

    def contents(self) -> Mapping[str, int]:
        """Return the number of transactional ids."""
        return {"transactional_ids": len(self.by_id)}

    # --- requests of producers ---

    def _init_producer_id(self, command: InitProducerId, now: Millis, token: Token) -> TransactionEffects:
        old = self.by_id.get(command.transactional_id)
        decision = init_producer_id(old, command, self._system_time.at(now), self._version)
        return self._effects(decision, now, token)

    def _add_partitions(self, command: AddPartitions, now: Millis, token: Token) -> TransactionEffects:
        old = self.by_id.get(command.transactional_id)
        if command.is_patient and old is not None and old.state in PREPARED:
            return self._wait(command, now, token)
        return self._effects(add_partitions(old, command, self._system_time.at(now)), now, token)

    def _wait(self, command: AddPartitions, now: Millis, token: Token) -> TransactionEffects:
        """Park partitions until the last transaction is complete, if there is room for them."""
        if not self._waiting.park(command, token):
            return _answer(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        over = PatienceOver(command.transactional_id)
        if self._deadlines.due_at(over) is None:
            self._deadlines.set(over, Millis(now + PATIENCE_MS))
        return _NOTHING

    def _after(self, record: TransactionMetadata, now: Millis) -> TransactionEffects:
        """Complete a transaction, and add what waited for that to the next one."""
        self._deadlines.cancel(PatienceOver(record.transactional_id))
        latest, replies = record, []
        for command, token in self._waiting.take(record.transactional_id):
            decision = add_partitions(latest, command, self._system_time.at(now))
            replies.append(Reply(token, decision.answer))
            latest = decision.record or latest
        if latest is record:
            return Effects((record,), replies)
        self._deadlines.set(record.transactional_id, Millis(now + latest.timeout_ms))
        return Effects((record, latest), replies)

    def _wait_no_more(self, transactional_id: str) -> list[Reply]:
        waiting = self._waiting.take(transactional_id)
        return [Reply(token, ErrorCode.CONCURRENT_TRANSACTIONS) for _, token in waiting]

    def _verify_partitions(self, command: VerifyPartitions, now: Millis, token: Token) -> TransactionEffects:
        return _answer(token, verify_partitions(self.by_id.get(command.transactional_id), command))

    def _end_transaction(self, command: DecideTransaction, now: Millis, token: Token) -> TransactionEffects:
        old = self.by_id.get(command.transactional_id)
        return self._effects(end_transaction(old, command, self._system_time.at(now)), now, token)

    def _effects(self, decision: Decision, now: Millis, token: Token) -> TransactionEffects:
        """Set what follows from a new state beside it, and return the effects."""
        replies = [Reply(token, decision.answer)]
        record = decision.record
        if record is None:
            return Effects((), replies)
        if record.state is states.ONGOING and not self._is_open(record.transactional_id):
            self._deadlines.set(record.transactional_id, Millis(now + record.timeout_ms))
        elif record.state in PREPARED:
            replies += self._tell([record])
        return Effects((record,), replies)

    def _is_open(self, transactional_id: str) -> bool:
        one = self.by_id.get(transactional_id)
        return one is not None and one.state is states.ONGOING

    # --- markers ---

    def _tell(self, transactions: Iterable[TransactionMetadata]) -> list[Reply]:
        """Answer the writer of markers, if it waits; otherwise keep them for it."""
        told = tuple(_prepared(one) for one in transactions)
        if self._writer is None:
            self._untold.update(dict.fromkeys(one.transactional_id for one in told))
            return []
        writer, self._writer = self._writer, None
        return [Reply(writer, PreparedTransactions(told))]

    def _await_prepared(self, command: AwaitPrepared, now: Millis, token: Token) -> TransactionEffects:
        replies = []
        if self._writer is not None:
            replies.append(Reply(self._writer, PreparedTransactions(())))
        self._writer = token
        told = list(islice(self._untold, PREPARED_AT_ONCE))
        for transactional_id in told:
            del self._untold[transactional_id]
        waiting = [one for one in map(self.by_id.get, told) if one is not None and one.state in PREPARED]
        if waiting or self._untold:
            replies += self._tell(waiting)
        return Effects((), replies)

    def _markers_written(self, command: MarkersWritten, now: Millis, token: Token) -> TransactionEffects:
        old = self.by_id.get(command.transactional_id)
        if (
            old is None
            or old.state not in PREPARED
            or command.producer != Producer(old.producer_id, old.producer_epoch)
            or command.start_timestamp != old.start_timestamp
        ):
            return _answer(token, ErrorCode.INVALID_TXN_STATE)
        effects = self._after(completed(old, self._system_time.at(now)), now)
        return Effects(effects.records, (Reply(token, ErrorCode.NONE), *effects.replies))

    # --- descriptions ---

    def _describe(self, command: DescribeTransaction, now: Millis, token: Token) -> TransactionEffects:
        found = self.by_id.get(command.transactional_id)
        return _answer(token, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if found is None else found)

    def _list(self, command: ListTransactions, now: Millis, token: Token) -> TransactionEffects:
        return _answer(token, listed(self.by_id, command, self._system_time.at(now)))

    # --- time ---

    def _system_time_moved(self, command: SystemTimeMoved, now: Millis, token: Token) -> TransactionEffects:
        self._system_time.ahead_ms = command.ahead_ms
        return _NOTHING

    def _tick(self, command: Tick, now: Millis, token: Token) -> TransactionEffects:
        """Abort what has timed out, some at a time, or go on with the sweep; end waits."""
        timed_out: list[TransactionMetadata] = []
        records: list[TransactionRecord] = []
        replies: list[Reply] = []
        deadlines = self._deadlines
        deadlines.begin_tick(now)
        while len(timed_out) + len(replies) < DUE_AT_ONCE and (key := deadlines.pop(now)) is not None:
            if isinstance(key, _Sweep):
                records += self._sweep(now)
                break
            if isinstance(key, PatienceOver):
                replies += self._wait_no_more(key.transactional_id)
            elif self._is_open(key):
                timed_out.append(fenced(self.by_id[key], self._system_time.at(now), self._version))
                deadlines.set(key, Millis(now + AGAIN_MS))
        deadlines.end_tick()
        self.overview.timed_out += len(timed_out)
        for one in timed_out:
            partition_count = sum(map(len, one.partitions.values()))
            self.events.report(
                TransactionTimedOut(one.transactional_id, one.producer_id, one.timeout_ms, partition_count)
            )
        return Effects(timed_out + records, replies + (self._tell(timed_out) if timed_out else []))

    def _sweep(self, now: Millis) -> list[TransactionRecord]:
        """Forget ids that are idle for too long, among the next ones of all."""
        if not self._unswept:
            self._unswept = list(self.by_id)
        some = self._unswept[-SWEPT_AT_ONCE:]
        del self._unswept[-SWEPT_AT_ONCE:]
        wait_ms = BETWEEN_SLICES_MS if self._unswept else self._sweep_interval_ms
        self._deadlines.set(_SWEEP, Millis(now + wait_ms))
        before = self._system_time.at(now) - self._settings["transactional.id.expiration.ms"]
        return [TransactionTombstone(one) for one in some if self._is_idle_since(one, before)]

    def _is_idle_since(self, transactional_id: str, before: int) -> bool:
        one = self.by_id.get(transactional_id)
        return (
            one is not None
            and one.state in BETWEEN_TRANSACTIONS
            and NO_TIME <= one.last_update_timestamp <= before
        )

    @property
    def _sweep_interval_ms(self) -> int:
        return int(self._settings["transaction.remove.expired.transaction.cleanup.interval.ms"])

    @property
    def _version(self) -> int:
        """The version of the transaction protocol that this node advertises."""
        return int(self._settings["headgate.transaction.version"])


def _answer(token: Token, result: object) -> TransactionEffects:
    return Effects((), (Reply(token, result),))


def _prepared(one: TransactionMetadata) -> PreparedTransaction:
    end = TransactionEnd(Producer(one.producer_id, one.producer_epoch), one.state is states.PREPARE_COMMIT)
    return PreparedTransaction(
        one.transactional_id, end, one.start_timestamp, one.partitions, one.client_transaction_version
    )
