"""The directory of a real broker that was stopped, unpacked for each test, and what was printed of it."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.takeover.kafka_life import ARCHIVE, PRINTED, Printed
from typer.testing import CliRunner

from headgate.cli import app


@dataclass(frozen=True)
class Broker:
    """A Kafka directory, and where an import of it goes."""

    data: Path
    target: Path

    def run(self, *more: str) -> tuple[int, str]:
        """Run the command; return exit code and output."""
        given = ["import", "--from-kafka-log", str(self.data), "--data-dir", str(self.target), *more]
        result = CliRunner().invoke(app, given)
        return result.exit_code, result.output

    def refused(self, *more: str) -> str:
        """Run the command, which refuses, and writes nothing; return the message."""
        before = sorted(self.target.rglob("*")) if self.target.exists() else None
        code, message = self.run(*more)
        assert code == 2, message
        after = sorted(self.target.rglob("*")) if self.target.exists() else None
        assert after == before
        return message

    def imported(self, *more: str) -> str:
        """Run the command, which succeeds; return what it printed."""
        code, output = self.run(*more)
        assert code == 0, output
        return output

    def first_segment(self, partition: str) -> Path:
        """Return the path of a partition's first segment."""
        return min((self.data / partition).glob("*.log"))


@pytest.fixture
def kafka(tmp_path: Path) -> Broker:
    """A fresh copy."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return Broker(tmp_path / "data", tmp_path / "target")


@pytest.fixture(scope="session")
def printed() -> Printed:
    """What Kafka's tools printed of the broker before it was stopped."""
    found: Printed = json.loads(PRINTED.read_text())
    return found
