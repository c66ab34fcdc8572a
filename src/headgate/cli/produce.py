"""`headgate produce`: lines become records, by the options of kafka-console-producer.sh."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
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
LARGEST_LINE_BYTES = 128 << 20
"""No broker takes a record of so many bytes: a longer line is one of something that is no text."""
_RECORD_BYTES = 16
"""About what a record takes in a batch besides its key, its value and its headers; a header takes half."""
_SEPARATORS = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
_PROPERTIES: dict[str, str | None] = {
    "parse.key": "false",
    "parse.headers": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": None,
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
            "headers.separator=, headers.key.separator=, null.marker=NULL, ignore.error=true. "
            "Can be repeated.",
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

    The options are those of kafka-console-producer.sh, without properties of clients.
    Records are stored once, also if a response is lost; those of one key go into the partition that Kafka's
    clients choose.

    echo hello | headgate produce --topic greetings

    headgate produce --topic orders --property parse.key=true --property key.separator=: < orders.txt
    """
    raise typer.Exit(run_with_admin(options, lambda admin: _produce(admin, options)))


@dataclass(frozen=True, slots=True)
class LineReader:
    """Makes a record of a line, by the properties of Kafka's reader."""

    has_headers: bool
    has_key: bool
    ignores_errors: bool
    null: bytes | None
    """The text that means null; None: no text does."""
    separators: dict[str, bytes]

    def record(self, line: bytes, number: int) -> Record:
        """Return the record of a line. Raises `UsageProblem`, which names the line."""
        from headgate.log.batch import Record

        headers: list[tuple[bytes, bytes | None]] = []
        key: bytes | None = None
        value: bytes = line
        if self.has_headers:
            found, value = self._split(value, "headers.delimiter", "the headers", number)
            headers = self._headers(self._null(found), number)
        if self.has_key:
            key, value = self._split(value, "key.separator", "the key", number)
        return Record(self._null(key), self._null(value), time.time_ns() // 1_000_000, headers)

    def _split(self, line: bytes, separator: str, what: str, number: int) -> tuple[bytes | None, bytes]:
        """Return what is before a separator, None without one, and the rest."""
        first, found, rest = line.partition(self.separators[separator])
        if found:
            return first, rest
        if self.ignores_errors:
            return None, line
        given = self.separators[separator].decode(errors="replace")
        raise UsageProblem(
            f"line {number} has no {separator} ({given!r}) after {what}; set it by --property "
            f"{separator}=..., or --property ignore.error=true"
        )

    def _headers(self, text: bytes | None, number: int) -> list[tuple[bytes, bytes | None]]:
        if text is None:
            return []
        parts = text.split(self.separators["headers.separator"])
        while len(parts) > 1 and not parts[-1]:
            parts.pop()  # as in Kafka's tool, separators at the end have no meaning
        return [self._header(one, number) for one in parts]

    def _header(self, text: bytes, number: int) -> tuple[bytes, bytes | None]:
        separator = self.separators["headers.key.separator"]
        name, found, value = text.partition(separator)
        if found:
            if self._null(name) is None:
                raise UsageProblem(
                    f"line {number}: the name of a header is the null.marker, and cannot be null"
                )
            return name, self._null(value)
        if self.ignores_errors:
            return text, None
        shown, given = text.decode(errors="replace"), separator.decode(errors="replace")
        raise UsageProblem(f"line {number}: the header {shown!r} has no {given!r}")

    def _null(self, text: bytes | None) -> bytes | None:
        return None if text == self.null else text


def reader_of(options: Options) -> LineReader:
    """Return the reader of lines. Raises `UsageProblem` for an invalid property."""
    given = dict(_PROPERTIES)
    for text in options.reader_property:
        name, sign, value = text.partition("=")
        if not sign or name not in given:
            known = ", ".join(given)
            raise UsageProblem(f"--property {text}: NAME=VALUE is expected, NAME being one of {known}")
        given[name] = value
    separators = {name: _bytes(given[name]) for name in _SEPARATORS}
    null = None if given["null.marker"] is None else _bytes(given["null.marker"])
    _check_separators(separators, null)
    return LineReader(
        has_headers=_is_true(given["parse.headers"]),
        has_key=_is_true(given["parse.key"]),
        ignores_errors=_is_true(given["ignore.error"]),
        null=null,
        separators=separators,
    )


def _check_separators(separators: dict[str, bytes], null: bytes | None) -> None:
    """Refuse what no line could be split by. Raises `UsageProblem`."""
    for name, value in separators.items():
        if not value:
            raise UsageProblem(f"--property {name}=: a text is expected")
        if value == null:
            raise UsageProblem(f"--property null.marker and {name} are the same")
    names = _SEPARATORS[1:]
    for one, other in combinations(names, 2):
        if separators[one] == separators[other]:
            raise UsageProblem(f"--property {one} and {other} are the same")


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _bytes(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")


def _produce(admin: Admin, options: Options) -> int:
    from headgate.cli.advice import in_words
    from headgate.cli.printing import say
    from headgate.client.errors import ClientError
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
            of_them = "1 partition" if count == 1 else f"{count} partitions"
            say(f"the topic {options.topic} did not exist; the broker created it with {of_them}")
        admin.cluster.waits_for_nodes = True  # they were there, and can be restarting
        producer = Producer(admin.cluster, topic, acks=acks, codec=codec)
        if options.partition is not None and options.partition >= producer.partition_count:
            raise UsageProblem(
                f"--partition {options.partition}: {topic} has the partitions 0 to "
                f"{producer.partition_count - 1}"
            )
        batches = _Batches(producer, options)
        try:
            for lines in _lines_of(stream):
                _add(batches, reader, lines)
        except ClientError as error:
            say(in_words(error) + batches.done)
            return 1
        except UsageProblem as problem:
            raise UsageProblem(f"{problem}{batches.done}") from problem
    return 0


def _add(batches: _Batches, reader: LineReader, lines: list[tuple[int, bytes]]) -> None:
    """Send the records of lines, if one is invalid those before it. Raises `UsageProblem`."""
    records: list[Record] = []
    try:
        for number, line in lines:
            records.append(reader.record(line, number))  # those before an invalid line are sent
    finally:
        batches.add(records)


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

    A slow input is sent line by line; of a quick one many lines are there after each request. Raises
    `UsageProblem` for a line that is too long.
    """
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    begun: list[bytes] = []
    size, count = 0, 0
    is_asking = stream.isatty()
    while True:
        if is_asking:
            print(">", end="", file=sys.stderr, flush=True)
        data = read(READ_BYTES)
        if data and b"\n" not in data:
            begun.append(data)
            size += len(data)
            if size > LARGEST_LINE_BYTES:
                raise UsageProblem(f"line {count + 1} is longer than {LARGEST_LINE_BYTES} bytes")
            continue
        *whole, rest = b"".join((*begun, data or b"\n" if begun else data)).split(b"\n")
        begun, size = [rest] if rest else [], len(rest)
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
        self.count = 0
        """The records that were sent."""
        self._next = random.randrange(producer.partition_count)
        """The partition of the next records without a key."""

    @property
    def done(self) -> str:
        """What an error message adds: how many records were sent before it."""
        return f"; {self.count} records were produced before" if self.count else ""

    def add(self, records: list[Record]) -> None:
        """Send records now, in batches of the size of `--batch-size`, or of one record."""
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(self._partition(record), []).append(record)
        for partition, some in by_partition.items():
            for batch in _cut(some, self._options.batch_size):
                self._producer.send(partition, batch)
                self.count += len(batch)
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
        own = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        for name, value in record.headers:
            own += _RECORD_BYTES // 2 + len(name) + len(value or b"")
        if batch and size + own > size_bytes:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += own
    if batch:
        yield batch
