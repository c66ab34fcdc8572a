"""Apache Kafka's log dump reads our logs. Needs Java and the jars of `make kafka`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.log.compacting import NOW, RETENTION, compacted
from tests.log.support import Place, sync

from headgate.log.batch import Record, encode_batch, place_batch, read_header
from headgate.log.filesystem import OsFileSystem
from headgate.log.header import HEADER_BYTES
from headgate.log.log import LogSettings
from headgate.log.recompression import with_codec

JARS = Path(__file__).parents[2] / "build" / "kafka" / "libs"

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or not list(JARS.glob("kafka-tools-*.jar")),
    reason="no Java, or Apache Kafka is not fetched (make kafka)",
)


def test_kafkas_dump_finds_every_batch_valid_and_every_index_entry_right(tmp_path: Path) -> None:
    """All codecs unpack in Java, every CRC is right, and no index entry disagrees with its log."""
    place = Place(OsFileSystem(), tmp_path / "flights-0", LogSettings(segment_bytes=20_000))
    log = place.open()
    for at in range(400):
        records = [
            Record(b"k%d" % n, None if n else b"v" * 20, 10**12 + 10 * at + n, [(b"h", b"x")])
            for n in range(1 + at % 3)
        ]
        batch = encode_batch(records, base_offset=log.log_end_offset, codec=at % 5)
        log.append(batch, [read_header(batch)])
    log.close()
    assert log.segment_count == 3
    dump = dumped(place.directory)
    assert dump.count("isvalid: true") == 400
    assert dump.count("| offset: ") == log.log_end_offset


def test_kafkas_dump_decompresses_recompressed_batches(tmp_path: Path) -> None:
    """With every codec, at its default level and others, over several blocks."""
    place = Place(OsFileSystem(), tmp_path / "flights-0", LogSettings())
    log = place.open()
    levels: list[tuple[int, int | None]] = [
        (0, None),
        (1, None),
        (1, 1),
        (1, 9),
        (2, None),
        (3, None),
        (3, 1),
    ]
    levels += [(3, 17), (4, None), (4, -50), (4, 22)]
    records = [Record(b"k%d" % at, b"%d" % (at * 7919) * 20, 10**12 + at) for at in range(2000)]
    for codec, level in levels:
        sent = encode_batch(records)
        batch = with_codec(read_header(sent), bytes(sent[HEADER_BYTES:]), codec, level)
        place_batch(batch, 0, log.log_end_offset, 0)
        log.append(batch, [read_header(batch)])
    log.close()
    dump = dumped(place.directory)
    assert dump.count("isvalid: true") == len(levels)
    assert dump.count("| offset: ") == len(levels) * len(records)


def test_kafkas_dump_understands_a_compacted_log(tmp_path: Path) -> None:
    """Batches that lost some records or all, gaps, merged segments, delete horizons: all as in Kafka."""
    place = Place(OsFileSystem(), tmp_path / "flights-0", LogSettings(segment_bytes=20_000))
    log = place.open()
    sequences = [0, 0, 0]
    for at in range(600):
        producer = at % 3 if at < 300 else 2
        records = [
            Record(b"k%d" % ((at + n) % 40), None if at > 250 and at % 5 == 0 else b"v" * 20, 10**12 + at)
            for n in range(1 + at % 3)
        ]
        batch = encode_batch(
            records,
            base_offset=log.log_end_offset,
            codec=at % 5,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
        )
        sequences[producer] += len(records)
        log.append(batch, [read_header(batch)])
    sync(log)
    before = log.segment_count
    compacted(log)
    log.close()
    assert 2 <= log.segment_count < before
    dump = dumped(place.directory)
    headers = [header for header, _ in log.batches()]
    assert dump.count("isvalid: true") == len(headers) < 600
    assert dump.count("| offset: ") == sum(header.record_count for header in headers)
    empty = [header for header in headers if not header.record_count]
    assert [header.producer_id for header in empty] == [0, 1]
    assert dump.count(f"deleteHorizonMs: OptionalLong[{NOW + RETENTION}]") == sum(
        header.delete_horizon_ms is not None for header in headers
    )


def dumped(directory: Path) -> str:
    """What DumpLogSegments says of a partition, having found nothing wrong."""
    files = sorted(path for path in directory.iterdir() if not path.name.startswith("headgate."))
    dump = subprocess.run(
        [
            *("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"),
            *("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration"),
            *("--files", ",".join(map(str, files))),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert dump.returncode == 0, dump.stderr
    for complaint in ("isvalid: false", "mismatch", "not found", "out of order"):
        assert complaint not in dump.stdout.lower()
    assert "Exception" not in dump.stdout + dump.stderr
    return dump.stdout
