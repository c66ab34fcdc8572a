"""Paused and rewound partitions of a group that runs, from Python, against the real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.admin import (
    Admin,
    AsyncAdmin,
    GroupIsActive,
    NothingToReset,
    NotPaused,
    NotReleased,
    OffsetsMoved,
    PausedPartition,
    PauseState,
    RequestRefused,
    RewindProgress,
    RewindStep,
    RewindUnfinished,
    ShiftBy,
    ToEarliest,
    ToOffset,
    TopicPartition,
)
from headgate.broker import run
from headgate.client import offsets, pauses
from headgate.client.errors import ConnectionFailed, NoNodeReachable, OutcomeUnknown, PartlyRefused
from headgate.client.membership import MemberSettings, Membership
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

FLIGHTS = TopicName("flights")
ALL = [TopicPartition(FLIGHTS, index) for index in range(4)]
ZERO, ONE = ALL[:2]
SETTINGS = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server with an empty topic of four partitions, whose members send heartbeats ten times a second."""
    with run({**SETTINGS, "offsets.topic.num.partitions": "4"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(name=FLIGHTS, num_partitions=len(ALL), replication_factor=1)
            admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        yield broker.bootstrap_servers


@pytest.fixture
def admin(server: str) -> Iterator[Admin]:
    """An admin of this test's own, to whom every offset lies within the log."""
    with Admin(server) as admin:
        yield admin


@pytest.fixture(autouse=True)
def long_logs(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is empty: logs that end at 1000 are made believe, so that offsets are not moved into them."""
    known = {-1: 1000, -2: 0}
    monkeypatch.setattr(
        admin.cluster, "list_offsets", lambda asked: {one: known[at] for one, at in asked.items()}
    )


class Reader:
    """A member that has all partitions; to what it revokes it commits 500, and releases it if it likes."""

    def __init__(self, server: str, group: str) -> None:
        self.releases = True
        self.last_commits: list[Any] = []
        self.member = Membership(server, MemberSettings(group_id=GroupId(group), topics=(FLIGHTS,)))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._is_over.wait(0.01):
            revoked = self.member.view().revoked
            if revoked and self.releases:
                self.member.commit(dict.fromkeys(revoked, 500))
                self.last_commits += revoked
                self.member.release(revoked)

    def __enter__(self) -> Reader:
        self.member.join()
        self._wait(ALL)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._is_over.set()
        self._thread.join()
        self.member.leave()

    def _wait(self, wanted: list[TopicPartition]) -> None:
        wait_for(lambda: self.member.view().assigned == frozenset(wanted))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "not so after 20 s"
        time.sleep(0.01)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group id of this test's own."""
    return str(request.node.name)


@pytest.fixture
def reader(server: str, group: str) -> Iterator[Reader]:
    """A member of the test's group."""
    with Reader(server, group) as reader:
        yield reader


def committed(admin: Admin, group: str) -> dict[int, int]:
    """The committed offsets by partition."""
    return {one.partition: value.offset for one, value in admin.committed_offsets(group).items()}


def test_a_partition_is_paused_reset_and_resumed_by_hand(admin: Admin, reader: Reader, group: str) -> None:
    """While the member goes on with the others; what is not paused is refused, and said."""
    seen: list[int] = []
    admin.pause_partitions(group, [ZERO, ONE], reason="poison", caller="alice")
    paused = admin.wait_until_paused(group, [ZERO, ONE], 20, lambda waiting: seen.append(waiting.released))
    assert [*paused] == [ZERO, ONE]
    assert {(one.state, one.owner, one.caller, one.reason, one.offset) for one in paused.values()} == {
        (PauseState.PAUSED, None, "alice", "poison", 500)
    }
    described = admin.describe_topics(["flights"])["flights"]
    assert described is not None and {one.topic_id for one in paused.values()} == {described.topic_id}
    assert seen[-1] == 2
    assert reader.member.view().assigned == {*ALL[2:]}
    with pytest.raises(GroupIsActive, match="not paused: flights-2") as refused:
        admin.reset_offsets(group, ALL[:3], ToOffset(7))
    assert refused.value.unpaused == (ALL[2],)
    admin.reset_offsets(group, [ZERO, ONE], ToOffset(7))
    admin.alter_offsets(group, {ZERO: 8}, {ZERO: 7})
    assert admin.list_paused_partitions(group)[ZERO].offset == 8
    admin.resume_partitions(group, [ZERO, ONE])
    assert admin.list_paused_partitions(group) == {}
    wait_for(lambda: reader.member.view().assigned == {*ALL})
    assert committed(admin, group) == {0: 8, 1: 7}


def test_a_rewind_does_all_of_it_and_says_what(admin: Admin, reader: Reader, group: str) -> None:
    """The owner's last commit counts as what was before; a rewind to that undoes it."""
    steps: list[RewindStep] = []
    plan = admin.plan_rewind(group, {ZERO: 42, ONE: ToEarliest()})
    assert [(each.committed, each.offset) for each in plan] == [(None, 42), (None, 0)]

    def on_progress(progress: RewindProgress) -> None:
        if progress.step not in steps:
            steps.append(progress.step)

    done = admin.rewind(group, {ZERO: 42, ONE: ToEarliest()}, reason="bad data", on_progress=on_progress)
    assert [(one.partition, one.before and one.before.offset, one.offset) for one in done] == [
        (ZERO, 500, 42),
        (ONE, 500, 0),
    ]
    assert not any(one.was_left or one.stays_paused for one in done)
    assert steps == [*[*RewindStep][:4], RewindStep.DONE]
    assert sorted(reader.last_commits) == [ZERO, ONE]
    wait_for(lambda: reader.member.view().assigned == {*ALL})
    assert committed(admin, group) == {0: 42, 1: 0}
    reader.releases = True
    admin.rewind(group, {one.partition: one.before.offset for one in done if one.before})
    assert committed(admin, group) == {0: 500, 1: 500}


def test_an_owner_that_does_not_release_stops_a_rewind(admin: Admin, reader: Reader, group: str) -> None:
    """In time: nothing is changed, and the partitions are resumed."""
    reader.releases = False
    with pytest.raises(NotReleased, match="flights-0") as stopped:
        admin.rewind(group, {ZERO: 42}, timeout_s=0.3)
    (waiting,) = stopped.value.waiting_for
    assert waiting.owner == reader.member.member_id
    assert "resumed, and no offset is changed" in stopped.value.__notes__[0]
    assert admin.list_paused_partitions(group) == {}
    assert committed(admin, group) == {}


def test_a_cancelled_wait_ends_and_a_cancelled_rewind_is_undone(
    server: str, admin: Admin, reader: Reader, group: str
) -> None:
    """Other calls, and the end of the client, do not wait for members that do not release."""
    reader.releases = False

    async def main() -> None:
        async with AsyncAdmin(server) as asking:
            await asking.pause_partitions(group, [ONE])
            for call in (asking.wait_until_paused(group, [ONE]), asking.rewind(group, {ZERO: 42})):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(call, 0.5)
                assert list(await asking.list_paused_partitions(group)) == [ONE]

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 60  # of 300 s
    assert committed(admin, group) in ({}, {0: 500}), "nothing, or the last commit of the owner"


@pytest.mark.parametrize(
    "step", [RewindStep.PAUSING, RewindStep.WAITING, RewindStep.SETTING, RewindStep.RESUMING]
)
def test_an_interrupted_rewind_leaves_all_as_it_was(
    admin: Admin, reader: Reader, group: str, step: RewindStep
) -> None:
    """Ctrl-C at any step: offsets are what they were, and nothing is paused."""

    def interrupt(progress: RewindProgress) -> None:
        if progress.step is step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        admin.rewind(group, {ZERO: 42}, on_progress=interrupt)
    assert admin.list_paused_partitions(group) == {}
    assert committed(admin, group) in ({}, {0: 500}), "nothing, or the last commit of the owner"
    wait_for(lambda: reader.member.view().assigned == {*ALL})


def test_a_second_call_finishes_what_was_left(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could be asked to resume; a shift is refused then, as it may have been made already."""
    with monkeypatch.context() as patched:
        patched.setattr(pauses, "resume_of_rewinds", _unreachable)
        with pytest.raises(RewindUnfinished, match="the offsets are set") as unfinished:
            admin.rewind(group, {ZERO: 42}, reason="bad data")
    assert unfinished.value.partitions == (ZERO,)
    (left,) = admin.list_paused_partitions(group).values()
    assert (left.reason, left.offset) == ("rewind: bad data", 42)
    with pytest.raises(NothingToReset, match="may have shifted them already"):
        admin.rewind(group, {ZERO: ShiftBy(-10)})
    (done,) = admin.rewind(group, {ZERO: 42})
    assert done.was_left
    assert admin.list_paused_partitions(group) == {}
    wait_for(lambda: reader.member.view().assigned == {*ALL})
    assert committed(admin, group) == {0: 42}


def _unreachable(*arguments: object) -> None:
    raise ConnectionFailed("nobody listens")


def test_a_failure_that_cannot_be_cleaned_up_names_what_was_left(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first failure is its cause."""
    reader.releases = False
    with monkeypatch.context() as patched:
        patched.setattr(pauses, "resume_of_rewinds", _unreachable)
        with pytest.raises(RewindUnfinished, match="no offset is changed") as unfinished:
            admin.rewind(group, {ZERO: 42}, timeout_s=0.1)
    assert isinstance(unfinished.value.__cause__, NotReleased)
    reader.releases = True
    assert admin.rewind(group, {ZERO: 42})[0].was_left
    assert committed(admin, group) == {0: 42}


def test_a_second_interruption_says_what_is_left(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one puts everything back; who interrupts that too learns that partitions are still paused."""
    reader.releases = False

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pauses, "resume_of_rewinds", interrupt)
        with pytest.raises(RewindUnfinished, match="flights-0 may still be paused") as unfinished:
            admin.rewind(group, {ZERO: 42}, on_progress=lambda at: interrupt() if at.waiting_for else None)
    assert isinstance(unfinished.value.__cause__, KeyboardInterrupt)
    reader.releases = True
    assert admin.rewind(group, {ZERO: 42})[0].was_left


def test_a_rewind_waits_for_a_server_that_restarts(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it cleans up: partitions that stay paused are worse than a wait."""
    coordinator, down = admin.cluster._coordinator, iter([True] * 3)

    def unreachable_at_first(group_id: GroupId) -> Any:
        if next(down, False):
            raise NoNodeReachable("it restarts")
        return coordinator(group_id)

    def stop(progress: RewindProgress) -> None:
        if progress.step is RewindStep.SETTING:
            monkeypatch.setattr(admin.cluster, "_coordinator", unreachable_at_first)

    assert admin.rewind(group, {ZERO: 42}, on_progress=stop)[0].offset == 42
    assert next(down, None) is None
    assert committed(admin, group) == {0: 42}
    assert not admin.cluster.waits_for_nodes, "it is the caller's choice again"


def test_what_somebody_else_paused_stays_paused(admin: Admin, reader: Reader, group: str) -> None:
    """A rewind resumes what it paused."""
    admin.pause_partitions(group, [ONE], reason="hands off")
    done = admin.rewind(group, {ZERO: 1, ONE: 2})
    assert [one.stays_paused for one in done] == [False, True]
    assert [*admin.list_paused_partitions(group)] == [ONE]
    assert committed(admin, group) == {0: 1, 1: 2}


@pytest.mark.parametrize("step", [RewindStep.WAITING, RewindStep.SETTING, RewindStep.RESUMING])
def test_what_somebody_else_pauses_meanwhile_stays_paused(
    admin: Admin, reader: Reader, group: str, step: RewindStep
) -> None:
    """With the reason of its own; the offset is set all the same."""

    def pause(progress: RewindProgress) -> None:
        if progress.step is step:
            admin.pause_partitions(group, [ZERO], reason="hands off")

    done = admin.rewind(group, {ZERO: 1, ONE: 2}, on_progress=pause)
    assert [one.stays_paused for one in done] == [True, False]
    assert {where: one.reason for where, one in admin.list_paused_partitions(group).items()} == {
        ZERO: "hands off"
    }
    assert committed(admin, group) == {0: 1, 1: 2}
    again = admin.rewind(group, {ZERO: 3}, on_progress=lambda progress: None)
    assert [one.stays_paused for one in again] == [True]


def test_an_answer_that_is_lost_is_found_out(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets were set: the second attempt finds them there."""
    commit, answers_lost = offsets.commit_offsets, [True]

    def commit_and_lose(*arguments: Any) -> None:
        commit(*arguments)
        if answers_lost:
            answers_lost.pop()
            raise OutcomeUnknown("no answer")

    monkeypatch.setattr(offsets, "commit_offsets", commit_and_lose)
    admin.rewind(group, {ZERO: 42})
    assert not answers_lost
    assert committed(admin, group) == {0: 42}


def test_offsets_that_somebody_else_sets_meanwhile_are_not_lost(
    admin: Admin, reader: Reader, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rewind is given up."""
    fetch, calls = offsets.fetch_offsets, []

    def fetch_and_move(*arguments: Any) -> Any:
        found = fetch(*arguments)
        calls.append(found)
        if len(calls) == 2:
            admin.alter_offsets(group, {ZERO: 77})
        return found

    with monkeypatch.context() as patched:
        patched.setattr(offsets, "fetch_offsets", fetch_and_move)
        with pytest.raises(OffsetsMoved):
            admin.rewind(group, {ZERO: 42})
    assert admin.list_paused_partitions(group) == {}
    assert committed(admin, group) == {0: 77}


def test_partitions_that_are_resumed_meanwhile_end_a_wait(admin: Admin, reader: Reader, group: str) -> None:
    """They are not paused any more."""
    reader.releases = False
    admin.pause_partitions(group, [ZERO])
    with pytest.raises(NotPaused, match="flights-0"):
        admin.wait_until_paused(group, [ZERO], 20, lambda waiting: admin.resume_partitions(group, [ZERO]))


def test_refusals_come_as_they_are(admin: Admin, reader: Reader, group: str) -> None:
    """A group that cannot be paused, with the way out; partitions that do not exist."""
    with pytest.raises(RequestRefused, match="not found"):
        admin.pause_partitions("nobody", [ZERO])
    admin.alter_offsets("simple", {ZERO: 3})
    with pytest.raises(RequestRefused, match="can be reset as it is"):
        admin.rewind("simple", {ZERO: 1})
    missing = TopicPartition(FLIGHTS, 9)
    with pytest.raises(PartlyRefused) as refused:
        admin.pause_partitions(group, [ZERO, missing])
    assert refused.value.refused[missing].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found: dict[TopicPartition, PausedPartition] = admin.list_paused_partitions(group)
    assert [*found] == [ZERO]
    with pytest.raises(ValueError, match="0 or more"):
        admin.rewind(group, {ZERO: -1})
