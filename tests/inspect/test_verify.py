"""The check of a data directory; each kind of fault has a module of its own."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.inspect.support import FLIGHTS, OFFSETS, errors

from headgate.inspect.findings import LISTED_PER_FILE, Severity
from headgate.inspect.verify import verify


def snapshot(data_dir: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in data_dir.rglob("*") if path.is_file()
    }


def test_a_cleanly_closed_directory_has_no_errors_and_is_not_changed(data_dir: Path) -> None:
    """Everything is checked, nothing is found, and no file is changed."""
    before = snapshot(data_dir)
    report = verify(data_dir)
    assert report.findings.errors == 0
    assert [found.file for found in report.findings.listed] == [OFFSETS]  # the record of an unknown type
    checked = report.findings.checked
    assert (checked.topics, checked.partitions, checked.segments) == (2, 3, 8)
    assert checked.records >= 3 * 83
    assert checked.size_bytes == sum(path.stat().st_size for path in data_dir.rglob("*.log"))
    assert snapshot(data_dir) == before


def test_at_most_a_hundred_findings_of_a_file_are_listed(data_dir: Path) -> None:
    """The others are counted."""
    index = data_dir / FLIGHTS / f"{99:020d}.index"
    index.write_bytes(b"".join(at.to_bytes(4, "big") * 2 for at in range(1, 400)))
    findings = verify(data_dir).findings
    name = f"{FLIGHTS}/{index.name}"
    assert sum(found.file == name for found in findings.listed) == LISTED_PER_FILE
    assert findings.not_listed[Severity.ERROR, name] == findings.errors - LISTED_PER_FILE > 100


def test_a_check_of_any_bytes_ends_with_findings(data_dir: Path) -> None:
    """Random damage never raises an error and is always found."""
    chance = random.Random(2013)
    files = [path for path in data_dir.rglob("*") if path.stat().st_size and path.suffix != ".properties"]
    faults: list[Callable[[bytes, int], bytes]] = [
        lambda data, at: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :],
        lambda data, at: data[:at] + bytes(len(data) - at),
        lambda data, at: data[:at] + chance.randbytes(40) + data[at:],
        lambda data, at: data[:at] + data[at + 5 :],
    ]
    for _ in range(100):
        path = chance.choice([path for path in files if path.is_file()])
        whole = path.read_bytes()
        damaged = chance.choice(faults)(whole, chance.randrange(len(whole)))
        path.write_bytes(damaged)
        assert errors(data_dir) or damaged == whole, path
        path.write_bytes(whole)
    assert json.loads((data_dir / "clean-shutdown").read_text())["v"] == 1


def test_a_file_with_the_name_of_a_partition_is_damage(data_dir: Path) -> None:
    """The server does not open that log. Another unknown file is only noted."""
    shutil.rmtree(data_dir / FLIGHTS)
    (data_dir / FLIGHTS).write_text("not a directory")
    (data_dir / "flights-99").write_text("no partition's")
    found = {one.file: one.severity for one in verify(data_dir).findings.listed}
    assert found[FLIGHTS] == Severity.ERROR
    assert found["flights-99"] == Severity.NOTE
