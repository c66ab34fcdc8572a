"""The history of offsets in the log tools: it is described, and invalid records are found."""

from __future__ import annotations

import json
from pathlib import Path

from tests.history.past import Life, Past, SetClock
from tests.inspect.support import NOW, errors, open_topics
from typer.testing import CliRunner

from headgate.cli import app
from headgate.domain.ids import OFFSETS_HISTORY_TOPIC, GroupId, Millis, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.records import GroupTombstone, OffsetCommit, encode
from headgate.records.history import Origin
from headgate.server.identity import cluster_id

HISTORY = f"{OFFSETS_HISTORY_TOPIC}-0"


def compacted(data_dir: Path) -> Life:
    """Build a directory whose log of offsets was compacted."""
    data_dir.mkdir()
    topics = open_topics(data_dir)
    cluster_id(OsFileSystem(), topics, NOW)
    topics.close()
    life = Life(OsFileSystem(), SetClock(), data_dir=data_dir)
    for at in range(60):
        life.clock.time = Millis(life.clock.time + 1000)
        life.commit(at, [0, 1], Past())
    assert life.compact()
    return life


def test_a_moved_record_is_explained_with_its_origin(tmp_path: Path) -> None:
    """Its meaning is that of a record of the log. The first record is a mark."""
    life = compacted(tmp_path / "data")
    life.end()
    life.topics.close()
    assert errors(tmp_path / "data") == []
    asked = ["log", "dump", str(tmp_path / "data"), "--topic", OFFSETS_HISTORY_TOPIC, "--records"]
    (partition,) = json.loads(CliRunner().invoke(app, [*asked, "--output", "json"]).stdout)["partitions"]
    mark, first, *_ = (record for batch in partition["batches"] for record in batch["records"])
    assert mark["meaning"]["kind"] == "history-mark"
    assert mark["origin"] is None
    assert first["origin"] == {"offset": 0, "timestamp": first["meaning"]["commit_timestamp"]}
    assert (first["meaning"]["kind"], first["meaning"]["offset"]) == ("offset-commit", 0)
    printed = CliRunner().invoke(app, asked).stdout
    assert "mark: the history is complete" in printed
    assert "origin: offset 3 at" in printed


def test_invalid_records_of_the_history_are_found(tmp_path: Path) -> None:
    """A record without an origin, one that is not an offset, one that cannot be decoded."""
    life = compacted(tmp_path / "data")
    key, value = encode(OffsetCommit(GroupId("g"), TopicName("t"), 0, 1, 0, "", Millis(1)))
    origin = (Origin(5, 5).header(),)
    wrong = [
        Record(key, value, 1),
        Record(*encode(GroupTombstone(GroupId("g"))), 1, origin),
        Record(key, b"nothing", 1, origin),
    ]
    life.moved.append_internal([encode_batch(wrong)])
    life.end()
    life.topics.close()
    problems = [found.what for found in errors(tmp_path / "data")]
    assert ["does not have its offset" in problems[0], "not the record of an offset" in problems[1]] == [
        True,
        True,
    ]
    assert len(problems) == 3
