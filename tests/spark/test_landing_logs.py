"""The logs of transactions and of share groups are landed as that of the groups is: exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.coordinator_records import NOW
from tests.spark.landing_kills import kill_at_each_write
from tests.spark.support import make_due, rows_of, write_segment
from tests.spark.test_landing import DAY_MS, Broker, broker, commit, event, rows, where
from tests.spark.test_share_deliveries import KEY, snapshot, update
from tests.spark.test_transactions import ONGOING

from headgate.domain.ids import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import SyncMark, save_sync_mark
from headgate.records.share_batches import StateBatch
from headgate.records.share_state import encode_share
from headgate.records.share_state_model import ShareRecord, ShareTombstone
from headgate.records.transactions import TransactionTombstone, encode_transaction
from headgate.spark.landing import TABLES, LandingFailed, LandingRefused, land
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import Gap, read_progress
from headgate.spark.source import SHARE_DELIVERIES_VIEW, TRANSACTIONS_VIEW

__all__ = ["broker"]

LOGS = {
    "transactions": (TRANSACTION_STATE_TOPIC, TRANSACTIONS_VIEW),
    "share_deliveries": (SHARE_STATE_TOPIC, SHARE_DELIVERIES_VIEW),
}


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files to the page cache, and small tables to one thread."""
    pa.set_cpu_count(1)
    monkeypatch.setattr("headgate.spark.landing.files.os.fsync", lambda descriptor: None)


@dataclass(slots=True)
class Coordinators:
    """A data directory with three logs."""

    groups: Broker
    transactions: Broker
    shares: Broker

    @classmethod
    def over(cls, groups: Broker) -> Coordinators:
        """Return the logs of a directory."""
        return cls(groups, *(groups.another_log(topic) for topic, _ in LOGS.values()))

    def write(self, step: int) -> None:
        """Append to each log, on a day of its own."""
        at = NOW + step * DAY_MS
        self.groups.append(0, [commit(step)])
        transactional = [Record(*encode_transaction(ONGOING), at)]
        transactional.append(Record(*encode_transaction(TransactionTombstone(f"id-{step}")), at + DAY_MS))
        self.transactions.append(step % 2, transactional)
        shared: list[ShareRecord] = [
            snapshot(step, 3),
            update(step, 4, StateBatch(5, 6, 4, step)),
            ShareTombstone(KEY),
        ]
        self.shares.append(step % 2, [Record(*encode_share(one), at) for one in shared])


def check(directory: Path, target: Path) -> None:
    """Check that the landed tables equal the readers' rows."""
    for table, (topic, view) in LOGS.items():
        assert rows(target, table) == rows_of(view, directory, topic)


def test_each_log_is_landed_from_its_own_end(broker: Broker, tmp_path: Path) -> None:
    """By default with all others; a log that does not exist yet is landed once it does."""
    target = tmp_path / "tables"
    landed = land(str(broker.directory), str(target))
    assert landed.ends == {where(0): 5, where(1): 2}
    logs = Coordinators.over(broker)
    logs.write(0)
    landed = land(str(broker.directory), str(target))
    assert {table: landed.rows[table] for table in LOGS} == {"transactions": 2, "share_deliveries": 3}
    assert landed.ends[TopicPartition(SHARE_STATE_TOPIC, 0)] == 3
    check(broker.directory, target)
    logs.write(1)
    landed = land(str(broker.directory), str(target))
    assert landed.rows["transactions"] == 2
    assert not landed.incomplete
    check(broker.directory, target)


def test_a_table_of_another_log_needs_no_group_coordinator(tmp_path: Path) -> None:
    """A directory with transactions alone; only the tables that were chosen are there."""
    source = Broker(tmp_path / "data")
    source.another_log(TRANSACTION_STATE_TOPIC).append(0, [Record(*encode_transaction(ONGOING), NOW)])
    target = tmp_path / "tables"
    assert land(str(source.directory), str(target), tables=["transactions"]).rows == {"transactions": 1}
    assert rows(target, "transactions") == rows_of(
        TRANSACTIONS_VIEW, source.directory, TRANSACTION_STATE_TOPIC
    )
    assert {file.name for file in target.iterdir()} == {"transactions", "_headgate"}


def test_a_run_killed_at_any_write_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is lost or duplicated, also with new records between the two runs."""
    logs = Coordinators.over(Broker(tmp_path / "data"))
    logs.write(0)
    logs.write(1)
    source = logs.groups.directory
    writes = kill_at_each_write(
        tmp_path,
        monkeypatch,
        lambda target: land(str(source), str(target), tables=list(LOGS)),
        lambda step: logs.write(step % 2),
        lambda target: check(source, target),
    )
    assert writes > 8


def test_a_log_whose_beginning_is_removed_has_a_gap_and_goes_on(tmp_path: Path) -> None:
    """The broker removes what no share-partition needs."""
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    shares.append(0, [Record(*encode_share(snapshot(0, 0)), NOW)] * 4)
    target = tmp_path / "tables"
    land(str(source.directory), str(target), tables=["share_deliveries"])
    before = rows(target, "share_deliveries")
    write_later(source.directory, 9)
    land(str(source.directory), str(target), tables=["share_deliveries"])
    assert [row["log_offset"] for row in rows(target, "share_deliveries")] == [0, 1, 2, 3, 9, 10]
    assert rows(target, "share_deliveries")[:4] == before
    progress = read_progress(Folder(str(target)))
    assert progress is not None
    (gap,) = progress.partitions[TopicPartition(SHARE_STATE_TOPIC, 0)].gaps
    assert (gap.start, gap.end) == (4, 9)
    assert isinstance(gap, Gap)


def write_later(directory: Path, base_offset: int) -> None:
    """Replace the log of share states by one whose first records were removed."""
    topic = SHARE_STATE_TOPIC
    for file in (directory / f"{topic}-0").glob("*.log"):
        file.unlink()
    record = Record(*encode_share(snapshot(1, 0)), NOW)
    write_segment(directory, topic, 0, [encode_batch([record, record], base_offset=base_offset)], base_offset)
    mark = SyncMark(0, base_offset, base_offset + 2)
    assert save_sync_mark(OsFileSystem(), directory / f"{topic}-0", mark)


def test_rows_that_were_written_before_the_log_lost_them_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is killed behind its files; the repeated one reads less, and keeps the rows of the first."""
    source = Broker(tmp_path / "data")
    shares = source.another_log(SHARE_STATE_TOPIC)
    shares.append(0, [Record(*encode_share(snapshot(0, 0)), NOW)] * 10)
    target = tmp_path / "tables"
    write, written = Folder.write, 0

    def dying(self: Folder, name: str, content: bytes) -> None:
        nonlocal written
        if "progress" in name and written:
            raise OSError("killed")
        written += name.endswith(".parquet")
        write(self, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", dying)
        with pytest.raises(OSError, match="killed"):
            land(str(source.directory), str(target), tables=["share_deliveries"])
    write_later(source.directory, 9)
    land(str(source.directory), str(target), tables=["share_deliveries"])
    assert [row["log_offset"] for row in rows(target, "share_deliveries")] == list(range(11))


def test_a_damaged_record_batch_is_never_passed_in_silence(tmp_path: Path) -> None:
    """Any flipped bit stops the landing, or is a gap: a batch that begins later may be there after one."""
    source = Broker(tmp_path / "data")
    source.another_log(TRANSACTION_STATE_TOPIC).append(0, [Record(*encode_transaction(ONGOING), NOW)])
    (file,) = source.directory.rglob("*.log")
    sound = file.read_bytes()
    for at in range(0, len(sound) * 8, 13):
        if 12 * 8 <= at < 16 * 8:
            continue  # the leader epoch, which no CRC covers
        damaged = bytearray(sound)
        damaged[at // 8] ^= 1 << at % 8
        file.write_bytes(damaged)
        target = tmp_path / f"tables{at}"
        try:
            assert land(str(source.directory), str(target), tables=["transactions"]).incomplete
            assert at < 8 * 8
        except (LandingFailed, LandingRefused, LookupError):
            pass
        assert rows(target, "transactions") == []


def test_files_of_an_earlier_release_are_merged_with_later_ones(broker: Broker, tmp_path: Path) -> None:
    """Rows from before have nulls in the columns that were added."""
    target = tmp_path / "tables"
    land(str(broker.directory), str(target), is_sampling=False)
    folder = Folder(str(target))
    for name in folder.names("group_events"):
        folder.write_table(name, folder.read_table(name).drop_columns(["initializing", "initialized"]))
    broker.append(0, [event()])
    expected = len(rows(target, "group_events")) + 1
    make_due(target)
    land(str(broker.directory), str(target), is_sampling=False)
    (file,) = folder.names("group_events/log_partition=0")
    merged = folder.read_table(file)
    assert merged.num_rows == expected
    assert merged["initialized"].null_count == expected


def test_the_tables_are_among_all() -> None:
    """A new target has them by default."""
    assert {*LOGS} <= {*TABLES}
