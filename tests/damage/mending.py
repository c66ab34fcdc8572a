"""The check that a damaged log is mended: all that can be read is served, and what is lost is told before."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from tests.damage.damages import Damage, Target, positions
from tests.damage.directories import Ends
from tests.damage.observe import Seen, observe, tree

from headgate.inspect.findings import Severity
from headgate.inspect.mend import MendedLog, mend_directory
from headgate.inspect.verify import verify
from headgate.log.header import read_header

CHECKSUM_AT = 17
OF_OTHERS = " of other partitions: "
"""Of an error that stays: the keys in a segment of another partition."""


def errors(data_dir: Path) -> list[str]:
    """What `verify` finds damaged."""
    listed = verify(data_dir).findings.listed
    return [f"{one.file}: {one.what}" for one in listed if one.severity is Severity.ERROR]


def offsets_left(before: Path, after: bytes, skipped_bytes: int = 0) -> set[int]:
    """The offsets in batches of a segment that are still somewhere in the damaged one.

    As a whole, or without so many of their first bytes.
    """
    data = before.read_bytes()
    batches = [data[start:end] for start, end in itertools.pairwise(positions(before))]
    headers = [read_header(batch) for batch in batches if batch[skipped_bytes:] in after]
    return {offset for one in headers for offset in range(one.base_offset, one.next_offset)}


def offsets_lost(logs: list[MendedLog]) -> set[int]:
    """The offsets that mending says have no record any more."""
    places = [loss for log in logs for loss in log.losses]
    return {offset for one in places for offset in range(one.first_offset, one.end_offset)}


def check_mended(
    ends: Ends,
    ending: str,
    whole: Seen,
    change: tuple[Target, Damage],
    data_dir: Path,
    *,
    is_foreign: bool = False,
    is_flip: bool = False,
) -> None:
    """Damage a copy, mend it, start on it. Raises AssertionError.

    `is_foreign`: the log is that of another partition then. `is_flip`: only one byte is changed.
    """
    source = ends.closed if ending == "closed" else ends.killed
    target, damage = change
    shutil.copytree(source, data_dir)
    path = target.path(data_dir)
    place, inner = path.parent.name, path.relative_to(data_dir)
    damage(path, ends.older / inner)
    damaged = tree(data_dir)
    foreseen = mend_directory(data_dir, None, execute=False)
    assert tree(data_dir) == damaged, "it changed something without being asked to"
    mended = mend_directory(data_dir, None, execute=True)
    assert [(one.partition, one.losses) for one in mended] == [
        (one.partition, one.losses) for one in foreseen
    ]
    assert all(one.is_mended and one.problem is None for one in mended)
    assert [one for one in errors(data_dir) if not is_foreign or OF_OTHERS not in one] == []
    assert mend_directory(data_dir, None, execute=True) == []
    seen = observe(data_dir)
    assert seen.refused is None and not seen.shut and not any(seen.bad_batches.values())
    assert seen.shards.keys() == whole.shards.keys()
    if is_foreign:
        return
    for other in whole.records.keys() - {place}:
        assert seen.records[other] == whole.records[other]
    after = damaged.get(str(inner), b"")
    there = offsets_left(source / inner, (source / inner).read_bytes())
    missing = there - offsets_left(source / inner, after, CHECKSUM_AT)
    may_miss = there - offsets_left(source / inner, after)
    found = {offset for offset, _ in seen.records[place]}
    assert seen.records[place] == [one for one in whole.records[place] if one[0] in found]
    lost = {offset for offset, _ in whole.records[place]} - found
    if is_flip:
        assert lost == missing & {offset for offset, _ in whole.records[place]}
    assert lost <= may_miss
    told = offsets_lost(mended)
    assert told <= lost
    if ending == "closed":
        assert told == lost
    if not lost:
        assert seen.shards == whole.shards
