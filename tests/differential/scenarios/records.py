"""Records as group members need them: written, read, found by time, deleted."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Sequence

from crc32c import crc32c
from tests.differential.record_requests import (
    NOW_MS,
    batch,
    delete_records,
    epoch_ends,
    list_offsets,
    produce,
    read,
)
from tests.differential.requests import create_partitions
from tests.differential.script import Script, Topic
from tests.topics.raw_batches import THREE, YEARS_MS, raw_batch, raw_record

from headgate.log.batch import Record, encode_batch

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LATEST, EARLIEST, GREATEST = -1, -2, -3
THREE_RECORDS = raw_batch(THREE, 3)


def _written(ask: Script, partitions: int = 1) -> Topic:
    """A topic with six records in partition 0, a second apart, in three batches."""
    topic = ask.topic(partitions=partitions)
    for number in range(3):
        ask(produce(topic, {0: batch("a", "b", timestamp=NOW_MS + 2000 * number)}))
    return topic


def written_in_every_version(ask: Script) -> None:
    """To a partition that is there and to one that is not, with and without waiting for others."""
    topic = ask.topic(partitions=2)
    for version in range(3, 14):
        for acks in (-1, 1):
            ask(produce(topic, {0: batch(f"{version}"), 9: batch("nowhere")}, version, acks))
    ask(produce("no-such-topic", {0: batch("x")}, 12))
    ask(produce(uuid.UUID(int=7), {0: batch("x")}, 13))
    ask(produce(topic, {0: batch("x")}, acks=2))
    ask(produce(topic, {}))
    ask(produce(topic, {0: batch("one"), 1: batch("another")}))


def read_in_every_version(ask: Script) -> None:
    """What there is, at the end, beyond it; of a partition and a topic that are not there."""
    topic = _written(ask, partitions=2)
    for version in range(4, 19):
        for offset in (0, 3, 6, 7, -1):
            ask(read(topic, {0: offset, 1: 0, 9: 0}, version), note=f"from {offset}")
    ask(read("no-such-topic", {0: 0}, 12))
    ask(read(uuid.UUID(int=7), {0: 0}, 13))
    ask(read(topic, {0: 0}, isolation_level=1))


def compressed(ask: Script) -> None:
    """By each codec; the batch comes back as it came."""
    topic = ask.topic()
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        ask(produce(topic, {0: batch("one", "two", "three", codec=codec)}))
    ask(produce(topic, {0: batch("zstd", codec=ZSTD)}, 6), note="zstd before its version")
    ask(read(topic, {0: 0}))
    ask(read(topic, {0: 0}, 9), note="zstd before its version")


def what_is_no_good_batch(ask: Script) -> None:
    """Damaged, cut short, of another format, two at once, none at all, too large."""
    topic = ask.topic(configs={"max.message.bytes": "1000"})
    good = batch("good")
    damaged = good[:-1] + b"\xff"
    miscounted = _with_checksum(good[:57] + struct.pack(">i", 2) + good[61:])
    wrong = {
        "damaged": damaged,
        "cut short": good[:-1],
        "a byte too many": good + b"\x00",
        "an older format": good[:16] + b"\x01" + good[17:],
        "two batches": good + good,
        "nothing": b"",
        "a count that is wrong": miscounted,
        "too large": batch("x" * 1000),
        "a base offset": struct.pack(">q", 77) + good[8:],
        "a control batch": batch("x", is_control=True),
    }
    for note, data in wrong.items():
        for version in (7, 12):
            ask(produce(topic, {0: data}, version), note=note)
    ask(read(topic, {0: 0}))


def records_that_are_none(ask: Script) -> None:
    """A checksum that fits around what the header does not say; times and keys that are not its own."""
    topic = ask.topic(configs={"cleanup.policy": "compact"})
    for note, data in {
        "garbage": raw_batch(bytes(range(40)), 3),
        "too few": raw_batch(raw_record(), 2),
        "too many": raw_batch(THREE, 2),
        "none": raw_batch(b"", 3),
        "bytes left in a record": raw_batch(b"\x28" + b"\0\0\0\x02k\x02v\0" + bytes(12), 1),
        "no header key": raw_batch(raw_record(headers=b"\x02\x01\x00"), 1),
        "too many headers": raw_batch(raw_record(headers=b"\xd0\x0f"), 1),
        "too few, packed": raw_batch(raw_record(), 2, codec=GZIP),
        "garbage, packed": raw_batch(b"\xff" * 40, 3, codec=GZIP),
        "of an unknown format": THREE_RECORDS[:16] + b"\x03" + THREE_RECORDS[17:],
        "of negative length": THREE_RECORDS[:8] + b"\xff" * 4 + THREE_RECORDS[12:],
        "shorter than a header": THREE_RECORDS[:11] + b"\x30" + THREE_RECORDS[12:],
        "half a batch more": THREE_RECORDS + THREE_RECORDS[:-5],
        "a header's worth more": THREE_RECORDS + b"\xff" * 17,
        "a later time than the header says": raw_batch(raw_record(time=YEARS_MS), 1, max_time=NOW_MS),
        "an earlier one": raw_batch(raw_record(time=5), 1, max_time=NOW_MS + YEARS_MS),
        "no time": raw_batch(raw_record(), 1, base_time=-1),
        "no key and another time": raw_batch(
            raw_record(key=None, time=YEARS_MS) + raw_record(offset=1, time=YEARS_MS), 2
        ),
        "an empty key": raw_batch(raw_record(key=b""), 1),
        "a producer at the ends": raw_batch(THREE, 3, producer=(2**63 - 1, 2**15 - 1, 2**31 - 1)),
        "after the last sequence": raw_batch(raw_record(), 1, producer=(2**63 - 1, 2**15 - 1, 2)),
        "a producer of epoch -1": raw_batch(THREE, 3, producer=(2, -1, 0)),
        "a transaction": raw_batch(THREE, 3, attributes=0x10, producer=(9, 0, 0)),
    }.items():
        ask(produce(topic, {0: data}), note=note)
    ask(list_offsets(topic.name, {0: GREATEST}))
    ask(read(topic, {0: 0}))


def compressed_anew(ask: Script) -> None:
    """A topic with a codec of its own takes batches of any; they are found by time and offset."""
    for number, codec in enumerate(("uncompressed", "gzip", "snappy", "lz4", "zstd")):
        topic = ask.topic(f"t{number}", configs={"compression.type": codec})
        for sent in (0, GZIP, SNAPPY, LZ4, ZSTD):
            ask(produce(topic, {0: batch("one", "two", "three", codec=sent)}))
        ask(list_offsets(topic.name, {0: LATEST}))
        ask(list_offsets(topic.name, {0: NOW_MS + 1000}))


def _with_checksum(data: bytes) -> bytes:
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def keys_in_a_compacted_topic(ask: Script) -> None:
    """A record without one is told by its place."""
    topic = ask.topic(configs={"cleanup.policy": "compact"})
    ask(produce(topic, {0: batch("with", "keys")}))
    for version in (7, 8, 12):
        ask(produce(topic, {0: batch("without", "keys", key=None)}, version))
    ask(read(topic, {0: 0}))


def clocks(ask: Script) -> None:
    """A topic with the broker's time; timestamps that are too old or too new."""
    topic = ask.topic(configs={"message.timestamp.before.max.ms": "1000"})
    ask(produce(topic, {0: batch("old", timestamp=NOW_MS - 86_400_000)}))
    ask(produce(topic, {0: batch("old", timestamp=NOW_MS - 86_400_000)}, 7))
    other = ask.topic("other", configs={"message.timestamp.after.max.ms": "1000"})
    ask(produce(other, {0: batch("new", timestamp=NOW_MS + 86_400_000)}))
    ask(produce(other, {0: batch("none", timestamp=-1)}))


def sequences_of_a_producer(ask: Script) -> None:
    """Again, with a gap, of an older epoch, further back than is remembered."""
    topic = ask.topic()

    def send(sequence: int, count: int = 1, epoch: int = 0, producer: int = 4242) -> None:
        data = batch(
            *map(str, range(count)), producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )
        note = f"producer {producer}, epoch {epoch}, sequence {sequence}, {count} records"
        ask(produce(topic, {0: data}), note=note)

    for sequence in (0, 0, 1, 3, 2, 1):
        send(sequence)
    send(3, count=3)
    send(3, count=2)
    for sequence in (6, 7, 8, 9, 10):
        send(sequence)
    send(0)
    send(6)
    send(0, epoch=1)
    send(11)
    send(5, epoch=2)
    send(7, producer=4243)
    send(-1, producer=4244)
    ask(read(topic, {0: 0}))


def where_times_are(ask: Script) -> None:
    """Both ends, the greatest timestamp, between records, before and behind all; in every version."""
    topic = _written(ask, partitions=2)
    for version in range(1, 12):
        for when in (LATEST, EARLIEST, GREATEST, -4, -5, -6, -7):
            ask(list_offsets(topic.name, {0: when, 1: when}, version), note=str(when))
        for seconds in (-1, 0, 1, 2, 5, 6):
            for milliseconds in (0, 1):
                note = f"after {seconds}.{milliseconds:03} s"
                timestamp = NOW_MS + 1000 * seconds + milliseconds
                ask(list_offsets(topic.name, {0: timestamp, 1: timestamp}, version), note=note)
    ask(list_offsets(topic.name, {9: LATEST}))
    ask(list_offsets("no-such-topic", {0: LATEST}))
    for epoch in (0, 1, 77):
        ask(list_offsets(topic.name, {0: LATEST}, current_leader_epoch=epoch), note=f"epoch {epoch}")
    ask(list_offsets(topic.name, {0: LATEST}, isolation_level=1))


def where_the_greatest_times_are(ask: Script) -> None:
    """In one record, in several of a batch, of batches, of segments; times of records and of the broker."""
    for number, batches in enumerate(
        (
            [[5] * 10],
            [[1, 9, 9, 1], [1, 2]],
            [[5], [9, 1], [9, 9], [3, 9, 1]],
            [[1, 2, 8, 3], [4, 8], [7]],
            [[9], [1], [2], [3], [10, 4], [5]],
            [[-1, 5, -1], [-1]],
        )
    ):
        for codec in (0, GZIP):
            for time_type in ("CreateTime", "LogAppendTime"):
                topic = ask.topic(
                    f"{number}-{codec}-{time_type}", configs={"message.timestamp.type": time_type}
                )
                for timestamps in batches:
                    ask(produce(topic, {0: _batch_at(timestamps, codec=codec)}))
                    time.sleep(0.002)  # so that no two batches have the same time of the broker
                    ask(list_offsets(topic.name, {0: GREATEST}), note=f"after {timestamps}")
                ask(list_offsets(topic.name, {0: GREATEST}, isolation_level=1))
                for when in range(11) if time_type == "CreateTime" else (0,):
                    ask(list_offsets(topic.name, {0: NOW_MS + when}), note=f"at {when}")
    topic = ask.topic("segments", configs={"segment.bytes": f"{1 << 20}"})
    for timestamps in ([1, 7], [7, 2], [6, 7], [7, 7]):
        ask(produce(topic, {0: _batch_at(timestamps, size=300_000)}))
        ask(list_offsets(topic.name, {0: GREATEST}), note=f"after {timestamps}")


def _batch_at(timestamps: Sequence[int], *, size: int = 1, codec: int = 0) -> bytes:
    """A batch whose records are so many ms after now; -1 is none."""
    times = [at if at < 0 else NOW_MS + at for at in timestamps]
    return bytes(encode_batch([Record(b"k", b"v" * size, at) for at in times], codec=codec))


def byte_limits(ask: Script) -> None:
    """At least one batch, whatever the limit; then no more than fits."""
    topic = ask.topic(partitions=2)
    data = batch("x" * 100)
    for _ in range(4):
        ask(produce(topic, {0: data, 1: data}))
    size = len(data)
    for limit, words in (
        (0, "no byte"),
        (1, "one byte"),
        (size, "one batch"),
        (size + 1, "one batch and a byte"),
        (2 * size, "two batches"),
        (3 * size - 1, "two batches and more"),
    ):
        ask(read(topic, {0: 0}, partition={"partition_max_bytes": limit}), note=f"of the partition {words}")
        ask(read(topic, {0: 0}, max_bytes=limit), note=f"in all {words}")


def leader_epochs(ask: Script) -> None:
    """There has been one leader; a later epoch is nobody's."""
    topic = _written(ask)
    for version in (2, 3, 4):
        for epoch in (-1, 0, 1, 77):
            ask(epoch_ends(topic.name, {0: epoch}, version), note=f"epoch {epoch}")
            ask(epoch_ends(topic.name, {0: 0}, version, current=epoch), note=f"in epoch {epoch}")
    ask(epoch_ends(topic.name, {9: 0}))
    ask(epoch_ends("no-such-topic", {0: 0}))
    for epoch in (0, 1, 77):
        ask(read(topic, {0: 0}, partition={"current_leader_epoch": epoch}), note=f"in epoch {epoch}")
        ask(read(topic, {0: 3}, partition={"last_fetched_epoch": epoch}), note=f"last of epoch {epoch}")


def sessions_of_fetches(ask: Script) -> None:
    """Made, used, with other partitions, in a wrong epoch, ended."""
    topic = _written(ask, partitions=2)
    answer = ask(read(topic, {0: 0, 1: 0}, session_epoch=0))
    session = {"session_id": answer["session_id"]}
    ask(read(topic, {}, session_epoch=1, **session))
    ask(read(topic, {0: 6}, session_epoch=2, **session))
    ask(produce(topic, {1: batch("x")}))
    ask(read(topic, {}, session_epoch=3, **session))
    ask(read(topic, {}, session_epoch=3, **session))
    forgotten = [{"topic_id": topic.id, "partitions": [1]}]
    ask(read(topic, {}, session_epoch=4, forgotten_topics_data=forgotten, **session))
    ask(produce(topic, {0: batch("y"), 1: batch("z")}))
    ask(read(topic, {}, session_epoch=5, **session))
    ask(read(topic, {}, session_epoch=77, **session))
    ask(read(topic, {}, session_epoch=1, session_id=123456789))
    ask(read(topic, {0: 0}, session_epoch=-1, **session))
    ask(read(topic, {}, session_epoch=6, **session))


def deleted(ask: Script) -> None:
    """Up to an offset, to the end, twice, beyond; what is left is read and found."""
    topic = _written(ask, partitions=2)
    for version, offset in ((0, 1), (1, 3), (2, 2), (2, 7), (2, -2), (2, -1), (2, -1)):
        ask(delete_records(topic.name, {0: offset, 9: 0}, version), note=f"up to {offset}")
        ask(list_offsets(topic.name, {0: EARLIEST}))
        ask(list_offsets(topic.name, {0: NOW_MS}))
        ask(read(topic, {0: 0, 1: 0}))
        ask(read(topic, {0: 4}))
    ask(delete_records("no-such-topic", {0: 0}))
    ask(delete_records(topic.name, {1: 0}))


def partitions_that_come_later(ask: Script) -> None:
    """They are written to and read as the others are."""
    topic = _written(ask)
    ask(produce(topic, {1: batch("too early")}))
    ask(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask.until(
        list_offsets(topic.name, {1: LATEST}),
        lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == "none",
    )
    ask(produce(topic, {1: batch("in time")}))
    ask(read(topic, {0: 0, 1: 0}))
    ask(list_offsets(topic.name, {0: LATEST, 1: LATEST}))
