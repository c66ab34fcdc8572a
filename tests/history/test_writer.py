"""Records that compaction drops are in the history, whichever way they are offered."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.log.compacting import advance
from tests.server.disk import DATA_DIR, new_disk

from headgate.domain.ids import OFFSETS_HISTORY_TOPIC, GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.history.writer import HistoryWriter
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.log.log import Log
from headgate.log.record_columns import read_columns
from headgate.records import GroupMetadata, OffsetCommit, encode
from headgate.records.history import origin_of
from headgate.runtime.clock import Clock
from headgate.topics.topics import NewTopic, Topics

NOW = Millis(1_700_000_000_000)
groups = st.sampled_from(["g", "group" * 10, "g" * 9000]).map(GroupId)
commits = st.builds(
    lambda group, partition, offset, metadata: OffsetCommit(
        group, TopicName("t"), partition, offset, -1, metadata, NOW
    ),
    groups,
    st.integers(0, 9),
    st.integers(0, 2**60),
    st.sampled_from(["", "note", "m" * 300]),
)
others = st.sampled_from([GroupMetadata(GroupId("g"), "consumer", 1, "range", None, NOW)])
mixed = st.lists(st.one_of(commits, commits, others), min_size=1, max_size=90)
alike = st.lists(st.tuples(commits, st.integers(1, 200)), min_size=1, max_size=3).map(
    lambda pairs: [commit for commit, count in pairs for _ in range(count)]
)
changes = st.one_of(mixed, alike)


def moved(log: Log) -> list[tuple[bytes | None, bytes | None, object]]:
    """Return key, value and origin of all records in a history, without its mark."""
    found = [record for _, batch in log.batches() for _, record in iterate_records(batch)]
    return [(record.key, record.value, origin_of(record.headers)) for record in found[1:]]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(changes, min_size=1, max_size=4), st.integers(0, 5))
def test_records_offered_as_columns_are_those_offered_one_by_one(
    turns: list[list[object]], apart: int
) -> None:
    """Key, value, original offset and time are equal; records that are not offsets are skipped."""
    files = new_disk()
    topics = Topics.open(files, DATA_DIR, Settings({}), NOW)
    topic = topics.create(NewTopic(OFFSETS_HISTORY_TOPIC, TopicId(b"h" * 16), 2), NOW)
    assert topic is topics.by_name(OFFSETS_HISTORY_TOPIC)
    assert topic is not None
    by_columns, one_by_one = (HistoryWriter(topic.partition(at), Clock(), is_first=True) for at in range(2))
    offset = 5
    for turn in turns:
        records = [Record(*encode(change), NOW + at * apart) for at, change in enumerate(turn)]  # type: ignore[arg-type]
        batch = encode_batch(records, base_offset=offset)
        columns = read_columns([(read_header(batch), batch)])
        assert columns is not None
        half = len(records) // 2
        by_columns.offer_columns(columns, range(half))
        by_columns.offer_columns(columns, range(half, len(records)))
        for at, record in enumerate(records):
            one_by_one.offer(offset + at, record)
        offset += len(records)
    for writer in (by_columns, one_by_one):
        steps = writer.settle()
        try:
            while True:
                advance(steps)
        except StopIteration:
            pass
    first, second = (moved(topic.partition(at).log) for at in range(2))
    assert first == second
    assert len(first) == sum(isinstance(change, OffsetCommit) for turn in turns for change in turn)
