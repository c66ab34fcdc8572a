"""The Delta log of a landed table has the rows of the table: each once, in whole runs, whatever fails."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.coordinator_records import NOW
from tests.spark.support import make_due, rows_of
from tests.spark.test_landing import DAY_MS, TOPIC, VIEWS, Broker, broker, commit, event, rows
from typer.testing import CliRunner

from headgate.cli import app
from headgate.spark.landing import LandingFailed, delta, land
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import read_progress
from headgate.spark.landing.tables import GROWING, OFFSETS_DAILY, SAMPLED
from headgate.spark.options import OptionError

__all__ = ["broker"]

IS_MISSING = "deltalake is not installed: pip install 'headgate[delta]'"
TABLES = ("offset_commits", "group_events", "rebalances", "end_offsets", "lag")


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files to the page cache, and small tables to one thread."""
    pa.set_cpu_count(1)
    monkeypatch.setattr("headgate.spark.landing.files.os.fsync", lambda descriptor: None)


def in_delta(target: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table by its Delta log, without the columns of the path but the log partition."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    found = pa.table(deltalake.DeltaTable(str(target / table)).to_pyarrow_table())
    rows: list[dict[str, Any]] = found.drop_columns(["date"]).to_pylist()
    return rows


def assert_logs_match(target: Path) -> None:
    """Check the tables that have a log."""
    for table in TABLES[:2]:
        assert _unordered(in_delta(target, table)) == _unordered(rows(target, table))


def _unordered(found: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items(), key=lambda item: item[0])) for row in found)


def test_a_delta_log_has_the_rows_of_its_table(broker: Broker, tmp_path: Path) -> None:
    """From the first run with the option on; later ones need not name it."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target))
    assert not (target / "offset_commits" / "_delta_log").exists()
    land(str(broker.directory), str(target), delta=True)
    assert_logs_match(target)
    broker.append(1, [commit(9, 40), event(40)])
    land(str(broker.directory), str(target))
    assert_logs_match(target)
    assert len(in_delta(target, "offset_commits")) == 6
    assert {table for table in TABLES if (target / table / "_delta_log").exists()} == {*TABLES}
    assert not (target / "offsets_current" / "_delta_log").exists()
    versions = len(list((target / "offset_commits" / "_delta_log").glob("*.json")))
    land(str(broker.directory), str(target))
    assert len(list((target / "offset_commits" / "_delta_log").glob("*.json"))) == versions


def test_a_run_that_is_killed_leaves_a_log_that_the_next_one_mends(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every write; until then the log has whole runs only."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    write = Folder.write
    for step in range(12):
        before = _unordered(in_delta(target, "offset_commits"))
        broker.append(0, [commit(step, 50), event(51)])
        left = step

        def dying(self: Folder, name: str, content: bytes) -> None:
            nonlocal left
            if not left:
                raise OSError("killed")
            left -= 1
            write(self, name, content)

        with monkeypatch.context() as patched:
            patched.setattr(Folder, "write", dying)
            try:
                land(str(broker.directory), str(target), is_sampling=False)
            except (OSError, LandingFailed):
                assert _unordered(in_delta(target, "offset_commits")) == before
        land(str(broker.directory), str(target), is_sampling=False)
        assert_logs_match(target)


class _Killed(BaseException):
    """The end of a process: nothing catches it."""


@pytest.mark.parametrize("is_done", [False, True])
def test_a_run_killed_before_or_after_any_commit_of_a_log_is_made_up_for(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """The tables have all rows then, merged files too; the next run brings each log up to them."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True)
    write = deltalake.DeltaTable.create_write_transaction
    for step in range(20):
        broker.append(0, [commit(step, 1), event(1)])
        make_due(target)
        left = step

        def dying(*arguments: Any, **options: Any) -> None:
            nonlocal left
            left -= 1
            if left >= 0 or is_done:
                write(*arguments, **options)
            if left < 0:
                raise _Killed

        with monkeypatch.context() as patched:
            patched.setattr(deltalake.DeltaTable, "create_write_transaction", dying)
            try:
                land(str(broker.directory), str(target))
                has_survived = True
            except _Killed:
                has_survived = False
        for table in TABLES[:2]:
            assert len(rows(target, table)) == len(in_log(broker, table))
        land(str(broker.directory), str(target))
        assert_logs_match(target)
        if has_survived:
            break
    assert step == len(TABLES) - 1  # no group changed its members


def in_log(broker: Broker, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table in the log of the groups."""
    return rows_of(VIEWS[table], broker.directory, TOPIC)


def test_files_of_past_days_are_exchanged_in_the_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one commit for each table."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    broker.append(0, [commit(7)])
    land(str(broker.directory), str(target), is_sampling=False)
    table = str(target / "offset_commits")
    count = len(deltalake.DeltaTable(table).file_uris())
    monkeypatch.setattr("headgate.spark.landing.job.time.time_ns", lambda: (NOW + 999 * DAY_MS) * 1_000_000)
    make_due(target)
    land(str(broker.directory), str(target), is_sampling=False)
    assert len(deltalake.DeltaTable(table).file_uris()) == count - 1
    assert_logs_match(target)


def test_columns_that_a_later_release_adds_are_added_to_the_log(broker: Broker, tmp_path: Path) -> None:
    """The table keeps its log; rows from before have nulls."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), is_sampling=False)
    for file in (target / "group_events").rglob("*.parquet"):
        name = str(file.relative_to(target))
        older = Folder(str(target)).read_table(name).drop_columns(["initializing", "initialized", "deleting"])
        Folder(str(target)).write_table(name, older)
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    broker.append(0, [event(3)])
    land(str(broker.directory), str(target), is_sampling=False)
    found = in_delta(target, "group_events")
    assert len(found) == 3
    assert {row["initialized"] for row in found} == {None}
    assert "initialized" in {
        column.name for column in deltalake.DeltaTable(str(target / "group_events")).schema().fields
    }


def test_without_the_library_the_option_is_refused(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is landed, with what to install."""
    monkeypatch.setattr(delta, "find_spec", lambda name: None)
    target = tmp_path / "tables"
    with pytest.raises(OptionError, match=r"pip install 'headgate\[delta\]'"):
        land(str(broker.directory), str(target), delta=True)
    assert rows(target, "offset_commits") == []


def test_the_command_has_the_option() -> None:
    """In its help."""
    result = CliRunner().invoke(app, ["spark", "land", "--help"], env={"COLUMNS": "200"})
    assert "--delta" in result.output


def test_a_log_follows_files_that_were_removed_and_one_that_is_gone(broker: Broker, tmp_path: Path) -> None:
    """Old dates may be deleted; a log that is restored to an earlier version, or deleted, is made up for."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    table = target / "offset_commits"
    shutil.rmtree(table / "log_partition=0" / "date=2023-11-14")
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)
    broker.append(0, [commit(7)])
    land(str(broker.directory), str(target), is_sampling=False)
    deltalake.DeltaTable(str(table)).restore(1)
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)
    shutil.rmtree(table / "_delta_log")
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)


def test_another_writer_of_a_table_is_told_of_and_doubles_no_row(broker: Broker, tmp_path: Path) -> None:
    """Its files stay in its log and out of the landing; the other tables go on."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    broker.append(1, [commit(8, 1), event(40)])
    land(str(broker.directory), str(target), is_sampling=False)
    before = rows(target, "offset_commits")
    deltalake.DeltaTable(str(target / "offset_commits")).optimize.compact()
    strangers = list((target / "offset_commits").rglob("part-*.parquet"))
    broker.append(1, [event(41)])
    make_due(target)
    with pytest.raises(
        LandingFailed, match=r"offset_commits has 1 file that no landing wrote.*Delete its files"
    ):
        land(str(broker.directory), str(target), is_sampling=False)
    assert len(in_delta(target, "group_events")) == 4
    for file in strangers:
        file.unlink()
    shutil.rmtree(target / "offset_commits" / "_delta_log")
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)
    assert rows(target, "offset_commits") == before


def test_a_damaged_log_is_told_of_after_everything_is_landed(broker: Broker, tmp_path: Path) -> None:
    """With what to delete; that mends it."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    log = target / "offset_commits" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_bytes(b"\0\0{")
    broker.append(0, [commit(7), event(41)])
    with pytest.raises(LandingFailed, match=f"the tables are landed, but .* delete {log}"):
        land(str(broker.directory), str(target), is_sampling=False)
    assert len(rows(target, "offset_commits")) == 6
    assert len(in_delta(target, "group_events")) == 3
    shutil.rmtree(log)
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)


def test_a_full_disk_is_the_reason_that_is_told(broker: Broker, tmp_path: Path) -> None:
    """In one line, whatever the library adds to it; with room the log is made."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), is_sampling=False)
    progress = read_progress(Folder(str(target)))
    assert progress is not None
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        problems = delta.sync_logs(Folder(str(target)), progress)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(problems) == len([*GROWING, *SAMPLED, OFFSETS_DAILY])
    assert all("File too large" in each and each.isprintable() for each in problems)
    assert delta.sync_logs(Folder(str(target)), progress) == []
    assert_logs_match(target)


def test_a_table_without_rows_has_a_log_without_files(tmp_path: Path) -> None:
    """Its readers find an empty table; the first rows come into the same log."""
    deltalake = pytest.importorskip("deltalake", reason=IS_MISSING)
    broker, target = Broker(tmp_path / "data"), tmp_path / "tables"
    broker.append(0, [event()])
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    for table in ("offset_commits", "pauses", "lag", "offsets_daily"):
        assert in_delta(target, table) == []
    log = deltalake.DeltaTable(str(target / "offset_commits"))
    assert (log.version(), log.metadata().partition_columns) == (0, ["log_partition", "date"])
    broker.append(0, [commit(1)])
    land(str(broker.directory), str(target), is_sampling=False)
    assert_logs_match(target)
    log.update_incremental()
    assert log.version() == 1


def test_a_merge_changes_no_data_in_the_log(broker: Broker, tmp_path: Path) -> None:
    """Streams over the table do not get the rows again; rows that the log did not have are new."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True, is_sampling=False)
    broker.append(0, [commit(7)])
    land(str(broker.directory), str(target), is_sampling=False)
    make_due(target)
    land(str(broker.directory), str(target), is_sampling=False)
    assert changes(target) == {"add": {False}, "remove": {False}}
    broker.append(0, [commit(8)])
    make_due(target)
    land(str(broker.directory), str(target), is_sampling=False)
    assert changes(target) == {"add": {True}, "remove": {True}}
    assert_logs_match(target)


def changes(target: Path) -> dict[str, set[bool]]:
    """Return what the last commit of a log says of its files: whether they change data."""
    last = max((target / "offset_commits" / "_delta_log").glob("*.json"))
    found: dict[str, set[bool]] = {}
    for line in last.read_text().splitlines():
        for kind, action in json.loads(line).items():
            if "dataChange" in action:
                found.setdefault(kind, set()).add(action["dataChange"])
    return found


def test_a_sample_that_was_cut_short_is_not_in_the_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the next run takes none: the tables of samples would not fit together."""
    pytest.importorskip("deltalake", reason=IS_MISSING)
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), delta=True)
    before = len(in_delta(target, "end_offsets"))
    write = Folder.write

    def dying(self: Folder, name: str, content: bytes) -> None:
        if name.startswith("lag/"):
            raise OSError("killed")
        write(self, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", dying)
        with pytest.raises(OSError, match="killed"):
            land(str(broker.directory), str(target))
    land(str(broker.directory), str(target), is_sampling=False)
    assert len(in_delta(target, "end_offsets")) == before
    assert len(list((target / "end_offsets").rglob("*.parquet"))) == 1
