"""Unusable checkpoints: one that does not match the log is detected and ignored."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c
from tests.runtime.checkpointed import LATER_MS, Found, Life, begin, begin_with_a_checkpoint, next_life, run

from headgate.core.offsets import image
from headgate.log import state_file

pytestmark = pytest.mark.usefixtures("small_parts")


def _newer_format(life: Life) -> None:
    life.checkpoint = life.checkpoint.replace(b"headgate shard 2", b"headgate shard 3", 1)


def _rewritten(change: Callable[[dict[str, Any]], None]) -> Callable[[Life], None]:
    """Change the footer, with a valid checksum."""

    def rewrite(life: Life) -> None:
        data = life.checkpoint
        size, _, mark = state_file._TAIL.unpack(data[-state_file._TAIL.size :])
        at = len(data) - state_file._TAIL.size - size
        footer = json.loads(data[at : at + size])
        change(footer)
        text = json.dumps(footer).encode()
        tail = state_file._TAIL.pack(len(text), crc32c(text), mark)
        life.checkpoint = data[:at] + text + tail

    return rewrite


def _cut(life: Life) -> None:
    life.checkpoint = life.checkpoint[:-40]


def _empty(life: Life) -> None:
    life.checkpoint = b""


def _without_names(footer: dict[str, Any]) -> None:
    footer["sections"] = [one for one in footer["sections"] if one[0] != image.GROUPS]


USELESS: dict[str, Callable[[Life], None]] = {
    "of a newer format": _newer_format,
    "cut off": _cut,
    "empty": _empty,
    "of another topic": _rewritten(lambda footer: footer["bond"].update(topic_id="00" * 16)),
    "of another partition": _rewritten(lambda footer: footer["bond"].update(partition=1)),
    "of another machine": _rewritten(lambda footer: footer.update(byte_order="middle")),
    "of a log that starts elsewhere": _rewritten(lambda footer: footer["bond"].update(log_start_offset=2)),
    "of a longer log": _rewritten(lambda footer: footer["bond"].update(end_offset=10_000)),
    "of a log with another batch": _rewritten(
        lambda footer: footer["bond"].update(last_batch=[*footer["bond"]["last_batch"][:2], 1])
    ),
    "with a footer that is none": _rewritten(lambda footer: footer.clear()),
    "that lacks a part": _rewritten(_without_names),
}


@pytest.mark.parametrize("useless", USELESS.values(), ids=USELESS.keys())
def test_a_checkpoint_of_no_use_is_ignored_and_said_to_be(
    useless: Callable[[Life], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The whole log is read, a log line gives the reason, and the next checkpoint replaces it."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        await life.fill(first=4, count=3)
        life.kill()
        useless(life)
        with caplog.at_level(logging.WARNING):
            again = await begin(life.files, dict(life.offsets))
        assert "a checkpoint cannot be used" in caplog.text
        assert again.held() == life.offsets
        assert again.runtime.checkpoint_position == 0
        await again.write()
        again.kill()
        assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)

    run(scenario)


def test_a_checkpoint_with_a_byte_changed_is_found_out() -> None:
    """Bytes at many positions: the offsets are correct, from the log if necessary."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        life.kill()
        good = life.checkpoint
        for at in range(0, len(good), 29):
            life.checkpoint = good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]
            again = await begin(life.files)
            assert again.held() == life.offsets, at
            assert again.runtime.checkpoint_position == 0, at
            again.kill()

    run(scenario)


def test_a_log_that_was_cut_back_behind_a_checkpoint_is_right() -> None:
    """The end of the log is lost, and other records replace it, until the log is longer than before."""

    async def scenario() -> None:
        life = await begin()
        await life.fill()
        offsets, end = dict(life.offsets), life.partition.log.log_end_offset
        await life.fill(first=40, count=3)
        await life.write()
        life.partition.log.truncate(end)
        life.kill()
        again = await begin(life.files, offsets)
        assert again.held() == offsets
        await again.fill(first=80, count=6)
        again.kill()
        assert await next_life(again) == Found(again.offsets, used_the_checkpoint=False)

    run(scenario)


def test_records_deleted_from_the_log_do_not_come_back() -> None:
    """Records that DeleteRecords removed from the start of the log are not restored from the checkpoint."""

    async def scenario() -> None:
        life = await begin()
        for number in range(20):
            await life.commit("g", number, number)
        await life.write()
        life.partition.log.delete_before(10)
        life.kill()
        left = {place: offset for place, offset in life.offsets.items() if offset >= 10}
        assert await next_life(life) == Found(left, used_the_checkpoint=False)

    run(scenario)


def test_offsets_deleted_before_the_tombstone_was_compacted_away_stay_deleted() -> None:
    """The checkpoint has them, and the log has no record of them any more: the log decides."""

    async def scenario() -> None:
        life = await begin_with_a_checkpoint()
        await life.delete("g1", 1)
        await life.delete("g2", 2)
        for number in range(60):
            await life.commit("other", 0, number)
        life.compact(LATER_MS)
        for number in range(60):
            await life.commit("other", 0, number)
        life.compact(LATER_MS)
        life.kill()
        assert await next_life(life) == Found(life.offsets, used_the_checkpoint=False)

    run(scenario)


def test_a_checkpoint_outlives_the_compaction_of_what_lies_before_it() -> None:
    """Segments below its position are rewritten: it remains valid and is used."""

    async def scenario() -> None:
        life = await begin()
        await life.fill()
        for number in range(60):
            await life.commit("other", 0, number)
        await life.delete("g1", 1)
        await life.write()
        life.compact(LATER_MS)
        assert life.partition.log.compacted_to > 0
        await life.fill(first=2, count=3)
        life.kill()
        assert await next_life(life) == Found(life.offsets, used_the_checkpoint=True)

    run(scenario)
