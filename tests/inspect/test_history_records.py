"""What the check of a data directory accepts as a record of the history of offsets."""

from __future__ import annotations

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.inspect.history_records import why_no_history
from headgate.log.batch import Record
from headgate.records import ChangeAuthor, GroupTombstone, OffsetCommit, encode
from headgate.records import Record as LogRecord
from headgate.records.history import Origin

GROUP, TOPIC = GroupId("g"), TopicName("t")


def moved(record: LogRecord) -> Record:
    """Return a record as compaction moves it into the history."""
    return Record(*encode(record), 1_000, (Origin(7, 900).header(),))


def test_offsets_and_the_authors_of_changes_are_records_of_the_history() -> None:
    """With their place in the log; nothing else is moved."""
    author = ChangeAuthor(GROUP, TOPIC, 1, 1, "ann", "/10.0.0.7")
    assert why_no_history(moved(OffsetCommit(GROUP, TOPIC, 0, 5, -1, "", Millis(900)))) is None
    assert why_no_history(moved(author)) is None
    assert why_no_history(Record(*encode(author), 1_000)) == "it does not have its offset in the log"
    assert "author" in (why_no_history(moved(GroupTombstone(GROUP))) or "")
