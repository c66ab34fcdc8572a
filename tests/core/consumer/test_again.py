"""Heartbeats that come again: the answer is the one before as long as nothing has changed, and only then."""

from __future__ import annotations

from tests.core.consumer.support import SESSION_TIMEOUT_MS, ConsumerHarness, G, beat, topics

from headgate.core.consumer.commands import (
    ConsumerGroupConfigured,
    HeartbeatAgain,
    HeartbeatResult,
    HeartbeatsAgain,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import InstanceId


class Staying:
    """A member that has all there is, and says so again and again."""

    def __init__(self, **instance: InstanceId) -> None:
        self.h = ConsumerHarness()
        self.epoch = self.h.join("m", "t", **instance).member_epoch
        self.before = beat("m", self.epoch, **instance)
        self.answered = self.h.ask(self.before)
        assert self.answered == HeartbeatResult(
            member_id=self.before.member_id, member_epoch=self.epoch, heartbeat_interval_ms=5_000
        )

    def beat(self) -> HeartbeatResult:
        """The answer, by the long way if the short one leads nowhere."""
        (result,) = self.h.ask(HeartbeatsAgain([HeartbeatAgain(self.before, self.answered)]))
        if result is None:
            result = self.h.ask(self.before)
        assert isinstance(result, HeartbeatResult)
        return result

    def is_as_before(self) -> bool:
        """Whether the answer is the very one that it was."""
        return self.beat() is self.answered


def test_the_answer_stays_and_so_does_the_member() -> None:
    """Each of them begins the session anew, and leaves no record."""
    staying = Staying()
    records = len(staying.h.log)
    for _ in range(10):
        staying.h.advance(SESSION_TIMEOUT_MS - 1)
        assert staying.beat() is staying.answered
    assert len(staying.h.log) == records
    staying.h.advance(SESSION_TIMEOUT_MS)
    assert staying.beat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_of_several_is_judged_for_itself() -> None:
    """One without an answer yet, one that stays, one that is nobody: what is not as before is left alone."""
    staying = Staying()
    stays = HeartbeatAgain(staying.before, staying.answered)
    nobody = HeartbeatAgain(beat("nobody", staying.epoch), staying.answered)
    several = [HeartbeatAgain(staying.before, None), stays, nobody, stays]
    answers = staying.h.ask(HeartbeatsAgain(several))
    assert [answer is staying.answered for answer in answers] == [False, True, False, True]
    assert answers[0] is answers[2] is None


def test_a_member_is_told_what_is_new() -> None:
    """Another has joined: it is to let partitions go, and its epoch is no longer the group's."""
    staying = Staying()
    staying.h.join("other", "t")
    result = staying.beat()
    assert result.assigned is not None
    assert result.member_epoch == staying.epoch


def test_a_fenced_member_is_told_so() -> None:
    """Also by the heartbeat that was good before."""
    staying = Staying()
    staying.h.beat("m", -1)
    staying.h.join("m", "t")
    staying.h.join("m", "t", "u")
    assert staying.beat().error is ErrorCode.FENCED_MEMBER_EPOCH
    assert not staying.is_as_before()


def test_other_topics_are_seen() -> None:
    """One of them has more partitions: the group's epoch rises with the next heartbeat, whoever sends it."""
    staying = Staying()
    staying.h.change_topics(topics(t=5))
    assert not staying.is_as_before()
    assert staying.h.group.epoch > staying.epoch


def test_another_heartbeat_interval_is_told() -> None:
    """A group's own settings count from the next heartbeat on."""
    staying = Staying()
    command = ConsumerGroupConfigured(group_id=G, settings={"consumer.heartbeat.interval.ms": 7_000})
    staying.h.ask(command)
    assert staying.beat().heartbeat_interval_ms == 7_000
    staying.h.ask(ConsumerGroupConfigured(group_id=G, settings={}))
    assert staying.is_as_before()


def test_a_static_member_is_itself_only() -> None:
    """Once another life of it has come, it is fenced; without its instance id it would be believed."""
    instance = {"instance_id": InstanceId("i")}
    staying = Staying(**instance)
    assert staying.is_as_before()
    staying.h.beat("m", -2, **instance)
    staying.h.join("n", "t", **instance)
    assert staying.beat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_restart_forgets_no_change() -> None:
    """After a load nobody has looked at the topics: the first heartbeat does, the second need not."""
    staying = Staying()
    staying.h.topics = topics(t=4)
    staying.h.reload()
    assert not staying.is_as_before()
    assert staying.h.group.epoch > staying.epoch
