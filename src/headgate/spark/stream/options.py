"""The options of a stream: those of a read from a cluster, and its own.

Names and defaults are those of Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.domain.ids import GroupId, TopicName
from headgate.spark.options import (
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    Options,
    offsets_in,
    parse,
    truth,
    whole_number,
)

STREAM_NAMES = {
    "group.id": "the consumer group that the stream is; also kafka.group.id",
    "startingOffsets": 'latest (default), earliest, or JSON {"topic": {"0": 23}}: where there is no commit',
    "maxOffsetsPerTrigger": "the most offsets of a batch, divided among the partitions (default: all)",
    "includeEpoch": "true: the table has the column epoch; a rewind delivers rows with a higher one (false)",
}
"""The options that a stream has of its own, or with another meaning than a read."""

_ALIASES = {"kafka.group.id": "group.id"}
_WORDS = {EARLIEST: "earliest", LATEST: "latest"}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The checked options of a stream. Its offsets and data directory in `read` are not set."""

    read: Options
    group_id: GroupId
    starting_offsets: Offsets
    starting_default: int
    """Where partitions start that `starting_offsets` does not have: `EARLIEST` or `LATEST`."""
    most_offsets: int | None = None
    """The most offsets of a batch; None: no limit."""
    include_epoch: bool = False

    @property
    def topics(self) -> tuple[TopicName, ...]:
        """The subscribed topics; empty with a pattern."""
        return self.read.topics.names

    @property
    def pattern(self) -> str | None:
        """The regular expression of the subscription, which the coordinator evaluates; None with topics."""
        return self.read.topics.pattern

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        assert self.read.bootstrap_servers is not None
        return self.read.bootstrap_servers


def is_of_a_stream(given: Mapping[str, str]) -> bool:
    """Whether the options are meant for a stream: they have a group id."""
    return any(_name(key) == "group.id" for key in given)


def refuse_for_a_read(given: Mapping[str, str]) -> None:
    """Refuse options that only a stream has, where no group id says that it is one. Raises OptionError."""
    for key, value in given.items():
        name = _name(key)
        if name == "startingOffsets" and value.strip().lower() == "latest":
            name = "startingOffsets=latest"
        elif name == "startingOffsets":
            continue
        if name is not None:
            raise OptionError(f"option {name} goes with spark.readStream, which needs the option group.id")


def parse_stream(given: Mapping[str, str]) -> StreamOptions:
    """Check the options of a stream. Raises OptionError."""
    own: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in given.items():
        name = _name(key)
        if name is None:
            rest[key] = value
        elif own.setdefault(name, value) != value:
            raise OptionError(f"option {name} is given twice: {own[name]!r} and {value!r}")
    read = parse(rest, others=STREAM_NAMES)
    if read.bootstrap_servers is None:
        raise OptionError("a stream reads from kafka.bootstrap.servers, not from a path")
    if read.topics.partitions:
        raise OptionError("a group assigns the partitions: use subscribe or subscribePattern, not assign")
    if read.ending_offsets:
        raise OptionError("a stream has no end: option endingOffsets goes with spark.read")
    if not own.get("group.id"):
        raise OptionError("option group.id is missing: the consumer group that the stream is")
    most = own.get("maxOffsetsPerTrigger")
    starts = own.get("startingOffsets", "latest").strip()
    words = {word: number for number, word in _WORDS.items()}
    is_word = starts.lower() in words
    return StreamOptions(
        read=read,
        group_id=GroupId(own["group.id"]),
        starting_offsets={} if is_word else offsets_in("startingOffsets", starts, read.topics, _WORDS),
        starting_default=words[starts.lower()] if is_word else EARLIEST,
        most_offsets=None if most is None else whole_number("maxOffsetsPerTrigger", most),
        include_epoch=truth("includeEpoch", own.get("includeEpoch", "false")),
    )


def _name(key: str) -> str | None:
    """Return the documented name of an option of streams; None for other options."""
    by_name = {name.lower(): name for name in STREAM_NAMES} | _ALIASES
    return by_name.get(key.lower())
