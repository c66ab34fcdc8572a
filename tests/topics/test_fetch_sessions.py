"""Fetch sessions against a table of refusals and a model of what the client knows."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.topics import fetch_sessions
from headgate.topics.fetch_sessions import (
    EVICTION_MS,
    FetchContext,
    FetchedPartition,
    FetchSessions,
    PartitionOutcome,
    RequestedPartition,
    SessionRequest,
)

NOW = Millis(0)


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, itertools.count(1).__next__)


def key(index: int) -> RequestedPartition:
    return RequestedPartition("t", index)


def wanted(*indexes: int, offset: int = 0) -> list[FetchedPartition]:
    return [FetchedPartition(key(index), offset, 100) for index in indexes]


def begin(
    table: FetchSessions, session_id: int, epoch: int, *indexes: int, now: int = 0
) -> FetchContext | ErrorCode:
    return table.begin(SessionRequest(session_id, epoch, False, wanted(*indexes)), Millis(now))


def started(table: FetchSessions, *indexes: int, now: int = 0) -> int:
    """Start a session of these partitions; return its id, or 0 if there is none."""
    context = begin(table, 0, 0, *indexes, now=now)
    assert isinstance(context, FetchContext)
    return context.session_id


REFUSALS = [
    ("unknown session", 99, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ("epoch skipped", 1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ("negative epoch", 1, -2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ("names to ids", 1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
]


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_a_request_that_contradicts_its_session_is_refused(
    session_id: int, epoch: int, by_id: bool, error: ErrorCode
) -> None:
    """The session continues unchanged."""
    table = sessions()
    assert started(table, 0) == 1
    assert table.begin(SessionRequest(session_id, epoch, by_id, []), NOW) == error
    assert isinstance(begin(table, 1, 1), FetchContext)


def in_steps(
    table: FetchSessions,
    epoch: int,
    new: list[FetchedPartition],
    forgotten: Iterable[RequestedPartition] = (),
) -> Generator[None, None, FetchContext | ErrorCode]:
    return table.begin_in_steps(SessionRequest(min(epoch, 1), epoch, False, new, forgotten), NOW)


def run_steps(steps: Generator[None, None, FetchContext | ErrorCode]) -> tuple[int, FetchContext | ErrorCode]:
    """Return the number of steps, and their result."""
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as stop:
            return count, stop.value
    raise AssertionError


def test_many_partitions_are_added_and_removed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ends up as it would without steps."""
    monkeypatch.setattr(fetch_sessions, "_TAKEN_AT_ONCE", 10)
    table = sessions()
    count, context = run_steps(in_steps(table, 0, wanted(*range(40))))
    assert isinstance(context, FetchContext)
    assert (count, context.session_id, len(context)) == (4, 1, 40)
    count, context = run_steps(in_steps(table, 1, wanted(*range(35, 55)), map(key, range(30))))
    assert isinstance(context, FetchContext)
    assert count == 5
    assert [one.key.partition for one in context.partitions()] == [*range(30, 55)]
    assert run_steps(in_steps(table, 1, [])) == (0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert isinstance(begin(table, 1, 2), FetchContext)


def test_changes_between_steps_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step advances the epoch; the partitions of a session closed meanwhile are not counted."""
    monkeypatch.setattr(fetch_sessions, "_TAKEN_AT_ONCE", 10)
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 50)
    table = sessions()
    started(table, 0)
    steps = in_steps(table, 1, wanted(*range(40)))
    next(steps)
    assert begin(table, 1, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    begin(table, 1, -1)
    assert run_steps(steps)[1] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert started(table, *range(50))
    assert not started(table, 0)


def test_epochs_count_up_and_an_old_one_is_refused() -> None:
    """A repeated request is refused."""
    table = sessions()
    started(table, 0)
    assert isinstance(begin(table, 1, 1), FetchContext)
    assert begin(table, 1, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(begin(table, 1, 2), FetchContext)


def test_the_epoch_after_the_last_is_one() -> None:
    """2^31-1 is followed by 1: 0 would start a new session."""
    table = sessions()
    started(table, 0)
    table._sessions[1].next_epoch = (1 << 31) - 1
    assert isinstance(begin(table, 1, (1 << 31) - 1), FetchContext)
    assert isinstance(begin(table, 1, 1), FetchContext)


def test_epoch_minus_one_ends_a_session() -> None:
    """The request is answered without a session."""
    table = sessions()
    started(table, 0)
    context = begin(table, 1, -1, 0)
    assert isinstance(context, FetchContext)
    assert (context.session_id, len(context), len(table)) == (0, 1, 0)


def test_epoch_zero_replaces_a_session() -> None:
    """The old one is closed, the new one has another id."""
    table = sessions()
    started(table, 0)
    context = begin(table, 1, 0, 0)
    assert isinstance(context, FetchContext)
    assert context.session_id == 2
    assert [session_id for session_id in (1, 2) if table.topics_of(session_id)] == [2]


def test_a_session_without_partitions_is_closed() -> None:
    """The response has no session id."""
    table = sessions()
    started(table, 0)
    context = table.begin(SessionRequest(1, 1, False, [], [key(0)]), NOW)
    assert isinstance(context, FetchContext)
    assert (context.session_id, len(table)) == (0, 0)


def test_a_request_without_partitions_gets_no_session() -> None:
    """There is nothing to keep."""
    assert started(sessions()) == 0


@pytest.mark.parametrize(
    ("size", "now", "gets_one"),
    [
        (1, 0, False),
        (3, 0, False),
        (1, EVICTION_MS + 1, True),
        (2, EVICTION_MS, False),
    ],
    ids=["smaller", "larger", "idle for long enough", "idle for not quite long enough"],
)
def test_an_idle_session_is_replaced_when_all_slots_are_taken(size: int, now: int, gets_one: bool) -> None:
    """A young one is not."""
    table = sessions(slots=1)
    started(table, 0, 1)
    assert (started(table, *range(size), now=now) != 0) is gets_one
    assert len(table) == 1


def test_an_old_session_is_replaced_only_by_a_larger_one() -> None:
    """After its first two minutes the smallest one can be replaced, though it is in use."""
    table = sessions(slots=2)
    started(table, 0, 1)
    started(table, 0, 1, 2)
    later = EVICTION_MS + 1
    for session_id in (1, 2):
        assert isinstance(begin(table, session_id, 1, now=later - 5), FetchContext)
    assert started(table, 0, 1, now=later) == 0
    assert started(table, 0, 1, 2, now=later) == 3
    assert [session_id for session_id in (1, 2, 3) if table.topics_of(session_id)] == [2, 3]


def test_zero_slots_disable_sessions() -> None:
    """max.incremental.fetch.session.cache.slots=0 disables sessions."""
    assert started(sessions(slots=0), 0) == 0


states = st.tuples(st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(st.dictionaries(st.integers(0, 3), states, min_size=4, max_size=4), min_size=1, max_size=12))
def test_omitted_results_are_those_the_client_has(
    rounds: list[dict[int, tuple[bool, bool, int, int]]],
) -> None:
    """A response omits only what was sent last; errors are never omitted."""
    table = sessions()
    client: dict[int, tuple[int, int]] = {}
    for epoch, truth in enumerate(rounds):
        context = begin(table, min(epoch, 1), epoch, *(range(4) if epoch == 0 else ()))
        assert isinstance(context, FetchContext)
        for partition in context.partitions():
            index = partition.key.partition
            has_records, has_error, watermark, start = truth[index]
            error = ErrorCode.KAFKA_STORAGE_ERROR if has_error else ErrorCode.NONE
            outcome = PartitionOutcome(has_records and not has_error, error, watermark, start)
            if context.settle(outcome, partition):
                client[index] = (watermark, start)
            else:
                assert not has_error
                assert not has_records
                assert client[index] == (watermark, start)


@given(st.lists(st.sets(st.integers(0, 4)), max_size=12))
def test_partitions_that_returned_records_move_to_the_end(rounds: list[set[int]]) -> None:
    """The order is that of their last records, oldest first."""
    table = sessions()
    expected = list(range(5))
    for epoch, givers in enumerate(rounds):
        context = begin(table, min(epoch, 1), epoch, *(range(5) if epoch == 0 else ()))
        assert isinstance(context, FetchContext)
        order = [partition.key.partition for partition in context.partitions()]
        assert order == expected
        for partition in context.partitions():
            gives = partition.key.partition in givers
            context.settle(PartitionOutcome(gives, ErrorCode.NONE, 1, 0), partition)
        expected = [one for one in order if one not in givers] + [one for one in order if one in givers]


def test_all_sessions_together_hold_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request beyond the limit gets no session, or loses it; idle sessions are removed for it, and closed
    ones are not counted.
    """
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 6)
    table = sessions()
    first, second = started(table, 0, 1, 2), started(table, 0, 1)
    assert started(table, 0, 1) == 0
    assert isinstance(begin(table, second, 1, 2), FetchContext), "the sixth"
    assert begin(table, second, 2, 3) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(table) == 1
    third = started(table, 0, 1, 2)
    assert third != 0
    begin(table, third, -1)
    assert isinstance(begin(table, first, 1, now=EVICTION_MS), FetchContext)
    fourth = started(table, 0, 1, 2, now=EVICTION_MS)
    assert started(table, 0, 1, now=2 * EVICTION_MS) == 0
    assert isinstance(begin(table, fourth, 1, now=2 * EVICTION_MS), FetchContext)
    assert started(table, 0, 1, now=2 * EVICTION_MS + 1) != 0, "the first was idle"
