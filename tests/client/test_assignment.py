"""ConsumerProtocolAssignment: what leaders write, and what is something else."""

from __future__ import annotations

import struct

import pytest
from tests.client.leaders import assignment

from headgate.client.assignment import read_assignment
from headgate.domain.ids import TopicName, TopicPartition


@pytest.mark.parametrize("version", [0, 1, 3])
def test_the_partitions_are_read_in_every_version(version: int) -> None:
    """In order, whatever order they were written in."""
    data = assignment(version, {"é": [2, 0], "a": [7]})
    expected = [("a", 7), ("é", 0), ("é", 2)]
    assert read_assignment(data) == tuple(TopicPartition(TopicName(topic), at) for topic, at in expected)


def test_a_member_without_an_assignment_reads_nothing() -> None:
    """Empty bytes, or an empty list."""
    assert read_assignment(b"") == ()
    assert read_assignment(assignment(0, {})) == ()


def test_what_is_cut_short_is_not_known() -> None:
    """At every byte of the part that matters."""
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
def test_what_is_no_assignment_is_not_known(data: bytes) -> None:
    """Whatever a group of something else keeps there."""
    assert read_assignment(data) is None
