"""A transaction shard under test: every command is decided, applied and replayed, and the lives must agree.

At each step: `handle` leaves durable state alone, records survive their bytes, and a fresh shard that reads
all records, or an image, or the compacted log, has the same durable state.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Producer, Token
from headgate.core.transactions.commands import (
    AddPartitions,
    AwaitPrepared,
    DecideTransaction,
    InitProducerId,
    MarkersWritten,
    NeedOf,
    PreparedTransaction,
    ProducerAnswer,
    VerifiedPartitions,
    VerifyPartitions,
)
from headgate.core.transactions.shard import TransactionShard
from headgate.core.transactions.states import ONGOING, PREPARED
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records.transactions import (
    Partitions,
    TransactionMetadata,
    TransactionState,
    TransactionTombstone,
    decode_transaction,
    encode_transaction,
)

START = Millis(1_700_000_000_000)
NONE = ErrorCode.NONE


def parts(*names: str) -> Partitions:
    """Partitions by names such as "t-0"."""
    found: dict[TopicName, frozenset[int]] = {}
    for name in names:
        topic, _, index = name.rpartition("-")
        found[TopicName(topic)] = found.get(TopicName(topic), frozenset()) | {int(index)}
    return found


class Harness:
    """One shard with a clock, a log in memory, and the answers it gave."""

    def __init__(self, **settings: str) -> None:
        """Settings by Kafka's names, with `_` for `.`."""
        self.settings = Settings({name.replace("_", "."): value for name, value in settings.items()})
        self.now = START
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[Token, Any] = {}
        self.next_producer_id = 1000
        self.checks_lives = True
        """Whether all lives are compared after every command that wrote to the log."""
        self._last_token = 0
        self.shard = self._new()
        self.shard.loaded(self.now)

    def _new(self, ahead_ms: int = 0) -> TransactionShard:
        shard = TransactionShard(self.settings)
        shard.handle(SystemTimeMoved(ahead_ms), self.now)
        return shard

    # --- commands and time ---

    def send(self, command: Any) -> Token:
        """Hand a command in; the token to find its answer by."""
        self._last_token += 1
        self._handle(command, self._last_token)
        return self._last_token

    def ask(self, command: Any) -> Any:
        """Hand a command in that is answered at once."""
        return self.answers[self.send(command)]

    def advance(self, duration_ms: int) -> None:
        """Let time pass; what is due on the way happens when it is due."""
        end = self.now + duration_ms
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = Millis(max(self.now, deadline))
            self._handle(Tick(), 0)
        self.now = Millis(end)

    def reload(self, *, off_for_ms: int = 0, clock_moves_ms: int = 0) -> None:
        """Crash: the shard starts anew from its log, maybe later, and with another system time.

        The steady clock starts anew too.
        """
        system_now = self.now + off_for_ms + clock_moves_ms
        self.now = Millis(5_000)
        self.shard = self._replayed(self.log, system_now - self.now)
        self.shard.loaded(self.now)

    def _handle(self, command: Any, token: Token) -> None:
        before = dict(self.shard.by_id)
        effects = self.shard.handle(command, self.now, token)
        assert self.shard.by_id == before, "handle changed durable state"
        for record in effects.records:
            key, value = encode_transaction(record)
            assert decode_transaction(key, value) == record
            self.shard.apply(record, len(self.log))
            self.log.append((key, value))
        for reply in effects.replies:
            assert 0 < reply.token <= self._last_token, "an answer to nobody"
            assert reply.token not in self.answers, "answered twice"
            self.answers[reply.token] = reply.result
        if effects.records and self.checks_lives:
            self._check_lives()

    def _check_lives(self) -> None:
        """Whatever the shard starts from, its durable state is the same."""
        expected = self.shard.by_id
        again = self._replayed(self.log)
        assert again.by_id == expected
        self._check_overview(again)
        last = {key: position for position, (key, _) in enumerate(self.log)}
        compacted = [self.log[position] for position in sorted(last.values())]
        assert self._replayed(compacted).by_id == expected
        image = list(self.shard.image())
        restored = self._new()
        for _ in restored.restore(lambda kind: (data for one, data in image if one == kind), {}):
            pass
        assert restored.by_id == expected
        for key, value in compacted:
            record = decode_transaction(key, value)
            current = self.shard.current_record(record)
            assert current == expected.get(
                record.transactional_id, TransactionTombstone(record.transactional_id)
            )

    def _check_overview(self, again: TransactionShard) -> None:
        """The metrics of both agree with the states."""
        states = Counter(one.state for one in self.shard.by_id.values())
        for overview in (self.shard.overview, again.overview):
            assert all(overview.count(state) == states[state] for state in TransactionState)
            for one in self.shard.by_id.values():
                is_decided = one.state not in PREPARED and one.state is not ONGOING
                for topic, indexes in one.partitions.items():
                    ends = [overview.will_end(one.producer_id, topic, index) for index in indexes]
                    assert all(ends) is not is_decided

    def _replayed(self, log: list[tuple[bytes, bytes | None]], ahead_ms: int = 0) -> TransactionShard:
        shard = self._new(ahead_ms)
        for position, (key, value) in enumerate(log):
            shard.apply(decode_transaction(key, value), position)
        return shard

    # --- shorthand ---

    def state(self, transactional_id: str = "x") -> TransactionState | None:
        """The state of a transactional id; None if it is unknown."""
        found = self.shard.by_id.get(transactional_id)
        return None if found is None else found.state

    def of(self, transactional_id: str = "x") -> TransactionMetadata:
        """All that is known of a transactional id."""
        return self.shard.by_id[transactional_id]

    def init(
        self, transactional_id: str = "x", expected: Producer | None = None, timeout_ms: int = 60_000
    ) -> ProducerAnswer:
        """Begin the life of a producer; a new producer id is there if it is needed."""
        command = InitProducerId(transactional_id, timeout_ms, expected)
        answer = self.ask(command)
        if isinstance(answer, NeedOf):
            self.next_producer_id += 1
            command = InitProducerId(transactional_id, timeout_ms, expected, self.next_producer_id)
            answer = self.ask(command)
        assert isinstance(answer, ProducerAnswer)
        return answer

    def producer(self, transactional_id: str = "x", timeout_ms: int = 60_000) -> Producer:
        """A producer that has begun."""
        answer = self.init(transactional_id, timeout_ms=timeout_ms)
        assert answer.error is NONE
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *names: str, transactional_id: str = "x", version: int = 0) -> Any:
        """Add partitions by names such as "t-0"; the error."""
        return self.ask(AddPartitions(transactional_id, producer, parts(*names), version))

    def verify(self, producer: Producer, *names: str, transactional_id: str = "x") -> VerifiedPartitions:
        """Verify partitions."""
        answer = self.ask(VerifyPartitions(transactional_id, producer, parts(*names)))
        assert isinstance(answer, VerifiedPartitions)
        return answer

    def end(
        self, producer: Producer, is_committed: bool, *, version: int = 0, transactional_id: str = "x"
    ) -> ProducerAnswer:
        """Decide to commit or abort; a new producer id is there if it is needed."""
        command = DecideTransaction(transactional_id, producer, is_committed, version)
        answer = self.ask(command)
        if isinstance(answer, NeedOf):
            self.next_producer_id += 1
            answer = self.ask(
                DecideTransaction(transactional_id, producer, is_committed, version, self.next_producer_id)
            )
        assert isinstance(answer, ProducerAnswer)
        return answer

    def await_prepared(self) -> tuple[PreparedTransaction, ...]:
        """The transactions that the writer of markers is told of when it asks; none: it waits."""
        answer = self.answers.get(self.send(AwaitPrepared()))
        return () if answer is None else answer.transactions

    def complete(self) -> tuple[PreparedTransaction, ...]:
        """Write all markers: every prepared transaction is complete; return them."""
        told = self.await_prepared()
        for one in told:
            command = MarkersWritten(one.transactional_id, one.end.producer, one.start_timestamp)
            assert self.ask(command) is NONE
        return told

    def set_epoch(self, epoch: int, transactional_id: str = "x") -> Producer:
        """Have the log go on as if the id had reached this epoch; its producer."""
        old = self.of(transactional_id)
        record = TransactionMetadata(
            transactional_id=transactional_id,
            producer_id=old.producer_id,
            producer_epoch=epoch,
            previous_producer_id=old.producer_id,
            timeout_ms=old.timeout_ms,
            state=TransactionState.EMPTY,
            last_update_timestamp=self.now,
        )
        self.write(record)
        return Producer(old.producer_id, epoch)

    def write(self, record: TransactionMetadata) -> None:
        """Have the log go on with a record that no command led to."""
        self.shard.apply(record, len(self.log))
        self.log.append(encode_transaction(record))
