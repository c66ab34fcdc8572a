"""Landings that meet another run, a damaged target or a damaged log: refused, not repeated or in silence."""

from __future__ import annotations

import importlib
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_landing import TOPIC, Broker, broker, check, commit
from typer.testing import CliRunner

from headgate.cli import app
from headgate.log.batch_scan import Chunk, Scan, scan_chunk
from headgate.spark.landing import LandingFailed, LandingRefused, land, run_here
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import NAME
from headgate.spark.landing.tables import whole_files

__all__ = ["broker"]


def visible(target: Path) -> list[str]:
    """The files that Spark and Arrow read as parts of tables: names with a dot or underscore are skipped."""
    return [
        file.name
        for file in target.rglob("*")
        if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(target).parts)
    ]


def test_a_second_run_at_the_same_time_is_refused(broker: Broker, tmp_path: Path) -> None:
    """Otherwise both plan ranges of the same records, and one forgets what the other landed."""
    target = tmp_path / "tables"

    def run(tasks: Sequence[Any]) -> list[Any]:
        broker.append(0, [commit(50)])
        with pytest.raises(LandingRefused, match="another run lands into"):
            land(str(broker.directory), str(target))
        return run_here(tasks)

    land(str(broker.directory), str(target), run)
    broker.append(0, [commit(51)])
    land(str(broker.directory), f"file://{target}")
    check(broker, target)


def test_readers_do_not_see_a_file_that_is_not_complete(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed while it writes leaves a file that Spark skips."""
    target, replace = tmp_path / "tables", Path.replace

    def killed(path: Path, other: Path) -> Path:
        if other.name.endswith(".parquet"):
            raise OSError("killed")
        return replace(path, other)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(LandingFailed):
            land(str(broker.directory), str(target))
    assert visible(target) == []
    land(str(broker.directory), str(target))
    check(broker, target)


def test_what_a_killed_run_left_unfinished_is_removed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed cannot remove its temporary files: the next run does."""
    target, replace = tmp_path / "tables", Path.replace

    def killed(path: Path, other: Path) -> Path:
        if other.name.endswith(".parquet"):
            raise OSError("killed")
        return replace(path, other)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(LandingFailed):
            land(str(broker.directory), str(target))
    assert len(list(target.rglob(".*.tmp"))) == 2
    (target / "_headgate" / ".progress.json.0.tmp").write_bytes(b"{")
    mine = target / "offset_commits" / "mine.tmp"
    mine.write_bytes(b"somebody else's")
    land(str(broker.directory), str(target))
    assert list(target.rglob("*.tmp")) == [mine]
    mine.unlink()
    check(broker, target)


def test_a_range_is_read_once(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its checks and all its tables; before, only the end of the log, which may be within a run."""
    scanned: Counter[str] = Counter()

    def counting(chunk: Chunk) -> Scan:
        scanned[chunk.place] += 1
        return scan_chunk(chunk)

    monkeypatch.setattr("headgate.spark.segments.scan_chunk", counting)
    land(str(broker.directory), str(tmp_path / "tables"))
    assert len(scanned) == 2
    assert set(scanned.values()) == {2}


def test_two_attempts_at_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may repeat a task whose first attempt still runs."""
    folder, sync, is_first = Folder(str(tmp_path)), os.fsync, [True]

    def sync_after_the_other(file: int) -> None:
        if is_first:
            is_first.clear()
            folder.write("t/p/d/f.parquet", b"content")
        sync(file)

    monkeypatch.setattr(os, "fsync", sync_after_the_other)
    folder.write("t/p/d/f.parquet", b"content")
    assert folder.read("t/p/d/f.parquet") == b"content"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_damaged_progress_is_refused(broker: Broker, tmp_path: Path, content: bytes) -> None:
    """Without it nobody knows what was landed."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    (target / NAME).write_bytes(content)
    with pytest.raises(LandingRefused, match=r"progress\.json is damaged"):
        land(str(broker.directory), str(target))


def test_tables_without_a_progress_are_not_landed_again(broker: Broker, tmp_path: Path) -> None:
    """Their rows would be there twice."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    (target / NAME).unlink()
    broker.append(0, [commit(50)])
    with pytest.raises(LandingRefused, match=r"offset_commits.*but no _headgate/progress\.json"):
        land(str(broker.directory), str(target))


def test_a_partition_that_is_gone_is_refused(broker: Broker, tmp_path: Path) -> None:
    """Its records were lost, or this is another log."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    shutil.rmtree(broker.directory / f"{TOPIC}-1")
    with pytest.raises(LandingRefused, match=f"{TOPIC}-1 is gone, but was landed up to 2"):
        land(str(broker.directory), str(target))


def test_a_merge_that_was_killed_hides_no_row_from_readers() -> None:
    """The hidden file has all rows of the files that it replaces, some of which are deleted."""
    folder = "offset_commits/log_partition=0/date=2026-11-22"
    names = [f"{folder}/{name}.parquet" for name in ("03-05", "_00-05", "05-09", "part-1")]
    names += [f"{folder.replace('22', '23')}/03-05.parquet"]
    assert whole_files(names) == [names[1], names[2], names[4]]


def test_a_source_that_is_not_there_is_said_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session takes seconds; it is not needed to read an option."""

    def session(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(importlib.import_module("headgate.cli.spark"), "session", session)
    command = ["spark", "land", str(tmp_path / "nothing"), str(tmp_path / "tables")]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, "there is no data directory" in result.output) == (1, True)
    assert "there is no table 'x'" in CliRunner().invoke(app, [*command, "--tables", "x"]).output
