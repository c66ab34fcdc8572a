"""`headgate produce`: lines become records, by the options of kafka-console-producer.sh."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headgate.cli.connecting import Connecting, run_with_admin
from headgate.cli.option_classes import takes_options
from headgate.cli.usage_problem import UsageProblem

if TYPE_CHECKING:
    from headgate.admin import Admin
    from headgate.client.producing import Producer
    from headgate.log.batch import Record

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ACKS = {"all": -1, "-1": -1, "1": 1}
BATCH_BYTES = 16_384
READ_BYTES = 1 << 20
_PROPERTIES = {
    "parse.key": "false",
    "parse.headers": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
    "ignore.error": "false",
}


@dataclass(frozen=True, kw_only=True)
class Options(Connecting):
    """The options of `headgate produce`."""

    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic. Brokers create it, too.")]
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read this file, not standard input.")
    ] = None
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition.")
    ] = None
    reader_property: Annotated[
        list[str],
        typer.Option(
            "--reader-property",
            "--property",
            metavar="NAME=VALUE",
            help="parse.key=true, key.separator=:, parse.headers=true, headers.delimiter=, "
            "headers.separator=, headers.key.separator=, null.marker=NULL. Can be repeated.",
        ),
    ] = field(default_factory=list)
    compression_codec: Annotated[
        str, typer.Option("--compression-codec", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none"
    request_required_acks: Annotated[
        str, typer.Option("--request-required-acks", metavar="ACKS", help="all, or 1: the leader alone.")
    ] = "all"
    batch_size: Annotated[
        int, typer.Option("--batch-size", metavar="BYTES", min=1, help="Send when there is so much.")
    ] = BATCH_BYTES


@takes_options(Options)
def produce(options: Options) -> None:
    """Produce a record of each line of standard input.

    The options are those of kafka-console-producer.sh. Records are stored once, also if a response is lost;
    those of one key go into the partition that Kafka's clients choose.

    echo hello | headgate produce --topic greetings

    headgate produce --topic orders --property parse.key=true --property key.separator=: < orders.txt
    """
    raise typer.Exit(run_with_admin(options, lambda admin: _produce(admin, options)))


@dataclass(frozen=True, slots=True)
class LineReader:
    """Makes a record of a line, by the properties of Kafka's reader."""

    properties: dict[str, str]

    def record(self, line: bytes, number: int) -> Record:
        """Return the record of a line. Raises `UsageProblem`, which names the line."""
        from headgate.log.batch import Record

        headers: list[tuple[bytes, bytes | None]] = []
        key: bytes | None = None
        value: bytes = line
        if self._is("parse.headers"):
            found, value = self._split(value, "headers.delimiter", "the headers", number)
            headers = [self._header(one, number) for one in found.split(self._bytes("headers.separator"))]
        if self._is("parse.key"):
            found, value = self._split(value, "key.separator", "the key", number)
            key = self._null(found)
        return Record(key, self._null(value), time.time_ns() // 1_000_000, headers)

    def _split(self, line: bytes, separator: str, what: str, number: int) -> tuple[bytes, bytes]:
        first, found, rest = line.partition(self._bytes(separator))
        if not found:
            if self._is("ignore.error"):
                return b"", line
            given = self.properties[separator]
            raise UsageProblem(
                f"line {number} has no {separator} ({given!r}) after {what}; set it by --property "
                f"{separator}=..., or --property ignore.error=true"
            )
        return first, rest

    def _header(self, text: bytes, number: int) -> tuple[bytes, bytes | None]:
        name, found, value = text.partition(self._bytes("headers.key.separator"))
        if not found and not self._is("ignore.error"):
            given = self.properties["headers.key.separator"]
            raise UsageProblem(f"line {number}: the header {text!r} has no {given!r}")
        return name, self._null(value)

    def _null(self, text: bytes) -> bytes | None:
        marker = self._bytes("null.marker")
        return None if marker and text == marker else text

    def _is(self, name: str) -> bool:
        return self.properties[name].lower() == "true"

    def _bytes(self, name: str) -> bytes:
        return self.properties[name].encode("utf-8", "surrogateescape")


def reader_of(options: Options) -> LineReader:
    """Return the reader of lines. Raises `UsageProblem` for an unknown property."""
    properties = dict(_PROPERTIES)
    for text in options.reader_property:
        name, sign, value = text.partition("=")
        if not sign or name not in properties:
            known = ", ".join(properties)
            raise UsageProblem(f"--property {text}: NAME=VALUE is expected, NAME being one of {known}")
        properties[name] = value
    return LineReader(properties)


def _produce(admin: Admin, options: Options) -> int:
    from headgate.cli.printing import say
    from headgate.client.producing import Producer, create_by_use
    from headgate.domain.ids import TopicName

    reader = reader_of(options)
    codec, acks = CODECS.get(options.compression_codec), ACKS.get(options.request_required_acks)
    if codec is None:
        raise UsageProblem(f"--compression-codec {options.compression_codec}: one of {', '.join(CODECS)}")
    if acks is None:
        raise UsageProblem(f"--request-required-acks {options.request_required_acks}: all or 1 is expected")
    topic = TopicName(options.topic)
    with _input(options) as stream:
        if create_by_use(admin.cluster, topic):
            count = len(admin.partitions_of(options.topic))
            say(f"the topic {options.topic} did not exist; the broker created it with {count} partitions")
        producer = Producer(admin.cluster, topic, acks=acks, codec=codec)
        if options.partition is not None and options.partition >= producer.partition_count:
            raise UsageProblem(
                f"--partition {options.partition}: {topic} has the partitions 0 to "
                f"{producer.partition_count - 1}"
            )
        batches = _Batches(producer, options)
        for lines in _lines_of(stream):
            batches.add([reader.record(line, number) for number, line in lines])
    return 0


@contextmanager
def _input(options: Options) -> Iterator[BinaryIO]:
    """Open the input. Raises `UsageProblem` if there is no such file."""
    if options.file is None:
        yield sys.stdin.buffer
        return
    try:
        file = options.file.open("rb")
    except OSError as problem:
        raise UsageProblem(f"--file {options.file}: {problem.strerror}") from problem
    with file:
        yield file


def _lines_of(stream: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines that there are, with their numbers, whenever there are some.

    A slow input is sent line by line; of a quick one many lines are there after each request.
    """
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    begun, count = b"", 0
    is_asking = stream.isatty()
    while True:
        if is_asking:
            print(">", end="", file=sys.stderr, flush=True)
        data = read(READ_BYTES)
        *whole, begun = (begun + data).split(b"\n") if data else ([begun, b""] if begun else [b""])
        if whole:
            numbered = list(enumerate((line.removesuffix(b"\r") for line in whole), start=count + 1))
            count += len(whole)
            yield numbered
        if not data:
            return


class _Batches:
    """Sends records, each batch of those of one partition, in order."""

    def __init__(self, producer: Producer, options: Options) -> None:
        self._producer = producer
        self._options = options
        self._next = random.randrange(producer.partition_count)
        """The partition of the next records without a key."""

    def add(self, records: list[Record]) -> None:
        """Send records now, in batches of the size of `--batch-size`, or of one record."""
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(self._partition(record), []).append(record)
        for partition, some in by_partition.items():
            for batch in _cut(some, self._options.batch_size):
                self._producer.send(partition, batch)
        self._next = (self._next + 1) % self._producer.partition_count

    def _partition(self, record: Record) -> int:
        if self._options.partition is not None:
            return self._options.partition
        return self._next if record.key is None else self._producer.partition_of(record.key)


def _cut(records: list[Record], size_bytes: int) -> Iterator[list[Record]]:
    """Yield the records in batches of about this size."""
    batch: list[Record] = []
    size = 0
    for record in records:
        own = len(record.key or b"") + len(record.value or b"")
        if batch and size + own > size_bytes:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += own
    if batch:
        yield batch
