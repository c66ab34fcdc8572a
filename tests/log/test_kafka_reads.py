"""Apache Kafka's own log dump reads what is written here. Needs Java and the jars of `make kafka`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.log.support import Place

from headgate.log.batch import Record, encode_batch, read_header
from headgate.log.filesystem import OsFileSystem
from headgate.log.log import LogSettings

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
    files = sorted(path for path in place.directory.iterdir() if path.name != "headgate.checkpoint")
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
    assert dump.stdout.count("isvalid: true") == 400
    assert dump.stdout.count("| offset: ") == log.log_end_offset
    for complaint in ("isvalid: false", "mismatch", "not found", "out of order"):
        assert complaint not in dump.stdout.lower()
    assert "Exception" not in dump.stdout + dump.stderr
