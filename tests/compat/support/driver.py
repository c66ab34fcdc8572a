"""One face for all client libraries, so that a promise is written once and kept by each of them.

A driver only translates: every method is the library's own call. What a library cannot do is left out of its
`can`; tests ask for the drivers that have a capability with `drivers("delete_records")`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

ANSWER_TIMEOUT_S = 15.0
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Can(Enum):
    """What some libraries can do and others cannot."""

    ADMIN = "create, list, describe and delete topics"
    ADD_PARTITIONS = "add partitions to a topic"
    CONFIGS = "describe and alter a topic's settings"
    DELETE_RECORDS = "delete records"
    OFFSETS_BY_TIME = "find offsets by timestamp"
    COMMIT = "commit and fetch a group's offsets from outside"
    COMMIT_METADATA = "commit metadata with them"
    DELETE_OFFSETS = "delete a group's offsets"
    GROUPS = "list, describe groups"
    DELETE_GROUPS = "delete groups"
    FILTER_GROUPS = "list groups by state"
    IDEMPOTENCE = "produce idempotently"
    ASSIGN = "read a partition from an offset without a group"
    MEMBER = "be a member of a group"
    STATIC = "be a static member of a group"


class Refused(Exception):
    """The broker said no; `code` is Kafka's error code, None if the library keeps it to itself."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record to produce. Keys and values are text, because kcat and JSON carry nothing else."""

    value: str
    key: str | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A record that was consumed."""

    partition: int
    offset: int
    value: str | None
    key: str | None = None
    timestamp_ms: int = -1
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset and what was written beside it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a library describes it."""

    state: str
    protocol: str = ""
    client_ids: tuple[str, ...] = field(default=())


class Driver:
    """One library. Every method raises Refused when the broker answers with an error."""

    name: str
    version: str
    codecs: tuple[str, ...] = ALL_CODECS
    can: frozenset[Can] = frozenset()
    metadata_tail: str = ""
    """What the library itself puts behind the metadata of every commit."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def close(self) -> None:
        """Ends whatever the driver holds open."""

    def brokers(self) -> set[str]:
        """host:port of every broker, as the metadata says."""
        raise NotImplementedError

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic and returns when it can be used."""
        raise NotImplementedError

    def topics(self) -> set[str]:
        """The names of all topics."""
        raise NotImplementedError

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has."""
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic."""
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        """Makes it `total` partitions."""
        raise NotImplementedError

    def topic_config(self, topic: str) -> dict[str, str]:
        """The topic's settings."""
        raise NotImplementedError

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        """Changes one of the topic's settings."""
        raise NotImplementedError

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Deletes the records of a partition whose offset is smaller than `before`."""
        raise NotImplementedError

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """The partition's first offset and the one after its last."""
        raise NotImplementedError

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The first offset whose timestamp is at least that; the end, or -1, if there is none."""
        raise NotImplementedError

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        """Writes records with acks=all and returns when all are acknowledged."""
        raise NotImplementedError

    def consume(self, topic: str, count: int) -> list[Received]:
        """Reads `count` records of all partitions from the beginning."""
        raise NotImplementedError

    def read_from(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        """Reads `count` records of one partition from an offset, without a group."""
        raise NotImplementedError

    def commit(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        """Commits offsets for a group without being its member."""
        raise NotImplementedError

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, Committed | None]:
        """The group's offsets; None where nothing was committed."""
        raise NotImplementedError

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """Forgets a group's offsets."""
        raise NotImplementedError

    def groups(self) -> set[str]:
        """The names of all groups."""
        raise NotImplementedError

    def groups_in_state(self, state: str) -> set[str]:
        """The names of the groups in that state, chosen by the broker."""
        raise NotImplementedError

    def describe_group(self, group: str) -> Group:
        """State and members of a group."""
        raise NotImplementedError

    def delete_group(self, group: str) -> None:
        """Deletes a group."""
        raise NotImplementedError
