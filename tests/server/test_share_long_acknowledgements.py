"""Acknowledgements of very many records at once: checked as a whole, applied in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.server.share_members import Member, Scene, play, until

from headgate.core.share.partition.acquiring import MOST_RANGES
from headgate.core.share.partition.model import AcknowledgementBatch
from headgate.core.share.partition.share_partition import SharePartition
from headgate.domain.errors import ErrorCode
from headgate.server.shares import acknowledging

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
NONE = ErrorCode.NONE
RECORDS = 200
MOST = 16

pytestmark = pytest.mark.interpreted


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make parts small, and note what each call of the state machine has to look at."""
    looked_at: list[int] = []

    def noted(name: str) -> None:
        method = getattr(SharePartition, name)

        def call(
            machine: SharePartition, member_id: Any, batches: Sequence[AcknowledgementBatch], *more: Any
        ) -> Any:
            ranges = sum(len(machine.pieces(first, last, 10_000)) for first, last, _ in batches)
            looked_at.append(max(ranges, sum(len(types) for _, _, types in batches)))
            return method(machine, member_id, batches, *more)

        monkeypatch.setattr(SharePartition, name, call)

    noted("acknowledge")
    noted("refusal")
    monkeypatch.setattr(acknowledging, "MOST_A_PART", MOST)
    return looked_at


async def member_with_all(scene: Scene, *, is_one_batch: bool) -> Member:
    """Return a member that has acquired all records, in one range or in many."""
    values = [b"%d" % number for number in range(RECORDS)]
    for some in [values] if is_one_batch else [[value] for value in values]:
        scene.append(*some)
    member = scene.member("m")
    got = await member.fetch(0, batch_size=RECORDS if is_one_batch else 1)
    assert len(got[0].values) == RECORDS <= MOST_RANGES
    return member


async def again(member: Member) -> set[int]:
    """Fetch what was released; return its offsets."""
    found: set[int] = set()
    while got := await member.fetch():
        found |= {at for first, last, _ in got[0].acquired for at in range(first, last + 1)}
    return found


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_alternating_types_of_one_batch_are_applied_in_parts(parts: list[int], is_one_batch: bool) -> None:
    """The answer comes when all are durable; no step has more than its part."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=is_one_batch)
        types = [ACCEPT, RELEASE] * (RECORDS // 2)
        assert await member.acknowledge({0: [(0, RECORDS - 1, types)]}) == {0: NONE}
        assert max(parts) <= MOST
        assert len(parts) >= 2 * RECORDS // MOST
        assert await again(member) == set(range(1, RECORDS, 2))

    play(story)


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_one_type_for_all_records_is_as_long_as_the_ranges_are_many(
    parts: list[int], is_one_batch: bool
) -> None:
    """One range of many records is one part."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=is_one_batch)
        assert await member.acknowledge({0: [(0, RECORDS - 1, [ACCEPT])]}) == {0: NONE}
        assert max(parts) <= MOST
        assert (len(parts) == 2) == is_one_batch
        (shared,) = scene.shared()
        assert shared.machine is not None and shared.machine.start_offset == RECORDS

    play(story)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ((RECORDS - 1, RECORDS - 1, [ACCEPT]), NONE),
        ((RECORDS - 1, RECORDS, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((RECORDS - 2, RECORDS - 1, [ACCEPT]), ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_a_refused_acknowledgement_changes_nothing(
    parts: list[int], last: tuple[int, int, list[int]], error: ErrorCode
) -> None:
    """Although its fault is in the last part: a record that was never delivered, or one named twice."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=True)
        batches = [(at, at, [RELEASE]) for at in range(RECORDS - 1)]
        assert await member.acknowledge({0: [*batches, last]}) == {0: error}
        assert max(parts) <= MOST
        assert await again(member) == (set() if error else set(range(RECORDS - 1)))
        if error:
            assert await member.acknowledge({0: [(0, RECORDS - 1, [ACCEPT])]}) == {0: NONE}

    play(story)


def test_records_of_somebody_else_in_the_middle_refuse_all(parts: list[int]) -> None:
    """They are not acquired by this member."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=False)
        assert await member.acknowledge({0: [(100, 100, [RELEASE])]}) == {0: NONE}
        other = scene.member("n")
        assert (await other.fetch(0))[0].acquired == [(100, 100, 2)]
        types = [RELEASE, REJECT] * (RECORDS // 2)
        refused = await member.acknowledge({0: [(0, RECORDS - 1, types)]})
        assert refused == {0: ErrorCode.INVALID_RECORD_STATE}
        assert await again(member) == set()

    play(story)


def test_scattered_records_of_a_large_window_are_acknowledged_some_at_a_time(
    parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them changes another chunk of the window, and another block of the state."""
    monkeypatch.setattr(acknowledging, "MOST_SCATTERED", 4)
    monkeypatch.setattr(acknowledging, "LARGE_WINDOW", RECORDS - 1)

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=False)
        batches = [(at, at, [RELEASE]) for at in range(0, RECORDS, 20)]
        assert await member.acknowledge({0: batches}) == {0: NONE}
        assert len(parts) == 2 * 3 and max(parts) <= 4
        assert await again(member) == set(range(0, RECORDS, 20))

    play(story)


@pytest.mark.parametrize("is_fetch", [True, False])
def test_a_last_request_takes_nothing_from_the_next_session_of_its_member(
    parts: list[int], is_fetch: bool
) -> None:
    """The member began it on another connection, while the last request was applied in parts."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=False)
        parts.clear()
        given = {0: [(0, RECORDS - 2, [ACCEPT])]}
        last = member.fetch(acknowledge=given, epoch=-1) if is_fetch else member.acknowledge(given, epoch=-1)
        answer = asyncio.create_task(last)
        await until(lambda: len(parts) > 0)
        scene.append(b"new")
        again = scene.member("m")
        assert (await again.fetch(0))[0].acquired == [(RECORDS, RECORDS, 1)]
        assert not answer.done()
        await answer
        assert await scene.member("n").fetch(0) == {}
        assert await again.acknowledge({0: [(RECORDS - 1, RECORDS, [ACCEPT])]}) == {0: NONE}

    play(story)


def test_all_locks_are_renewed_in_parts(parts: list[int]) -> None:
    """And the records can be acknowledged after that."""

    async def story(scene: Scene) -> None:
        member = await member_with_all(scene, is_one_batch=False)
        renewed = await member.acknowledge({0: [(0, RECORDS - 1, [RENEW])]}, is_renew_ack=True)
        assert renewed == {0: NONE}
        assert max(parts) <= MOST
        assert await member.acknowledge({0: [(0, RECORDS - 1, [ACCEPT])]}) == {0: NONE}

    play(story)
