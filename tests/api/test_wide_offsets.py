"""Commits and fetches of many partitions, in every version: the same answers as for single partitions."""

from __future__ import annotations

import pytest
from tests.api.node import OneNode
from tests.api.offset_requests import commit, fetch

from headgate.domain.errors import ErrorCode

WIDTH = 200
COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_wide_commit_stores_each_partitions_offset(version: int) -> None:
    """The first and repeated ones, in order and out of order."""
    node = OneNode({"t": WIDTH})
    upward, downward = list(range(WIDTH)), list(range(WIDTH - 1, -1, -1))
    for base, indexes in ((0, upward), (1000, upward), (2000, downward), (3000, downward)):
        assert commit(node, version, base, indexes) == [(index, 0) for index in indexes]
        for fetch_version in FETCH_VERSIONS:
            for asked in (upward, downward, upward[:3], upward[5:90]):
                assert fetch(node, fetch_version, asked) == [(index, base + index, "", 0) for index in asked]


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_an_unknown_partition_of_a_wide_commit_fails_alone(version: int) -> None:
    """The others are committed."""
    node = OneNode({"t": WIDTH})
    indexes = [*range(40), WIDTH, -1]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(node, version, 7, indexes) == [
        (index, unknown if index in (WIDTH, -1) else 0) for index in indexes
    ]
    assert fetch(node, 8, indexes[:40]) == [(index, 7 + index, "", 0) for index in range(40)]


def test_metadata_of_a_wide_commit_is_kept_and_limited() -> None:
    """Every partition returns it; too long, it fails every partition and nothing changes."""
    node = OneNode({"t": WIDTH}, offset_metadata_max_bytes="5")
    indexes = list(range(50))
    commit(node, 8, 0, indexes)
    commit(node, 8, 100, indexes, "12345")
    assert fetch(node, 8, indexes) == [(index, 100 + index, "12345", 0) for index in indexes]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(node, 8, 200, indexes, "123456") == [(index, too_large) for index in indexes]
    assert fetch(node, 8, indexes) == [(index, 100 + index, "12345", 0) for index in indexes]
    commit(node, 8, 300, indexes)
    assert fetch(node, 8, indexes) == [(index, 300 + index, "", 0) for index in indexes]


def test_a_refused_wide_commit_refuses_every_partition() -> None:
    """A generation of an unknown group is an error of each partition, and nothing is stored."""
    node = OneNode({"t": WIDTH})
    indexes = list(range(30))
    answers = commit(node, 9, 0, indexes, generation_id_or_member_epoch=3)
    assert answers == [(index, ErrorCode.GROUP_ID_NOT_FOUND) for index in indexes]
    assert fetch(node, 9, indexes) == [(index, -1, "", 0) for index in indexes]
