"""ConsumerProtocolAssignment: assignments that leaders write, and other bytes."""

from __future__ import annotations

import struct

import pytest
from tests.client.leaders import assignment

from headgate.client.assignment import read_assignment
from headgate.domain.ids import TopicName, TopicPartition


@pytest.mark.parametrize("version", [0, 1, 3])
def test_the_partitions_are_read_in_every_version(version: int) -> None:
    """The partitions are sorted, whatever their order in the bytes."""
    data = assignment(version, {"é": [2, 0], "a": [7]})
    expected = [("a", 7), ("é", 0), ("é", 2)]
    assert read_assignment(data) == tuple(TopicPartition(TopicName(topic), at) for topic, at in expected)


def test_a_member_without_an_assignment_has_no_partitions() -> None:
    """Both for empty bytes and for an empty list of topics."""
    assert read_assignment(b"") == ()
    assert read_assignment(assignment(0, {})) == ()


def test_a_truncated_assignment_is_unknown() -> None:
    """Truncated at every byte before the user data."""
    data = assignment(0, {"flights": [0, 1]}, b"")
    for cut in range(1, len(data)):
        assert read_assignment(data[:cut]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"not an assignment",
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hihi", 0, 1, 0, -1),
        b"\0\0\0\0\0\1\0\1\xff",
    ],
)
def test_other_bytes_are_unknown(data: bytes) -> None:
    """Groups of another protocol type have assignments in another format."""
    assert read_assignment(data) is None
