"""ShareFetch and ShareAcknowledge against a node in memory (KIP-932)."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.server.clients import T
from tests.server.disk import new_disk
from tests.server.share_members import FIRST_WAIT_MS, LOCK_MS, Got, Scene, play, started, until
from tests.topics.transactions import Writer

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.log.memory_filesystem import Fault, MemoryFile
from headgate.topics.topics import Topics

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
NONE = ErrorCode.NONE


def _got(*acquired: tuple[int, int, int], values: list[bytes]) -> dict[int, Got]:
    return {0: Got(NONE, NONE, list(acquired), values)}


def test_records_are_delivered_and_acknowledged() -> None:
    """Acknowledged records do not come again, released ones do, with a higher count."""

    async def story(scene: Scene) -> None:
        scene.append(b"a", b"b", b"c")
        member = scene.member("m")
        assert await member.fetch(0) == _got((0, 2, 1), values=[b"a", b"b", b"c"])
        assert member.lock_ms == LOCK_MS
        assert await member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 2, [RELEASE, REJECT])]}) == {0: NONE}
        assert await member.fetch() == _got((1, 1, 2), values=[b"b"])
        assert await member.fetch(acknowledge={0: [(1, 1, [ACCEPT])]}) == {0: Got(NONE, NONE, [], [])}
        assert await member.fetch() == {}
        families = {family.name: family for family in scene.node.shares.gauges() if family is not None}
        values = {
            (name, *sample.labels.values()): sample.value
            for name, family in families.items()
            for sample in family.samples
        }
        assert values["headgate_share_deliveries", "first"] == 3
        assert values["headgate_share_deliveries", "again"] == 1
        assert values["headgate_share_acknowledgements", "accept"] == 2
        assert values["headgate_share_acknowledgements", "release"] == 1
        assert (values["headgate_share_partitions",], values["headgate_share_records_in_flight",]) == (1, 0)

    play(story)


def test_members_share_a_partition() -> None:
    """Two members get different records; a record goes to whoever is free next."""

    async def story(scene: Scene) -> None:
        for value in (b"a", b"b", b"c"):
            scene.append(value)
        ann, ben = scene.member("ann"), scene.member("ben")
        assert await ann.fetch(0, most=1) == _got((0, 0, 1), values=[b"a"])
        assert await ben.fetch(0, most=1) == _got((1, 1, 1), values=[b"b"])
        assert await ann.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: ErrorCode.INVALID_RECORD_STATE}
        assert await ben.acknowledge({0: [(1, 1, [RELEASE])]}) == {0: NONE}
        assert await ann.fetch() == _got((1, 1, 2), (2, 2, 1), values=[b"b", b"c"])

    play(story)


def test_waiting_fetch_wakes_for_new_and_for_released_records() -> None:
    """A fetch that found nothing is answered when there is something; those that wait longest first."""

    async def story(scene: Scene) -> None:
        ann, ben = scene.member("ann"), scene.member("ben")
        first = asyncio.create_task(ann.fetch(0, wait_ms=500_000))
        await until(lambda: len(scene.shared()) == 1)
        (shared,) = scene.shared()
        await until(lambda: len(shared.waiting) == 1)
        second = asyncio.create_task(ben.fetch(0, wait_ms=500_000))
        await until(lambda: len(shared.waiting) == 2)
        scene.append(b"a")
        assert await first == _got((0, 0, 1), values=[b"a"])
        assert not second.done()
        await ann.acknowledge({0: [(0, 0, [RELEASE])]})
        assert await second == _got((0, 0, 2), values=[b"a"])
        assert not len(shared.waiting)

    play(story)


def test_fetch_waits_no_longer_than_asked() -> None:
    """Without records the response is empty after the time that the client waits."""

    async def story(scene: Scene) -> None:
        assert await scene.member("m").fetch(0, wait_ms=1_000) == {}

    play(story)


def test_locks_end() -> None:
    """Records that were not acknowledged in time go to others; renewed ones stay."""

    async def story(scene: Scene) -> None:
        scene.append(b"a", b"b")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        (shared,) = scene.shared()
        assert shared.machine is not None
        deadline = shared.machine.next_deadline() or 0
        await asyncio.sleep(1)
        assert await ann.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True) == {0: NONE}
        assert await ben.fetch(0, wait_ms=600_000) == _got((1, 1, 2), values=[b"b"])
        assert scene.node.steady_time() > deadline
        assert await ann.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: ErrorCode.INVALID_RECORD_STATE}

    play(story, group_share_record_lock_duration_ms="100000")


def test_lost_connection_releases_at_once() -> None:
    """What a member had when its connection broke goes to one that waits."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        waiting = asyncio.create_task(ben.fetch(0, wait_ms=500_000))
        (shared,) = scene.shared()
        await until(lambda: len(shared.waiting) == 1)
        ann.disconnect()
        assert await waiting == _got((0, 0, 2), values=[b"a"])
        assert len(scene.node.shares.sessions) == 1
        late = asyncio.create_task(ben.fetch(wait_ms=500_000))
        await until(lambda: len(shared.waiting) == 1)
        ben.disconnect()
        assert not len(shared.waiting)
        late.cancel()

    play(story)


def test_final_request_acknowledges_and_releases() -> None:
    """Epoch -1 ends the session and releases the rest with its count; epoch 0 keeps what was acquired."""

    async def story(scene: Scene) -> None:
        scene.append(b"a", b"b", b"c")
        member = scene.member("m")
        await member.fetch(0)
        assert await member.fetch(0, epoch=0) == {}
        assert await member.acknowledge({0: [(0, 0, [ACCEPT])]}) == {0: NONE}
        assert await member.acknowledge({0: [(1, 1, [ACCEPT])]}, epoch=-1) == {0: NONE}
        await member.acknowledge({})
        assert member.top_error == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await member.acknowledge({}, epoch=1)
        assert member.top_error == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await member.fetch(0, epoch=0) == _got((2, 2, 2), values=[b"c"])
        assert await member.fetch(acknowledge={0: [(2, 2, [ACCEPT])]}, epoch=-1) == {
            0: Got(NONE, NONE, [], [])
        }

    play(story)


def test_record_limit_is_exact() -> None:
    """In record-limit mode a part of a batch is acquired; the whole batch is in the response (KIP-1206)."""

    async def story(scene: Scene) -> None:
        scene.append(b"a", b"b", b"c")
        member = scene.member("m")
        assert await member.fetch(0, most=2, share_acquire_mode=1) == _got((0, 1, 1), values=[b"a", b"b"])
        assert await member.fetch(most=0, share_acquire_mode=1) == {}
        assert await member.fetch(most=2, share_acquire_mode=1) == _got((2, 2, 1), values=[b"c"])

    play(story)


def test_refused_requests() -> None:
    """Errors of the whole request, and of a partition."""

    async def story(scene: Scene) -> None:
        nobody = scene.member("")
        await nobody.fetch(0)
        assert nobody.top_error == ErrorCode.INVALID_REQUEST
        member = scene.member("m")
        for fields in ({"share_acquire_mode": 7}, {"is_renew_ack": True}):
            await member.fetch(0, epoch=0, **fields)
            assert member.top_error == ErrorCode.INVALID_REQUEST
        assert await member.fetch(9, epoch=0) == {9: Got(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE, [], [])}
        other = scene.member("other")
        assert await other.fetch(0, topic_id=b"x" * 16) == {0: Got(ErrorCode.UNKNOWN_TOPIC_ID, NONE, [], [])}
        assert await member.acknowledge({0: [(1, 0, [ACCEPT])], 1: [(0, 0, [ACCEPT])]}) == {
            0: ErrorCode.INVALID_REQUEST,
            1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        stranger = scene.member("s", group="not initialized")
        assert (await stranger.fetch(0))[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(story)


def test_too_many_sessions(caplog: pytest.LogCaptureFixture) -> None:
    """A session beyond the limit is refused, after the time that the client waits; the log tells it."""

    async def story(scene: Scene) -> None:
        await scene.member("a").fetch(0)
        late = scene.member("b")
        await late.fetch(0, wait_ms=1_000)
        assert late.top_error == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        (line,) = [vars(one) for one in caplog.records if one.getMessage() == "no more share sessions"]
        assert (line["sessions"], line["partitions"], line["not_logged"]) == (1, 1, 0)

    play(story, group_share_max_share_sessions="1")


def test_a_connection_with_many_sessions_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    """What the member of the session had is available again; the log names it."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        many = scene.member("m1")
        assert (await many.fetch(0))[0].values == [b"a"]
        other = scene.member("m2")
        other.client = many.client
        await other.fetch(0)
        late = scene.member("late")
        assert (await late.fetch(0, wait_ms=1_000))[0].values == [b"a"]
        (line,) = [vars(one) for one in caplog.records if "many share sessions" in one.getMessage()]
        assert (line["group"], line["member"], line["sessions"], line["not_logged"]) == ("g", "m1", 2, 0)
        await many.fetch()
        assert many.top_error == ErrorCode.SHARE_SESSION_NOT_FOUND

    play(story, group_share_max_share_sessions="2")


def test_only_committed_records() -> None:
    """A group of committed records never gets those of aborted or open transactions, nor markers (F16)."""

    async def story(scene: Scene) -> None:
        topics: Topics = scene.node.topics
        change = topics.group_change("g", {"share.isolation.level": "read_committed"})
        assert topics.change_settings([change], scene.node.system_time()) is None
        aborted, committed, still_open = (Writer(scene.topic, number) for number in (1, 2, 3))
        aborted.write(b"never")
        committed.write(b"a", b"b")
        aborted.end(is_committed=False)
        committed.end(is_committed=True)
        still_open.write(b"later")
        scene.append(b"c")
        member = scene.member("m")
        assert await member.fetch(0) == _got((1, 2, 1), values=[b"a", b"b"])
        assert await member.acknowledge({0: [(1, 2, [ACCEPT])]}) == {0: NONE}
        waiting = asyncio.create_task(member.fetch(wait_ms=500_000))
        (shared,) = scene.shared()
        await until(lambda: len(shared.waiting) == 1)
        still_open.end(is_committed=True)
        assert await waiting == _got((5, 6, 1), values=[b"later", b"c"])

    play(story)


def test_crash_keeps_acknowledgements_and_forgets_deliveries() -> None:
    """Acknowledged records do not come again; those that were delivered do, as if for the first time."""

    async def story() -> None:
        files = new_disk()
        scene = await started(files)
        await scene.initialize(start=-1)
        scene.append(b"old")
        member = scene.member("m")
        assert await member.fetch(0) == {}  # begins at the end of the log
        scene.append(b"a", b"b", b"c")
        assert await member.fetch(wait_ms=FIRST_WAIT_MS) == _got((1, 3, 1), values=[b"a", b"b", b"c"])
        assert await member.acknowledge({0: [(2, 2, [ACCEPT])]}) == {0: NONE}
        files.kill()
        scene.node.close()
        scene = await started(files)
        again = scene.member("m")
        assert await again.fetch(0) == _got((1, 1, 1), (3, 3, 1), values=[b"a", b"c"])
        scene.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def _hold_syncs_of_states(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the share coordinator's syncs wait for an event."""
    gate, datasync = threading.Event(), MemoryFile.datasync

    def held(file: MemoryFile) -> None:
        if "__share_group_state" in str(file._path):
            assert gate.wait(10)
        datasync(file)

    monkeypatch.setattr(MemoryFile, "datasync", held)
    return gate


def test_the_start_is_durable_before_the_first_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a share-partition begins where the delivered records are, not behind them."""

    async def story() -> None:
        files = new_disk()
        scene = await started(files)
        await scene.initialize(start=-1)
        gate = _hold_syncs_of_states(monkeypatch)
        fetching = asyncio.create_task(scene.member("m").fetch(0, wait_ms=FIRST_WAIT_MS))
        await until(lambda: [one.has_read_state for one in scene.shared()] == [True])
        scene.append(b"a")  # behind the start that was chosen: this syncs the topic
        await asyncio.sleep(0.05)
        is_early = fetching.done()
        gate.set()
        assert not is_early
        assert await fetching == _got((0, 0, 1), values=[b"a"])
        files.crash()
        scene.node.close()
        again = await started(files)
        assert await again.member("m").fetch(0, wait_ms=FIRST_WAIT_MS) == _got((0, 0, 1), values=[b"a"])
        again.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.plants_failures("shard")
def test_a_start_that_cannot_be_written_is_not_delivered_from() -> None:
    """The fetch reports the error; a later one chooses a start again."""

    async def story() -> None:
        files = new_disk()
        scene = await started(files)
        await scene.initialize(start=-1)
        member = scene.member("m")
        files.inject(Fault(kind="datasync", times=1))
        (refused,) = (await member.fetch(0, wait_ms=FIRST_WAIT_MS)).values()
        assert refused.error and not refused.acquired
        files.heal()
        found: dict[int, Got] = {}
        scene.append(b"a")
        while not found or found[0].error:
            found = await member.fetch(wait_ms=1_000)
        scene.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_altered_state_is_read_again() -> None:
    """When nobody fetches any more, or a write was fenced, the state comes from the coordinator again."""

    async def story(scene: Scene) -> None:
        scene.append(b"a", b"b")
        ann, ben = scene.member("ann"), scene.member("ben")
        assert await ann.fetch(0) == _got((0, 1, 1), values=[b"a", b"b"])
        await scene.initialize(start=1, epoch=2)
        assert await ann.acknowledge({0: [(0, 1, [ACCEPT])]}) == {0: ErrorCode.FENCED_STATE_EPOCH}
        assert await ben.fetch(0) == _got((1, 1, 1), values=[b"b"])
        assert await ben.acknowledge({0: [(1, 1, [ACCEPT])]}, epoch=-1) == {0: NONE}
        ann.disconnect()
        await until(lambda: not scene.shared())
        await scene.initialize(start=0, epoch=3)
        assert await ben.fetch(0, epoch=0) == _got((0, 1, 1), values=[b"a", b"b"])

    play(story)


def test_forgotten_partition() -> None:
    """A fetch that waits while the state is altered is sent back; the next one begins where it says."""

    async def story(scene: Scene) -> None:
        member = scene.member("m")
        waiting = asyncio.create_task(member.fetch(0, wait_ms=500_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        scene.node.shares.forget(GroupId("g"), (T, 0))
        assert await waiting == {0: Got(ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE, [], [])}
        await scene.initialize(start=1, epoch=2)
        scene.append(b"a", b"b")
        assert await member.fetch() == _got((1, 1, 1), values=[b"b"])

    play(story)


def test_deleted_topic() -> None:
    """A waiting fetch of a topic that is deleted is told so, and the share-partition is forgotten."""

    async def story(scene: Scene) -> None:
        member = scene.member("m")
        waiting = asyncio.create_task(member.fetch(0, wait_ms=500_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        scene.node.topics.delete(scene.topic, scene.node.system_time())
        assert await waiting == {0: Got(ErrorCode.UNKNOWN_TOPIC_ID, NONE, [], [])}
        assert not scene.shared()

    play(story)


def test_first_fetches_that_come_at_once_share_one_partition() -> None:
    """Both members wait for what the group's shard knows; no record goes to two of them."""

    async def story(scene: Scene) -> None:
        for number in range(4):
            scene.append(b"%d" % number)
        members = [scene.member(name) for name in ("ann", "ben", "cat")]
        fetches = [asyncio.create_task(one.fetch(0, most=1, batch_size=1, wait_ms=1_000)) for one in members]
        got = [one[0].acquired for one in await asyncio.gather(*fetches) if 0 in one]
        offsets = [offset for ranges in got for first, last, _ in ranges for offset in range(first, last + 1)]
        assert len(offsets) == len(set(offsets)) == 3
        assert scene.node.shares._counts.loads == 1

    play(story)
