"""The output of `headgate log dump`: tables and lines, or one JSON object.

Batches and records are printed while they are read, so the size of a log does not matter. Their lines have
the fields of kafka-dump-log.sh, and after them the fields that it does not have (meaning, run, origin).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from headgate.cli.printing import print_table, printable
from headgate.domain.ids import TopicName
from headgate.domain.wording import counted, did_you_mean
from headgate.inspect.contents import (
    Stop,
    directory_as_json,
    partition_as_json,
    read_batches,
    topics_as_json,
)
from headgate.inspect.directory import DataDirectory, PartitionPlace, read_data_directory
from headgate.inspect.explain import batch_as_json, bytes_as_json, meaning_in, record_as_json
from headgate.inspect.missing import beyond_its_topic
from headgate.inspect.partition import extent_of, read_partition
from headgate.inspect.reading import FoundBatch
from headgate.log.batch import CorruptBatch, iterate_records
from headgate.log.header import MAGIC
from headgate.topics.transactions import Transactions

Json = dict[str, Any]


class NothingToDump(Exception):
    """The topic or partition does not exist. The message names a similar one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """The options of `headgate log dump`."""

    data_dir: Path
    partition: str | None
    topic: str | None
    from_offset: int
    limit: int | None
    with_records: bool
    with_keys: bool
    with_values: bool
    as_json: bool


def dump_directory(options: DumpOptions) -> None:
    """Print the topics, or the logs of a topic or partition.

    Raises NotADataDirectory, NothingToDump and OSError.
    """
    directory = read_data_directory(options.data_dir)
    if options.partition is None and options.topic is None:
        _print_topics(directory, options)
        return
    places = _places(directory, options)
    if options.as_json:
        _print_json(directory, places, options)
    else:
        for place in places:
            _print_lines(place, options)


def _places(directory: DataDirectory, options: DumpOptions) -> list[PartitionPlace]:
    wanted = options.partition if options.partition is not None else options.topic
    assert wanted is not None
    names = {
        place.directory.name if options.partition is not None else place.topic: place
        for place in directory.partitions
    }
    if wanted not in names:
        raise NothingToDump(_not_there(directory, wanted, list(names), is_topic=options.topic is not None))
    if options.partition is not None:
        return [names[wanted]]
    return [place for place in directory.partitions if place.topic == wanted]


def _not_there(directory: DataDirectory, wanted: str, names: list[str], *, is_topic: bool) -> str:
    topic, _, index = wanted.rpartition("-")
    if is_topic:
        topic, index = wanted, "0"
    topics = directory.catalogue.topics if directory.catalogue is not None else {}
    entry = topics.get(TopicName(topic))
    if entry is not None and index.isdecimal() and int(index) < entry.partition_count:
        return f"{wanted} is in the catalogue, and nothing was ever written to it"
    if not is_topic and (why := beyond_its_topic(directory, wanted)) is not None:
        return f"there is no partition called {wanted}: {why}"
    hint = did_you_mean(wanted, names) or f"`headgate log dump {directory.path}` lists all of them"
    return f"there is no {'topic' if is_topic else 'partition'} called {wanted}; {hint}"


# The topics.


def _print_topics(directory: DataDirectory, options: DumpOptions) -> None:
    about = directory_as_json(directory)
    topics = topics_as_json(directory)
    if options.as_json:
        print(json.dumps({**about, "topics": topics, "orphans": directory.orphans}, indent=2))
        return
    state = "used by a running server" if about["is_running"] else "not used by a server"
    ended = "" if about["is_running"] or about["was_closed_well"] else ", the last one did not stop cleanly"
    print(printable(f"{directory.path}: cluster {about['cluster_id']}; {state}{ended}"))
    if about["catalogue_problem"]:
        _warn(f"The catalogue cannot be read: {about['catalogue_problem']}")
    print()
    print_table(map(_topic_row, topics), _TOPIC_COLUMNS)
    written = [_partition_row(topic, each) for topic in topics for each in topic["written_partitions"]]
    print()
    print_table(written, _PARTITION_COLUMNS)
    for orphan in directory.orphans:
        _warn(f"{orphan}: the catalogue does not have this partition")


_TOPIC_COLUMNS = ("topic", "topic_id", "partitions", "written", "bytes", "records", "own_settings")
_PARTITION_COLUMNS = ("partition", "start_offset", "end_offset", "bytes", "segments", "tail")


def _topic_row(topic: Json) -> Json:
    written = topic["written_partitions"]
    return {
        "topic": topic["name"],
        "topic_id": topic["topic_id"],
        "partitions": topic["partition_count"],
        "written": len(written),
        "bytes": topic["bytes"],
        "records": sum(each["log_end_offset"] - each["log_start_offset"] for each in written),
        "own_settings": ",".join(f"{name}={value}" for name, value in sorted(topic["configs"].items())),
    }


def _partition_row(topic: Json, written: Json) -> Json:
    return {
        "partition": f"{topic['name']}-{written['partition']}",
        "start_offset": written["log_start_offset"],
        "end_offset": written["log_end_offset"],
        "bytes": written["bytes"],
        "segments": written["segments"],
        "tail": "incomplete" if written["tail_problem"] else None,
    }


def _warn(text: str) -> None:
    typer.secho(printable(text), fg=typer.colors.YELLOW)


# One log.


class _Reading:
    """Reads one log once. `stop` then says where and why the reading ended before the end of the log."""

    def __init__(self, place: PartitionPlace, options: DumpOptions) -> None:
        self._options = options
        self._meaning = meaning_in(place.topic)
        self.files = read_partition(place.directory)
        self.stop: Stop | None = None
        self.is_limit_reached = False
        self._transactions = Transactions()

    def batches(self) -> Iterator[tuple[str, Json]]:
        """Yield each batch with the name of its segment's file, and with its records if requested."""
        left = self._options.limit if self._options.limit is not None else sys.maxsize
        for found in read_batches(self.files, self._options.from_offset):
            if isinstance(found, Stop):
                self.stop = found
                return
            if left <= 0:
                self.is_limit_reached = True
                return
            segment, batch = found
            with suppress(CorruptBatch):
                if batch.header.producer_id >= 0 and batch.header.magic == MAGIC:
                    self._transactions.take(batch.header, batch.data)
            described = batch_as_json(batch)
            if self._options.with_records:
                records, problem = self._records(batch, described["crc_ok"])
                self.is_limit_reached = len(records) > left
                described["records"] = records[:left]
                described["records_problem"] = problem
                left -= len(records)
            else:
                left -= 1
            yield segment.path().name, described

    @property
    def open_transactions(self) -> list[Json]:
        """The transactions that began in the batches read, and did not end in them."""
        return [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.epoch,
                "first_offset": one.first_offset,
                "first_timestamp": one.since,
            }
            for one in self._transactions.all_open()
        ]

    def _records(self, batch: FoundBatch, crc_ok: bool) -> tuple[list[Json], str | None]:
        if batch.header.magic != MAGIC:
            return [], f"message format {batch.header.magic} is not supported"
        records: list[Json] = []
        problem = None if crc_ok else "the checksum is wrong: the records can be damaged"
        try:
            for offset, record in iterate_records(batch.data):
                if offset < self._options.from_offset:
                    continue
                described = record_as_json(batch, offset, record, meaning=self._meaning)
                if self._options.with_keys:
                    described["key"] = bytes_as_json(record.key)
                if self._options.with_values:
                    described["value"] = bytes_as_json(record.value)
                records.append(described)
        except CorruptBatch as broken:
            problem = f"{problem}; {broken.reason}" if problem else broken.reason
        return records, problem


def _print_json(directory: DataDirectory, places: Iterable[PartitionPlace], options: DumpOptions) -> None:
    """Print one JSON object, with a line for each batch, while the batches are read."""
    write = sys.stdout.write
    write(json.dumps(directory_as_json(directory))[:-1] + ', "partitions": [')
    for number, place in enumerate(places):
        reading = _Reading(place, options)
        about = {
            "partition": place.directory.name,
            "topic": place.topic,
            "index": place.index,
            **partition_as_json(reading.files, extent_of(reading.files)),
        }
        write((",\n" if number else "\n") + json.dumps(about)[:-1] + ', "batches": [')
        for at, (segment, batch) in enumerate(reading.batches()):
            write((",\n" if at else "\n") + json.dumps({"segment": segment, **batch}))
        end = {
            "stopped_at": _stop_as_json(reading.stop),
            "is_limit_reached": reading.is_limit_reached,
            "open_transactions": reading.open_transactions,
        }
        write("], " + json.dumps(end)[1:])
    write("]}\n")


def _stop_as_json(stop: Stop | None) -> Json | None:
    if stop is None:
        return None
    return {
        "file": stop.file,
        "position": stop.position,
        "bytes": stop.size_bytes,
        "why": stop.reason,
        "is_tail": stop.is_tail,
    }


def _print_lines(place: PartitionPlace, options: DumpOptions) -> None:
    reading = _Reading(place, options)
    about = partition_as_json(reading.files, extent_of(reading.files))
    segments = counted(len(about["segments"]), "segment")
    print(
        f"{place.directory.name}: offsets {about['log_start_offset']} up to {about['log_end_offset']}, "
        f"{counted(about['bytes'], 'byte')} in {segments}"
    )
    segment = None
    for name, batch in reading.batches():
        if name != segment:
            print(f"Dumping {place.directory / name}")
            print(f"Log starting offset: {int(name.partition('.')[0])}")
            segment = name
        print(_batch_line(batch))
        for record in batch.get("records", ()):
            print(_record_line(batch, record))
        if batch.get("records_problem"):
            print(f"| {batch['records_problem']}")
    for one in reading.open_transactions:
        print(
            f"Open transaction: producerId: {one['producer_id']} producerEpoch: {one['producer_epoch']} "
            f"firstOffset: {one['first_offset']} firstTimestamp: {one['first_timestamp']}"
        )
    if reading.is_limit_reached:
        print("... and more (--limit)")
    if reading.stop is not None:
        print(_stop_line(reading.stop))


def _stop_line(stop: Stop) -> str:
    where = f"{stop.file} at position {stop.position}, {counted(stop.size_bytes, 'byte')} before its end"
    if stop.is_tail:
        return (
            f"Incomplete tail: {where}: {stop.reason}. A running server is still writing it, or a crash "
            "interrupted a write; `headgate log verify` tells whether the next start opens the log."
        )
    return f"Stopped: {where}: {stop.reason}. `headgate log verify` shows the details."


def _batch_line(batch: Json) -> str:
    horizon = batch["delete_horizon_ms"]
    fields = {
        "baseOffset": batch["base_offset"],
        "lastOffset": batch["last_offset"],
        "count": batch["count"],
        "baseSequence": batch["base_sequence"],
        "lastSequence": batch["last_sequence"],
        "producerId": batch["producer_id"],
        "producerEpoch": batch["producer_epoch"],
        "partitionLeaderEpoch": batch["leader_epoch"],
        "isTransactional": _truth(batch["is_transactional"]),
        "isControl": _truth(batch["is_control"]),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": batch["position"],
        batch["timestamp_type"]: batch["max_timestamp"],
        "size": batch["size"],
        "magic": batch["magic"],
        "compresscodec": batch["codec"],
        "crc": batch["crc"],
        "isvalid": _truth(batch["crc_ok"]),
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _record_line(batch: Json, record: Json) -> str:
    fields = {
        "offset": record["offset"],
        batch["timestamp_type"]: record["timestamp"],
        "keySize": -1 if record["key_size"] is None else record["key_size"],
        "valueSize": -1 if record["value_size"] is None else record["value_size"],
        "sequence": record["sequence"],
        "headerKeys": "[" + ",".join(map(printable, record["header_keys"])) + "]",
    }
    if "key" in record:
        fields["key"] = _text(record["key"])
    if "value" in record:
        fields["payload"] = _text(record["value"])
    if (run := record["run"]) is not None:
        fields["run"] = f"{run['before'] + 1} of {run['total']} from offset {run['first_offset']}"
    if (origin := record["origin"]) is not None:
        fields["origin"] = f"offset {origin['offset']} at {origin['timestamp']}"
    if record["meaning"] is not None:
        fields["meaning"] = printable(record["meaning"]["words"])
    return "| " + " ".join(f"{name}: {value}" for name, value in fields.items())


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _text(data: Json | None) -> str:
    if data is None:
        return "null"
    return printable(data["data"]) if data["encoding"] == "utf-8" else f"base64:{data['data']}"
