"""Wide commits with different partitions: columns give the same results as single partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.node import OneNode, topic_id_of
from tests.api.offset_requests import fetch

from headgate.api import k08_offset_commit
from headgate.core.offsets import commit
from headgate.domain.errors import ErrorCode
from headgate.wire import wide_reading
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PARTITIONS = 60
EVERYWHERE = list(range(PARTITIONS))
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(autouse=True, scope="module")
def reads_few_in_columns() -> Iterator[None]:
    """A few partitions that are not alike are enough for columns, read and recorded."""
    with (
        patch.object(wide_reading, "NARROWEST_MIXED", 24),
        patch.object(commit, "NARROWEST_ROWS", 24),
    ):
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """No array is read in columns."""
    with (
        patch.object(wide_reading, "_read_alike", lambda *_: None),
        patch.object(wide_reading, "_read_mixed", lambda *_: None),
    ):
        yield


offsets = st.integers(-1, 1)


@st.composite
def partitions(draw: st.DrawFn) -> list[OffsetCommitRequestPartition]:
    """Enough for columns: some may be unknown, named twice, removed, have conditions or metadata."""
    indexes = st.integers(0, PARTITIONS - 1)
    if draw(st.booleans()):
        indexes = st.one_of(indexes, st.sampled_from([-1, PARTITIONS]))
    choices: list[list[str | None]] = [[""], ["m"], [None, ""], ["m", "ä", "longer", None], ["m", "m" * 9]]
    texts = draw(st.sampled_from(choices))
    may_hold = st.sampled_from([None, -1])
    expected = draw(st.sampled_from([st.none(), may_hold, may_hold, st.none() | offsets, offsets]))
    some = st.builds(
        OffsetCommitRequestPartition,
        partition_index=indexes,
        committed_offset=offsets,
        committed_leader_epoch=st.integers(-1, 1),
        committed_metadata=st.sampled_from(texts),
        expected_offset=expected,
    )
    return draw(st.lists(some, min_size=40, max_size=60))


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, OffsetCommitRequest]:
    """A commit and its version; one topic may be unknown, and the group may refuse it."""
    names = draw(st.sampled_from([["t"], ["t", "u"], ["t", "nowhere"], ["nowhere", "t"]]))
    topics = [
        OffsetCommitRequestTopic(name=name, topic_id=topic_id_of(name), partitions=draw(partitions()))
        for name in names
    ]
    generation = draw(st.sampled_from([-1, -1, -1, 3]))
    request = OffsetCommitRequest(group_id="g", topics=topics, generation_id_or_member_epoch=generation)
    return draw(st.sampled_from(range(2, 11))), request


@settings(deadline=None, max_examples=25)
@given(st.lists(requests(), min_size=1, max_size=4))
def test_commits_in_columns_equal_commits_one_by_one(
    history: list[tuple[int, OffsetCommitRequest]],
) -> None:
    """The same responses, and the same offsets and metadata afterwards."""
    nodes = [OneNode({"t": PARTITIONS, "u": PARTITIONS}, offset_metadata_max_bytes="6") for _ in range(2)]
    for version, request in history:
        answer = nodes[0].ask(k08_offset_commit.API, request, version)
        with one_by_one():
            assert nodes[1].ask(k08_offset_commit.API, request, version) == answer
        assert fetch(nodes[0], 9, EVERYWHERE) == fetch(nodes[1], 9, EVERYWHERE)


def commit_with(node: OneNode, metadata: list[str], indexes: list[int]) -> list[int]:
    """Commit each partition with metadata of its own; the errors."""
    rows = zip(indexes, metadata, strict=True)
    some = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata=text)
        for index, text in rows
    ]
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", topic_id=topic_id_of("t"), partitions=some)]
    )
    response = node.ask(k08_offset_commit.API, request, 9)
    return [one.error_code for one in response.topics[0].partitions]


def test_too_long_metadata_fails_its_partition_only() -> None:
    """The others of a wide commit are stored with their own metadata (R3.2)."""
    node = OneNode({"t": PARTITIONS}, offset_metadata_max_bytes="5")
    texts = ["m" * (index % 7) for index in EVERYWHERE]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit_with(node, texts, EVERYWHERE) == [too_large if len(text) > 5 else 0 for text in texts]
    kept = [(index, index, text, 0) for index, text in enumerate(texts) if len(text) <= 5]
    gone = [(index, -1, "", 0) for index, text in enumerate(texts) if len(text) > 5]
    assert fetch(node, 9, EVERYWHERE) == sorted(kept + gone)


@pytest.mark.parametrize("elsewhere", [PARTITIONS, -1, 2**31 - 1])
def test_an_unknown_partition_fails_alone_at_any_position(elsewhere: int) -> None:
    """Errors of metadata are those of their partitions, too."""
    node = OneNode({"t": PARTITIONS}, offset_metadata_max_bytes="5")
    indexes = [elsewhere, *EVERYWHERE[:40], elsewhere]
    texts = ["m"] * 20 + ["too long"] + ["m"] * 21
    assert commit_with(node, texts, indexes) == [
        UNKNOWN,
        *[0] * 19,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        *[0] * 20,
        UNKNOWN,
    ]
