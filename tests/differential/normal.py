"""Two brokers' answers made comparable: what each makes up by itself gets a name from the script's own story.

* A member id that a broker made is called by when the script first saw one: `<member 1>`, `<member 2>`.
* A topic id is called after its topic; one that the script made up stays as it is.
* A producer id that a broker made is called by when the script first saw one: `<producer 1>`.
* A time since the script began is the broker's: `<now>`.
* Batches of a producer with a name are told as their fields, without the checksum of what was renamed.
* The broker's own port and cluster id, and the id of a fetch session, are called that.
* Words for people are compared in whether there are any.
* Arrays are sorted: their order is no promise of the protocol.

Nothing else is touched, and nothing is dropped.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from headgate.log.batch import iterate_records
from headgate.log.header import HEADER_BYTES, CorruptBatch, read_header

MEMBER_FIELDS = ("member_id", "leader")
TIME_FIELDS = (
    "log_append_time",
    "transaction_start_time",
    "last_timestamp",
    "base_timestamp",
    "max_timestamp",
    "timestamp",
)
WORDS = ("error_message", "documentation", "batch_index_error_message")


class Names:
    """What one broker made up in one scenario, and what it is called."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._said: set[Any] = set()
        self._named: dict[Any, str] = {}
        self._members = 0
        self._said_producers = {-1}
        self._producers: dict[int, str] = {}
        self._began_ms = time.time_ns() // 1_000_000

    def say(self, value: Any, field: str = "") -> None:
        """Take note of what the script says: what it makes up is nobody's secret."""
        if isinstance(value, dict):
            for name, each in value.items():
                self.say(each, name)
        elif isinstance(value, list | tuple):
            for each in value:
                self.say(each, field)
        elif isinstance(value, str | uuid.UUID) and value not in self._named:
            self._said.add(value)
        elif "producer_id" in field and value not in self._producers:
            self._said_producers.add(value)

    def topic(self, topic_id: uuid.UUID, name: str) -> None:
        """From now on the id is that topic's."""
        self._named[topic_id] = f"<id of {name}>"

    def normal(self, value: Any, field: str = "") -> Any:
        """The answer, or a part of it that stands in `field`, by these names."""
        if isinstance(value, dict):
            # The answer's own member before those it tells of.
            fields = sorted(value, key=lambda name: name not in MEMBER_FIELDS)
            normal = {name: self.normal(value[name], name) for name in fields}
            if value.get("error_code", "none") != "none" and "producer_id" in value:
                normal["producer_id"] = value["producer_id"]  # whatever stands there when there is none
            return {name: normal[name] for name in value}
        if isinstance(value, list):
            return sorted((self.normal(each, field) for each in value), key=repr)
        if isinstance(value, uuid.UUID):
            return self._named.get(value) or (str(value) if value in self._said else "<id of nothing known>")
        if isinstance(value, str):
            return self._normal_text(value, field)
        if field == "session_id":
            return "<session>" if value else 0
        if field == "producer_id":
            return self._producer_name(value)
        if field in TIME_FIELDS and isinstance(value, int) and value >= self._began_ms:
            return "<now>"
        if field == "records" and isinstance(value, bytes):
            return self._normal_batches(value)
        return self._port_name(value) if field == "port" else value

    def _normal_text(self, text: str, field: str) -> str:
        if field in WORDS:
            return "<words>" if text else ""
        if field == "cluster_id":
            return "<cluster>"
        if field in MEMBER_FIELDS and text and text not in self._said and text not in self._named:
            self._members += 1
            self._named[text] = f"<member {self._members}>"
        return self._named.get(text, text)

    def _producer_name(self, producer_id: int) -> int | str:
        if producer_id in self._said_producers:
            return producer_id
        return self._producers.setdefault(producer_id, f"<producer {len(self._producers) + 1}>")

    def _normal_batches(self, data: bytes) -> Any:
        """Whole batches as their fields, if one has a producer id with a name; else the bytes."""
        batches, at, is_named = [], 0, False
        try:
            while len(data) - at >= HEADER_BYTES:
                header = read_header(data, at)
                batches.append((header, data[at : at + header.size]))
                is_named |= header.producer_id in self._producers
                at += header.size
        except CorruptBatch:
            return data
        if not is_named or at != len(data):
            return data
        return [
            self.normal(
                {name: value for name, value in header._asdict().items() if name != "crc"}
                | {"content": [record._asdict() for _, record in iterate_records(batch)]}
            )
            for header, batch in batches
        ]

    def _port_name(self, port: int) -> int | str:
        return "<port>" if port == self._port else port


def with_joined_ranges(value: Any) -> Any:
    """Return the answer with neighbouring acquired ranges of one delivery count as one range."""
    if isinstance(value, list):
        return [with_joined_ranges(each) for each in value]
    if not isinstance(value, dict):
        return value
    joined = {name: with_joined_ranges(each) for name, each in value.items()}
    if "acquired_records" in joined:
        ranges: list[dict[str, Any]] = []
        for one in sorted(joined["acquired_records"], key=lambda each: each["first_offset"]):
            before = ranges[-1] if ranges else {"last_offset": None, "delivery_count": 0}
            follows = before["last_offset"] == one["first_offset"] - 1
            if follows and before["delivery_count"] == one["delivery_count"]:
                before["last_offset"] = one["last_offset"]
            else:
                ranges.append(dict(one))
        joined["acquired_records"] = ranges
    return joined


ABSENT = "<absent>"
KEYS = (
    "api_key",
    "name",
    "topic",
    "topic_id",
    "group_id",
    "member_id",
    "partition_index",
    "partition",
    "index",
    "resource_name",
    "key",
    "transactional_id",
    "first_offset",
    "producer_id",
)
"""What tells the entries of an array apart, the first that an entry has."""


def differences(kafka: Any, headgate: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two normal answers differ: the path, Kafka's value, ours.

    A path is the names of fields and the keys of array entries: `topics/flights/partitions/0/error_code`.
    """
    theirs, ours = _by_key(kafka), _by_key(headgate)
    if theirs is None or ours is None:
        return [] if kafka == headgate else [(path, kafka, headgate)]
    return [
        found
        for key in [*theirs, *(ours.keys() - theirs.keys())]
        for found in differences(
            theirs.get(key, ABSENT), ours.get(key, ABSENT), f"{path}/{key}" if path else str(key)
        )
    ]


def _by_key(value: Any) -> dict[Any, Any] | None:
    """Fields by name, or entries of an array by what tells them apart; None for what has no such parts."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return None
    keys = [next((each[key] for key in KEYS if each.get(key) is not None), None) for each in value]
    if len(set(keys)) < len(keys):
        return dict(enumerate(value))
    return dict(zip(keys, value, strict=True))
