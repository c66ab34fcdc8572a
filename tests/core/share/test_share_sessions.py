"""The sessions of share groups, and the order of their epochs (F5)."""

from __future__ import annotations

import pytest

from headgate.core.share.sessions import SessionRequest, ShareSession, ShareSessions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId

A, B = (TopicId(b"a" * 16), 0), (TopicId(b"b" * 16), 1)


def _ask(epoch: int, member: str = "m", **fields: object) -> SessionRequest:
    return SessionRequest(
        group_id=GroupId("g"),
        member_id=MemberId(member),
        epoch=epoch,
        connection=fields.pop("connection", "c"),
        **fields,  # type: ignore[arg-type]
    )


def _session(result: ShareSession | ErrorCode) -> ShareSession:
    assert isinstance(result, ShareSession), result
    return result


def test_epochs_follow_each_other() -> None:
    """0 begins, then 1, 2 over both APIs; anything else is refused and changes nothing."""
    sessions = ShareSessions(10)
    assert sessions.begin_fetch(_ask(1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.begin_fetch(_ask(-1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.begin_acknowledge(_ask(0)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session = _session(sessions.begin_fetch(_ask(0, added=[A])))
    assert sessions.begin_fetch(_ask(2)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert _session(sessions.begin_acknowledge(_ask(1))) is session
    assert sessions.begin_fetch(_ask(1)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert list(_session(sessions.begin_fetch(_ask(2, added=[B], forgotten=[A]))).partitions) == [B]
    session.next_epoch = 0x7FFF_FFFF
    _session(sessions.begin_fetch(_ask(0x7FFF_FFFF)))
    assert session.next_epoch == 1
    assert _session(sessions.begin_acknowledge(_ask(-1))) is session


def test_first_request_cannot_acknowledge() -> None:
    """Acknowledgements need a session that exists; epoch 0 replaces one."""
    sessions = ShareSessions(10)
    assert sessions.begin_fetch(_ask(0, has_acknowledgements=True)) == ErrorCode.INVALID_REQUEST
    first = _session(sessions.begin_fetch(_ask(0)))
    second = _session(sessions.begin_fetch(_ask(0, connection="other")))
    assert (len(sessions), sessions.of_connection("c")) == (1, [])
    sessions.end(first)
    assert sessions.of_connection("other") == [second]


def test_a_session_in_the_place_of_another_one_knows_where_records_were_acquired() -> None:
    """Its member still has them; after an end that was asked for it has none."""
    sessions = ShareSessions(10)
    first = _session(sessions.begin_fetch(_ask(0, added=[A, B])))
    first.acquired_from[A] = None
    second = _session(sessions.begin_fetch(_ask(0, added=[B], connection="other")))
    assert list(second.acquired_from) == [A]
    sessions.end(second)
    assert not _session(sessions.begin_fetch(_ask(0, added=[A]))).acquired_from


def test_sessions_are_limited() -> None:
    """Beyond the limit no session begins, but a known one may begin again."""
    sessions = ShareSessions(1)
    session = _session(sessions.begin_fetch(_ask(0)))
    assert sessions.begin_fetch(_ask(0, "other")) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    _session(sessions.begin_fetch(_ask(0)))
    sessions.end(session)
    assert sessions.count(GroupId("g")) == 1
    (left,) = sessions.of_connection("c")
    sessions.end(left)
    assert (len(sessions), sessions.count(GroupId("g"))) == (0, 0)


def test_a_connection_with_many_sessions_gives_one_up() -> None:
    """For the first session of another connection; connections with one each keep theirs."""
    sessions = ShareSessions(3)
    first = _session(sessions.begin_fetch(_ask(0, "a", connection="many")))
    assert sessions.in_the_way(_ask(0, "b", connection="many")) is None
    for name in ("b", "c"):
        _session(sessions.begin_fetch(_ask(0, name, connection="many")))
    assert sessions.in_the_way(_ask(0, "d", connection="many")) is None
    assert sessions.in_the_way(_ask(1, "b", connection="many")) is None
    assert sessions.in_the_way(_ask(0, "b", connection="other")) is None  # it takes the place of one
    assert sessions.in_the_way(_ask(0, "d", connection="other", has_acknowledgements=True)) is None
    asked = _ask(0, "d", connection="other")
    assert sessions.in_the_way(asked) is first
    sessions.end(first)
    _session(sessions.begin_fetch(asked))
    second = sessions.in_the_way(_ask(0, "e", connection="third"))
    assert second is not None and second.member_id == "b"
    sessions.end(second)
    _session(sessions.begin_fetch(_ask(0, "e", connection="third")))
    assert sessions.in_the_way(_ask(0, "f", connection="fourth")) is None


def test_the_partitions_of_all_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client could fill the memory with partitions that do not exist; refused requests change nothing."""
    monkeypatch.setattr("headgate.core.share.sessions.MOST_PARTITIONS", 4)
    monkeypatch.setattr("headgate.core.share.sessions.ALWAYS_ALLOWED", 0)
    sessions = ShareSessions(10)
    more = [(TopicId(b"c" * 16), index) for index in range(3)]
    first = _session(sessions.begin_fetch(_ask(0, added=[A, B, B])))
    assert sessions.begin_fetch(_ask(1, added=more)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.begin_fetch(_ask(0, "other", added=more)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(sessions), list(first.partitions)) == (1, [A, B])
    long_request = _ask(1, added=more[:2])
    assert sessions.begin_long_fetch(long_request) is first
    assert sessions.begin_fetch(_ask(2, added=more[2:])) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    list(sessions.change_in_steps(first, long_request))
    assert list(first.partitions) == [A, B, *more[:2]]
    assert sessions.begin_fetch(_ask(2)) is first
    assert sessions.begin_fetch(_ask(3, forgotten=[A, B, *more[:1]])) is first
    assert sessions.begin_fetch(_ask(4, added=more)) is first
    second = _session(sessions.begin_fetch(_ask(0, added=[A, B, *more[:2]])))
    late = _ask(1, forgotten=[A])
    assert sessions.begin_long_fetch(late) is second
    sessions.end(second)
    list(sessions.change_in_steps(second, late))
    _session(sessions.begin_fetch(_ask(0, "other", added=[A, B, *more[:2]])))


def test_small_sessions_are_allowed_though_others_have_all_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.core.share.sessions.MOST_PARTITIONS", 4)
    monkeypatch.setattr("headgate.core.share.sessions.ALWAYS_ALLOWED", 2)
    sessions = ShareSessions(10)
    more = [(TopicId(b"c" * 16), index) for index in range(4)]
    _session(sessions.begin_fetch(_ask(0, "wide", added=more)))
    small = _session(sessions.begin_fetch(_ask(0, added=[A])))
    assert sessions.begin_fetch(_ask(1, added=[B])) is small
    assert sessions.begin_fetch(_ask(2, added=more[:1])) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    _session(sessions.begin_fetch(_ask(1, "wide")))
    assert (sessions.partition_count, list(small.partitions)) == (6, [A, B])


def test_two_requests_of_a_session_that_change_it_in_steps_are_counted_alike() -> None:
    """The steps of both alternate; some partitions are there already, and some are named twice."""
    sessions = ShareSessions(10)
    session = _session(sessions.begin_fetch(_ask(0, added=[A])))
    more = [(TopicId(b"c" * 16), index) for index in range(3)]
    first, second = _ask(1, added=[A, *more, more[0]]), _ask(2, added=[B, *more[1:]], forgotten=[A, more[0]])
    running = []
    for request in (first, second):
        assert sessions.begin_long_fetch(request) is session
        running.append(sessions.change_in_steps(session, request))
    for steps in (*running, *running):
        next(steps, None)
    for steps in reversed(running):
        list(steps)
    assert sessions.partition_count == len(session.partitions) == 3
    sessions.end(session)
    assert sessions.partition_count == 0
