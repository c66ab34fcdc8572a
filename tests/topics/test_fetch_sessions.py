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
    """The id of a new session over these partitions; 0 when it got none."""
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
def test_a_request_that_does_not_fit_its_session(
    session_id: int, epoch: int, by_id: bool, error: ErrorCode
) -> None:
    """It is refused, and the session goes on as if it had not come."""
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


def taken(steps: Generator[None, None, FetchContext | ErrorCode]) -> tuple[int, FetchContext | ErrorCode]:
    """How many steps there were, and what they came to."""
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as stop:
            return count, stop.value
    raise AssertionError


def test_many_partitions_are_taken_and_forgotten_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes some; the session has in the end what it would have had at once."""
    monkeypatch.setattr(fetch_sessions, "_TAKEN_AT_ONCE", 10)
    table = sessions()
    count, context = taken(in_steps(table, 0, wanted(*range(40))))
    assert isinstance(context, FetchContext)
    assert (count, context.session_id, len(context)) == (4, 1, 40)
    count, context = taken(in_steps(table, 1, wanted(*range(35, 55)), map(key, range(30))))
    assert isinstance(context, FetchContext)
    assert count == 5
    assert [one.key.partition for one in context.partitions()] == [*range(30, 55)]
    assert taken(in_steps(table, 1, [])) == (0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert isinstance(begin(table, 1, 2), FetchContext)


def test_what_happens_between_steps_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch is used up by the first step; of a session that is closed meanwhile nothing is counted."""
    monkeypatch.setattr(fetch_sessions, "_TAKEN_AT_ONCE", 10)
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 50)
    table = sessions()
    started(table, 0)
    steps = in_steps(table, 1, wanted(*range(40)))
    next(steps)
    assert begin(table, 1, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    begin(table, 1, -1)
    assert taken(steps)[1] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert started(table, *range(50))
    assert not started(table, 0)


def test_epochs_count_up_and_an_old_one_is_refused() -> None:
    """A request sent twice is not answered twice."""
    table = sessions()
    started(table, 0)
    assert isinstance(begin(table, 1, 1), FetchContext)
    assert begin(table, 1, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(begin(table, 1, 2), FetchContext)


def test_the_epoch_after_the_last_is_one() -> None:
    """2^31-1 is followed by 1: 0 would begin a new session."""
    table = sessions()
    started(table, 0)
    table._sessions[1].next_epoch = (1 << 31) - 1
    assert isinstance(begin(table, 1, (1 << 31) - 1), FetchContext)
    assert isinstance(begin(table, 1, 1), FetchContext)


def test_epoch_minus_one_ends_a_session() -> None:
    """The client says goodbye and fetches without one."""
    table = sessions()
    started(table, 0)
    context = begin(table, 1, -1, 0)
    assert isinstance(context, FetchContext)
    assert (context.session_id, len(context), len(table)) == (0, 1, 0)


def test_epoch_zero_replaces_a_session() -> None:
    """The old one is gone, the new one has another id."""
    table = sessions()
    started(table, 0)
    context = begin(table, 1, 0, 0)
    assert isinstance(context, FetchContext)
    assert context.session_id == 2
    assert list(table.session_ids()) == [2]


def test_a_session_that_forgets_all_is_closed() -> None:
    """Nothing is left to fetch, and the client learns that it has no session."""
    table = sessions()
    started(table, 0)
    context = table.begin(SessionRequest(1, 1, False, [], [key(0)]), NOW)
    assert isinstance(context, FetchContext)
    assert (context.session_id, len(table)) == (0, 0)


def test_no_partitions_no_session() -> None:
    """There is nothing to remember."""
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
def test_who_gives_way_when_all_slots_are_taken(size: int, now: int, gets_one: bool) -> None:
    """A young session stays whoever comes; an idle one goes."""
    table = sessions(slots=1)
    started(table, 0, 1)
    assert (started(table, *range(size), now=now) != 0) is gets_one
    assert len(table) == 1


def test_a_settled_session_gives_way_to_a_larger_one_only() -> None:
    """In use, but past its first two minutes: the smallest goes for a larger newcomer."""
    table = sessions(slots=2)
    started(table, 0, 1)
    started(table, 0, 1, 2)
    later = EVICTION_MS + 1
    for session_id in (1, 2):
        assert isinstance(begin(table, session_id, 1, now=later - 5), FetchContext)
    assert started(table, 0, 1, now=later) == 0
    assert started(table, 0, 1, 2, now=later) == 3
    assert list(table.session_ids()) == [2, 3]


def test_no_slots_no_sessions() -> None:
    """max.incremental.fetch.session.cache.slots=0 switches sessions off."""
    assert started(sessions(slots=0), 0) == 0


states = st.tuples(st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(st.dictionaries(st.integers(0, 3), states, min_size=4, max_size=4), min_size=1, max_size=12))
def test_the_client_always_knows_the_truth(rounds: list[dict[int, tuple[bool, bool, int, int]]]) -> None:
    """Whatever is left out of an answer is what the client was told last; errors are never left out."""
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
def test_who_gave_records_waits_behind_who_did_not(rounds: list[set[int]]) -> None:
    """The order is that of the last turn, oldest first."""
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
    """Who would pass it gets no session, or loses it; idle ones make room, and what ended is not counted."""
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
