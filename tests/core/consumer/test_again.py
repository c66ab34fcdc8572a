"""Repeated heartbeats: they get the previous answer as long as nothing has changed."""

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
    """A member with its target assignment, which repeats its heartbeat."""

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

    def has_same_answer(self) -> bool:
        """Return whether the answer is the previous object."""
        return self.beat() is self.answered


def test_a_repeated_heartbeat_gets_the_previous_answer() -> None:
    """It restarts the session timer, and writes no record."""
    staying = Staying()
    records = len(staying.h.log)
    for _ in range(10):
        staying.h.advance(SESSION_TIMEOUT_MS - 1)
        assert staying.beat() is staying.answered
    assert len(staying.h.log) == records
    staying.h.advance(SESSION_TIMEOUT_MS)
    assert staying.beat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_repeated_heartbeats_are_independent() -> None:
    """One without a previous answer, one unchanged, one of an unknown member."""
    staying = Staying()
    stays = HeartbeatAgain(staying.before, staying.answered)
    nobody = HeartbeatAgain(beat("nobody", staying.epoch), staying.answered)
    several = [HeartbeatAgain(staying.before, None), stays, nobody, stays]
    answers = staying.h.ask(HeartbeatsAgain(several))
    assert [answer is staying.answered for answer in answers] == [False, True, False, True]
    assert answers[0] is answers[2] is None


def test_a_member_gets_a_changed_assignment() -> None:
    """Another member joined: it must revoke partitions, and its epoch is no longer the group's."""
    staying = Staying()
    staying.h.join("other", "t")
    result = staying.beat()
    assert result.assigned is not None
    assert result.member_epoch == staying.epoch


def test_a_fenced_member_gets_its_error() -> None:
    """Also for a heartbeat that was valid before."""
    staying = Staying()
    staying.h.beat("m", -1)
    staying.h.join("m", "t")
    staying.h.join("m", "t", "u")
    assert staying.beat().error is ErrorCode.FENCED_MEMBER_EPOCH
    assert not staying.has_same_answer()


def test_a_change_of_topics_is_detected() -> None:
    """The group epoch rises with the next heartbeat of any member."""
    staying = Staying()
    staying.h.change_topics(topics(t=5))
    assert not staying.has_same_answer()
    assert staying.h.group.epoch > staying.epoch


def test_a_changed_heartbeat_interval_is_returned() -> None:
    """With the next heartbeat."""
    staying = Staying()
    command = ConsumerGroupConfigured(group_id=G, settings={"consumer.heartbeat.interval.ms": 7_000})
    staying.h.ask(command)
    assert staying.beat().heartbeat_interval_ms == 7_000
    staying.h.ask(ConsumerGroupConfigured(group_id=G, settings={}))
    assert staying.has_same_answer()


def test_a_replaced_static_member_is_fenced() -> None:
    """By its instance id."""
    instance = {"instance_id": InstanceId("i")}
    staying = Staying(**instance)
    assert staying.has_same_answer()
    staying.h.beat("m", -2, **instance)
    staying.h.join("n", "t", **instance)
    assert staying.beat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_change_is_detected_after_a_restart() -> None:
    """The first heartbeat verifies the topics again."""
    staying = Staying()
    staying.h.topics = topics(t=4)
    staying.h.reload()
    assert not staying.has_same_answer()
    assert staying.h.group.epoch > staying.epoch
