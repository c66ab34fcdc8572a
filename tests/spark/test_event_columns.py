"""Every record of the coordinator's log except offset commits is an event, and none is dropped."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.spark.coordinator_records import ASSIGNMENT, COMMIT, GROUP, NOW
from tests.spark.support import rows_of, write_segment

from headgate.domain.ids import GroupId, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.records import ChangeAuthor, GroupMetadata, GroupTombstone, encode
from headgate.records import Record as LogRecord
from headgate.spark.event_columns import assigned_partitions
from headgate.spark.source import GROUP_EVENTS_VIEW, OFFSET_COMMITS_VIEW

TOPIC = "__consumer_offsets"


def events(directory: Path, records: list[Record], **options: Any) -> list[dict[str, Any]]:
    """Return the events of a log of these records."""
    write_segment(directory, TOPIC, 0, [encode_batch(records, **options)])
    return rows_of(GROUP_EVENTS_VIEW, directory, TOPIC)


def record(what: LogRecord) -> Record:
    """Return a record as the coordinator writes it."""
    return Record(*encode(what), NOW)


def test_a_generation_shows_its_members_and_what_each_reads(tmp_path: Path) -> None:
    """The record's fields become columns, and the assignment is decoded."""
    (event,) = events(tmp_path, [record(GROUP)])
    assert event["event"] == "assigned"
    assert (event["record_type"], event["record_name"], event["group_id"]) == (2, "GroupMetadata", "g")
    assert (event["generation"], event["protocol"], event["leader"]) == (4, "range", "m-1")
    assert event["state_timestamp"].timestamp() * 1000 == NOW
    (member,) = event["members"]
    assert member["group_instance_id"] == "i-1"
    assert member["session_timeout_ms"] == 45_000
    assert member["subscription"] == b"sub"
    assert [(one["topic"], one["partition"]) for one in member["assigned"]] == [("a", 0), ("a", 3), ("b", 7)]
    assert event["key"] is event["value"] is None


def test_emptied_and_removed_groups_are_distinguished(tmp_path: Path) -> None:
    """A group without members still exists; a tombstone removes it."""
    empty = GroupMetadata(GroupId("g"), "consumer", 5, None, None, NOW)
    emptied, removed = events(tmp_path, [record(empty), record(GroupTombstone(GroupId("g")))])
    assert (emptied["event"], emptied["members"], emptied["is_tombstone"]) == ("emptied", [], False)
    assert (removed["event"], removed["members"], removed["is_tombstone"]) == ("removed", None, True)


def test_an_administrators_change_of_offsets_tells_who_made_it(tmp_path: Path) -> None:
    """With the topic; the offsets themselves are commits."""
    author = ChangeAuthor(GroupId("g"), TopicName("a"), 1, 1, "headgate-ann@desk", "/10.0.0.7")
    (event,) = events(tmp_path, [record(COMMIT), record(author)])
    assert (event["event"], event["record_name"], event["group_id"]) == (
        "offsets_changed",
        "ChangeAuthor",
        "g",
    )
    assert (event["client_id"], event["client_host"]) == ("headgate-ann@desk", "/10.0.0.7")
    assert event["topics"] == ["a"]
    assert event["key"] is event["value"] is None


def test_records_of_other_types_keep_their_bytes(tmp_path: Path) -> None:
    """They have a name if Kafka's schemas have one, and the group id at the start of every such key."""
    streams_group: tuple[bytes, bytes | None] = (struct.pack(">hh", 17, 2) + b"g2", b"v")
    unheard_of = struct.pack(">h", 4711) + b"whatever"
    written = [streams_group, (unheard_of, None)]
    rows = events(tmp_path, [Record(key, value, NOW) for key, value in written])
    assert [row["record_name"] for row in rows] == ["StreamsGroupMetadata", None]
    assert [row["group_id"] for row in rows] == ["g2", None]
    assert [row["event"] for row in rows] == ["other", "other"]
    assert [(row["key"], row["value"]) for row in rows] == written
    assert [row["is_tombstone"] for row in rows] == [False, True]


def test_malformed_records_keep_their_bytes(tmp_path: Path) -> None:
    """A truncated group record, a truncated offset commit, a missing key: three rows."""
    key, value = encode(GROUP)
    commit_key, commit_value = encode(COMMIT)
    assert value is not None
    assert commit_value is not None
    rows = events(
        tmp_path,
        [Record(key, value[:-1], NOW), Record(commit_key, commit_value[:-1], NOW), Record(None, b"x", NOW)],
    )
    assert [row["event"] for row in rows] == ["malformed"] * 3
    assert [row["record_type"] for row in rows] == [2, 1, None]
    assert [row["value"] for row in rows] == [value[:-1], commit_value[:-1], b"x"]


def test_transaction_markers_are_events(tmp_path: Path) -> None:
    """A control batch names the producer whose pending commits take effect."""
    commit, abort = Record(b"\x00\x00\x00\x01", b"v", NOW), Record(b"\x00\x00\x00\x00", b"v", NOW)
    write_segment(
        tmp_path,
        TOPIC,
        0,
        [
            encode_batch([commit], producer_id=9, is_transactional=True, is_control=True),
            encode_batch([abort], base_offset=1, producer_id=10, is_transactional=True, is_control=True),
        ],
    )
    rows = rows_of(GROUP_EVENTS_VIEW, tmp_path, TOPIC)
    assert [row["event"] for row in rows] == ["transaction_committed", "transaction_aborted"]
    assert [row["producer_id"] for row in rows] == [9, 10]
    assert rows_of(OFFSET_COMMITS_VIEW, tmp_path, TOPIC) == []


def test_every_record_is_in_exactly_one_of_the_two_tables(tmp_path: Path) -> None:
    """Offset commits and events together are the whole log."""
    records = [
        record(COMMIT),
        record(GROUP),
        Record(b"\x00\x63", b"", NOW),
        record(COMMIT),
        Record(b"", b"", NOW),
    ]
    found = {row["log_offset"] for row in events(tmp_path, records)}
    commits = {row["log_offset"] for row in rows_of(OFFSET_COMMITS_VIEW, tmp_path, TOPIC)}
    assert (found, commits) == ({1, 2, 4}, {0, 3})


def test_an_assignment_of_another_format_is_not_guessed_at() -> None:
    """Null means an unknown format; an empty assignment has no partitions."""
    assert assigned_partitions(b"") == []
    for size in range(6, len(ASSIGNMENT) - 4):
        assert assigned_partitions(ASSIGNMENT[:size]) is None
    assert assigned_partitions(b"\x00\x01\xff\xff\xff") is None
    going_back = struct.pack(">hi", 0, 2**31 - 1) + struct.pack(">h", 0) + struct.pack(">i", -1)
    assert assigned_partitions(going_back + bytes(10)) is None
    assert assigned_partitions(struct.pack(">hih", 0, 2**31 - 1, -6) + bytes(14)) is None
