"""The error messages of the Admin API."""

from __future__ import annotations

import pickle

import pytest

from headgate.admin import (
    AlreadyUndone,
    ClientError,
    NoNodeReachable,
    OffsetsMoved,
    PartlyRefused,
    RequestRefused,
)
from headgate.admin.errors import NotReleased, moment
from headgate.client.pauses import PausedPartition, PauseState
from headgate.domain.ids import GroupId, Millis, TopicName, TopicPartition


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (9_300_000_000_000, "2264-09-14T21:20:00.000Z"),
        (253_402_300_800_000, "253402300800000"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_time_out_of_range_is_shown_as_a_number(time: int, text: str) -> None:
    """A commit timestamp can have any value, if the clock was wrong."""
    assert moment(Millis(time)) == text


def test_a_partial_refusal_has_a_type_without_that_of_its_parts() -> None:
    """A strict type checker accepts the annotation, and `except PartlyRefused as partly`."""
    partly: PartlyRefused = PartlyRefused({"audit": RequestRefused("topic audit", 3)})
    assert list(partly.refused) == ["audit"]


def test_partitions_that_no_member_holds_are_told_with_the_reason() -> None:
    """Of a share group: their dead letters cannot be written, for example."""
    held, unowned = (
        PausedPartition(
            partition=TopicPartition(TopicName("t"), index),
            topic_id="A" * 22,
            state=PauseState.PAUSING,
            owner=owner,
            since=Millis(0),
            caller="",
            reason="",
            offset=None,
        )
        for index, owner in enumerate(["ann", None])
    )
    assert str(NotReleased("g", [held], 1)) == "group g: not released after 1 s: t-0; owned by ann"
    message = str(NotReleased("g", [unowned], 1))
    assert message.startswith(
        "group g: not released after 1 s: t-1; no member has records of t-1, but dead letters"
    )
    assert "owned by ann; no member has records of t-1" in str(NotReleased("g", [held, unowned], 1))


_FIRST = TopicPartition(TopicName("t"), 0)


@pytest.mark.parametrize(
    "error",
    [
        NoNodeReachable("no connection to 127.0.0.1:1: Connection refused"),
        RequestRefused("topic t", 3, "There is none."),
        PartlyRefused({_FIRST: RequestRefused("offset in t-0", 3)}),
        OffsetsMoved(GroupId("g"), {_FIRST: 5}, {_FIRST: 4}),
        NotReleased("g", [], 1.5),
        AlreadyUndone("g", Millis(2), Millis(1)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_get_out_of_another_process(error: ClientError) -> None:
    """With message, attributes and notes: a pool of processes pickles what its workers raise."""
    error.add_note("while resetting")
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert repr(vars(found)) == repr(vars(error))
