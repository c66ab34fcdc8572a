"""Well-formed requests of every API and version with extreme values in every field, from one seed.

Values in the server's answers are used again (`learn`): member ids, topic ids, producer ids, sessions and
epochs become the values of later requests. Only these requests use the groups and topics they name, so any
effect on other clients is the server's fault.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from headgate.api.registration import Api
from headgate.api.registry import apis_by_key
from headgate.log.batch import Record, encode_batch
from headgate.wire.layout import FieldLayout, layout_of
from headgate.wire.message import Message, Request, Struct
from headgate.wire.primitives import LONGEST_STRING_BYTES

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LEARNT: Final = 64
"""Number of values that are remembered of each field."""

NEIGHBOUR: Final = "neighbour"
"""The text in every name that must not be affected."""
GROUPS: Final = tuple(f"victim-{number}" for number in range(6))
TOPICS: Final = tuple(f"prey-{number}" for number in range(4))

_WORDS: Final = (
    *GROUPS,
    *TOPICS,
    "",
    "no-such-name",
    "__consumer_offsets",
    "a b/..",
    "\0",
    "ü😀",
    "consumer",
    "connect",
    "range",
    "uniform",
    "0",
    "1",
    "true",
    "retention.ms",
    "segment.bytes",
    "cleanup.policy",
    "compact",
    "compression.type",
    "consumer.session.timeout.ms",
    "(a+)+$",
    "(prey|.*){0,40}",
)
_OWN_WORDS: Final = {
    "group_id": GROUPS,
    "topic": TOPICS,
    "topic_name": TOPICS,
    "protocol_type": ("consumer", "connect", ""),
}
_ALTER_CONFIGS: Final = (33, 44)
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_MOST_ELEMENTS: Final = 2_000
_MOST_BYTES: Final = 1 << 20
"""Maximum total size of repeated elements."""


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """One request, and its number in the seed's sequence."""

    number: int
    api: Api
    version: int
    message: Request[Any]

    def __str__(self) -> str:
        return f"#{self.number} {self.api.name} v{self.version} {self.message!r:.2000}"


class HostileRequests:
    """An endless sequence of requests, the same for the same seed and answers."""

    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        self._random = Random(seed)
        self._apis = [api for key, api in sorted(apis_by_key().items())]
        self._number = 0
        self._learnt: dict[str, deque[Any]] = {"topic_id": deque(topic_ids, _LEARNT)}

    def next(self) -> HostileRequest:
        """Return the next request."""
        random = self._random
        api = random.choice(self._apis)
        version = random.choice(
            (api.min_version, api.max_version, random.randint(api.min_version, api.max_version))
        )
        calm = random.choice((0.0, 0.5, 0.9, 1.0))
        message = self._struct(api.request_type, version, calm, depth=0)
        if api.key in _ALTER_CONFIGS:
            for resource in message.resources:
                _spare_others(resource)
        self._number += 1
        return HostileRequest(self._number, api, version, message)

    def learn(self, answer: Struct) -> None:
        """Remember the values that a server returned, except those of neighbours."""
        values = {name: getattr(answer, name) for name in answer.FIELD_DEFAULTS}
        if any(isinstance(value, str) and NEIGHBOUR in value for value in values.values()):
            return
        for name, value in values.items():
            if isinstance(value, Struct):
                self.learn(value)
            elif isinstance(value, list):
                for one in self._random.sample(value, min(3, len(value))):
                    if isinstance(one, Struct):
                        self.learn(one)
            elif isinstance(value, str | int | bytes) and name not in ("error_code", "throttle_time_ms"):
                if isinstance(value, bytes) and len(value) > 10_000:
                    continue
                self._learnt.setdefault(name, deque(maxlen=_LEARNT)).append(value)

    def _struct(self, struct_type: type[Any], version: int, calm: float, depth: int) -> Any:
        """Return a struct; `calm` is the share of fields with ordinary values."""
        fields = {}
        for layout in layout_of(struct_type):  # type: ignore[arg-type]  # mypy: type[Any]
            if version in layout.versions and self._random.random() < 0.9:
                fields[layout.name] = self._field(layout, version, calm, depth)
        return struct_type(**fields)

    def _field(self, layout: FieldLayout, version: int, calm: float, depth: int) -> Any:
        can_be_null = version in layout.null_versions or (
            layout.struct_type is not None and layout.tag is not None
        )
        if can_be_null and self._random.random() < 0.2:
            return None
        if not layout.is_array:
            return self._one(layout, version, calm, depth)
        elements = [self._one(layout, version, calm, depth) for _ in range(self._length(depth))]
        if elements and self._random.random() < 0.05:  # repeated elements: duplicates, and many
            most = min(_MOST_ELEMENTS, 1 + _MOST_BYTES // sum(map(_weight, elements)))
            elements = (elements * most)[: self._random.randint(2, 1 + most)]
        return elements

    def _length(self, depth: int) -> int:
        return self._random.choice((0, 1, 1, 1, 2, 3, 20 if depth == 0 else 4))

    def _one(self, layout: FieldLayout, version: int, calm: float, depth: int) -> Any:
        if layout.struct_type is not None:
            return self._struct(layout.struct_type, version, calm, depth + 1)
        learnt = self._learnt.get(layout.name)
        if learnt and self._random.random() < 0.5:
            value = self._random.choice(learnt)
            if layout.kind not in _BITS or _fits(value, _BITS[layout.kind]):
                return value
        return self._values()[layout.kind](layout.name, calm)

    def _values(self) -> dict[str, Callable[[str, float], Any]]:
        random = self._random
        return {
            "bool": lambda name, calm: random.random() < 0.5,
            **{kind: self._integers(bits) for kind, bits in _BITS.items()},
            "uint16": lambda name, calm: random.choice((0, 1, 9092, 0xFFFF)),
            "float64": lambda name, calm: random.choice((0.0, -1.0, float("inf"), float("nan"), 1e308)),
            "uuid": lambda name, calm: random.choice(
                (bytes(16), b"\0" * 15 + b"\1", b"\xff" * 16, random.randbytes(16))
            ),
            "string": self._string,
            "bytes": self._bytes,
            "records": self._records,
        }

    def _integers(self, bits: int) -> Callable[[str, float], int]:
        edge = 1 << (bits - 1)
        random = self._random

        def value(name: str, calm: float) -> int:
            if random.random() < calm:
                return (
                    random.choice((0, 0, 1, 2, 3)) if bits < 32 else random.choice((0, 1, 2, 5, 1000, 45_000))
                )
            return random.choice(
                (-edge, edge - 1, -edge + 1, edge - 2, -1, -2, -3, 0, random.randint(-edge, edge - 1))
            )

        return value

    def _string(self, name: str, calm: float) -> str:
        random = self._random
        if random.random() < calm:
            return random.choice(_OWN_WORDS.get(name, _WORDS))
        length = random.choice((1, 247, 249, 250, 255, 256, LONGEST_STRING_BYTES - 40, LONGEST_STRING_BYTES))
        return random.choice((random.choice(_WORDS), random.choice("ax.") * length, "é" * (length // 2)))

    def _bytes(self, name: str, calm: float) -> bytes:
        random = self._random
        topics = [random.choice(TOPICS).encode() for _ in range(random.randint(0, 3))]
        version = random.choice((0, 1, 2, 3, -1, 0x7FFF))
        subscription = struct.pack(">hi", version, len(topics))
        subscription += b"".join(struct.pack(">h", len(topic)) + topic for topic in topics)
        subscription += struct.pack(">i", -1) + struct.pack(">iih", 0, 0, 0)
        if random.random() < calm:
            return subscription
        cut = random.randint(0, len(subscription))
        huge = struct.pack(">hi", 0, 0x7FFFFFFF)
        return random.choice(
            (b"", subscription[:cut], random.randbytes(50), huge, bytes(random.choice((1, 70_000, 300_000))))
        )

    def _records(self, name: str, calm: float) -> bytes:
        random = self._random
        timestamp = random.choice((0, -1, 1_700_000_000_000, 1 << 62))
        records = [
            Record(b"key" if random.random() < 0.8 else None, random.randbytes(size), timestamp + number)
            for number, size in enumerate(random.choices((0, 10, 500), k=random.choice((1, 1, 3, 200))))
        ]
        batch = bytes(encode_batch(records, codec=random.choice((0, 0, 1, 2, 3, 4))))
        if random.random() < calm:
            return batch
        spoilt = bytearray(batch)
        for _ in range(random.choice((1, 1, 4, 30))):
            spoilt[random.randrange(len(spoilt))] = random.randrange(256)
        if random.random() < 0.7:
            _seal(spoilt)
        return random.choice(
            (bytes(spoilt), batch[: random.randint(0, len(batch))], batch * random.randint(2, 20), b"")
        )


def _spare_others(resource: Any) -> None:
    """Remove settings that would affect the neighbours: the broker's and its internal topics'."""
    if resource.resource_type == _BROKER_RESOURCE:
        resource.resource_type = _TOPIC_RESOURCE
    if resource.resource_name.startswith("__"):
        resource.resource_name = TOPICS[0]


def _seal(batch: bytearray) -> None:
    """Correct the length and the CRC of a damaged batch, so that its damage is checked."""
    from crc32c import crc32c

    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[16] = 2
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))


def _weight(value: Any) -> int:
    """Return roughly how many bytes a value takes in a request."""
    if isinstance(value, Struct):
        return 1 + sum(_weight(getattr(value, name)) for name in value.FIELD_DEFAULTS)
    if isinstance(value, list):
        return 4 + sum(map(_weight, value))
    return 4 + len(value) if isinstance(value, str | bytes) else 8


def _fits(value: Any, bits: int) -> bool:
    return isinstance(value, int) and -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def response_type_of(message: Message) -> type[Any]:
    """Return the type of the answer to a request."""
    assert isinstance(message, Request)
    answer: type[Any] = type(message).response_type()
    return answer
