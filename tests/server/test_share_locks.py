"""Locks of records whose group gets another lock duration while members have them."""

from __future__ import annotations

from tests.server.share_members import Scene, play

from headgate.core.share.partition.model import AcknowledgementBatch
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId

ACCEPT, RENEW = 1, 4
SHORT_MS = 1_000


def _shorten(scene: Scene) -> None:
    """Let the locks of the group last a second."""
    change = scene.node.topics.group_change("g", {"share.record.lock.duration.ms": str(SHORT_MS)})
    assert scene.node.topics.change_settings([change], scene.node.system_time()) is None


def test_a_lock_that_is_renewed_for_a_shorter_time_ends_after_that_time() -> None:
    """The record is delivered to others then, not when the lock had ended without the renewal."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, ben = scene.member("ann"), scene.member("ben")
        assert (await ann.fetch(0))[0].acquired == [(0, 0, 1)]
        _shorten(scene)
        answer = await ann.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
        assert answer == {0: ErrorCode.NONE}
        assert (await ben.fetch(0, wait_ms=100 * SHORT_MS))[0].acquired == [(0, 0, 2)]

    play(story, group_share_min_record_lock_duration_ms=str(SHORT_MS))


def test_a_share_partition_that_was_given_up_acknowledges_nothing() -> None:
    """An acknowledgement in parts may still have it, when the next fetch has already loaded another one."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann = scene.member("ann")
        assert (await ann.fetch(0))[0].acquired == [(0, 0, 1)]
        (shared,) = scene.shared()
        shared.discard(ErrorCode.KAFKA_STORAGE_ERROR)
        errors: list[ErrorCode] = []
        shared.acknowledge(MemberId("ann"), [AcknowledgementBatch(0, 0, [ACCEPT])], errors.append)
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert (await ann.fetch(0, wait_ms=100 * SHORT_MS))[0].acquired == [(0, 0, 1)]

    play(story)
