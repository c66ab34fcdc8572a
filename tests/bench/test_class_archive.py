"""The archive of Kafka's classes saves time, and nothing else depends on it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bench.kafka import broker

pytestmark = pytest.mark.skipif(broker.kafka_missing() is not None, reason=broker.kafka_missing() or "")


@pytest.mark.parametrize("archive", [b"", b"\xf0\x0b\xab\xa2" * 5000], ids=["empty", "no archive"])
def test_an_archive_that_cannot_be_used_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bytes
) -> None:
    """A tool prints the same as without, and no warning."""
    monkeypatch.setattr(broker, "CLASS_ARCHIVE", tmp_path / "classes.jsa")
    broker.CLASS_ARCHIVE.write_bytes(archive)
    command = broker.java_command("kafka.tools.StorageTool", "random-uuid")
    assert f"-XX:SharedArchiveFile={broker.CLASS_ARCHIVE}" in command
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r"[\w-]{22}\n", done.stdout)
    assert done.stderr == ""
