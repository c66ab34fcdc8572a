"""A kind of shard for tests: registers, each a key with a value, which transactions may write.

It is the smallest kind with every feature: records and their format, commands, a deadline, an image for
checkpoints, transactional records. A committed transaction sets its registers, except those that were set
after its records.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Effects, Producer, Reply, Token, TransactionEnd
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName
from headgate.records import MalformedRecord
from headgate.runtime.shard_kind import RecordFormat, ShardKind

TOPIC = TopicName("__registers")
_KEY_TYPE = struct.Struct(">h")

# --- records ---


@dataclass(slots=True, frozen=True)
class Value:
    """The value of a register; None: the register was removed."""

    key: str
    value: int | None


def encode(record: Value) -> tuple[bytes, bytes | None]:
    """Encode a record's key and value."""
    value = None if record.value is None else b"%d" % record.value
    return _KEY_TYPE.pack(0) + record.key.encode(), value


def decode(key: bytes | None, value: bytes | None, written: Millis) -> Value:
    """Decode a record. Raises MalformedRecord."""
    if key is None or not key.startswith(_KEY_TYPE.pack(0)):
        raise MalformedRecord(f"the key {key!r} is no register's")
    return Value(key[2:].decode(), None if value is None else int(value))


# --- commands ---


@dataclass
class Put:
    """Set registers, all or none; None removes one. The reply is `ErrorCode.NONE`."""

    values: Mapping[str, int | None]
    producer: Producer | None = None
    """The producer whose open transaction this belongs to."""


@dataclass
class Get:
    """Return the value of a register as the reply; None if it does not exist."""

    key: str


@dataclass
class GetAll:
    """Return a dict of all values as the reply."""


@dataclass
class End:
    """End a transaction. The reply is an `ErrorCode`."""

    producer: Producer
    is_committed: bool


@dataclass
class Later:
    """Reply None at the Tick after so many ms."""

    delay_ms: int


# --- the shard ---


class _Stored(NamedTuple):
    value: int | None
    position: int


def _restored(found: Mapping[str, Sequence[Any]]) -> dict[str, _Stored]:
    return {key: _Stored(*one) for key, one in found.items()}


class Registers:
    """A `headgate.core.contract.Shard`, `Pictured` and `TakesTransactions`."""

    def __init__(self) -> None:
        self.stored: dict[str, _Stored] = {}
        self.pending: dict[int, dict[str, _Stored]] = {}
        """Writes of open transactions, by producer id."""
        self._parked: list[tuple[Millis, Token]] = []

    # durable

    def apply(self, record: Value, position: int, producer: Producer | None = None) -> None:
        stored = _Stored(record.value, position)
        if producer is None:
            self.stored[record.key] = stored
        else:
            self.pending.setdefault(producer.producer_id, {})[record.key] = stored

    def end_transaction(self, end: TransactionEnd, position: int) -> None:
        for key, stored in self.pending.pop(end.producer.producer_id, {}).items():
            if end.is_committed and self._position_of(key) < stored.position:
                self.stored[key] = stored

    def _position_of(self, key: str) -> int:
        return self.stored[key].position if key in self.stored else -1

    def current_record(self, record: Value) -> Value:
        return Value(record.key, self.values().get(record.key))

    def values(self) -> dict[str, int]:
        return {key: stored.value for key, stored in self.stored.items() if stored.value is not None}

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Yield one part, so that stored and pending values are of one moment and no marker is lost."""
        yield "registers", json.dumps([self.stored, sorted(self.pending.items())]).encode()

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        for part in parts("registers"):
            stored, pending = json.loads(part)
            self.stored = _restored(stored)
            self.pending = {producer_id: _restored(each) for producer_id, each in pending}
            yield

    def contents(self) -> Mapping[str, int]:
        return {"registers": len(self.stored)}

    # volatile

    def loaded(self, now: Millis) -> None:
        self._parked = []

    def next_deadline(self) -> Millis | None:
        return min((at for at, _ in self._parked), default=None)

    def handle(self, command: Any, now: Millis, token: Token = 0) -> Effects[Value]:
        match command:
            case Put(values, producer):
                records = [Value(key, value) for key, value in values.items()]
                return Effects(records, [Reply(token, ErrorCode.NONE)], producer)
            case End(producer, is_committed):
                if producer.producer_id not in self.pending:
                    return Effects((), [Reply(token, ErrorCode.INVALID_TXN_STATE)])
                end = TransactionEnd(producer, is_committed)
                return Effects((), [Reply(token, ErrorCode.NONE)], end)
            case Get(key):
                return Effects((), [Reply(token, self.values().get(key))])
            case GetAll():
                return Effects((), [Reply(token, self.values())])
            case Later(delay_ms):
                self._parked.append((Millis(now + delay_ms), token))
                return Effects()
            case Tick():
                due = [one for one in self._parked if one[0] <= now]
                self._parked = [one for one in self._parked if one[0] > now]
                return Effects((), [Reply(waiting, None) for _, waiting in due])
            case SystemTimeMoved():
                return Effects()
        raise AssertionError(command)


def registers(
    partition_count: int = 1,
    new_shard: Callable[[], Registers] = Registers,
    first_commands: Callable[[], Sequence[Any]] = tuple,
    are_long: bool = False,
    **topic_settings: str,
) -> ShardKind[Registers]:
    """Return the registration of the kind."""
    return ShardKind(
        topic=TOPIC,
        partition_count=partition_count,
        topic_settings={name.replace("_", "."): value for name, value in topic_settings.items()},
        records=RecordFormat(encode, decode, are_long=are_long),
        new_shard=new_shard,
        first_commands=first_commands,
    )
