"""The table of damages: what `verify` says of each, and what the server does then.

Every cell is tried out. `try_out` raises AssertionError where a server neither serves all that was durable
nor refuses what it concerns and changes nothing there.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.damage.damages import Damage, Target
from tests.damage.directories import BEYOND_THE_MARK, Ends
from tests.damage.observe import Seen, observe, tree

from headgate.inspect.findings import Severity
from headgate.inspect.verify import verify

ALL = "serves all"
ALL_BUT_BATCH = "serves all but the damaged batch, which it refuses"
ALL_BUT_BATCHES = "serves all but the batches from there to the next index entry, which it refuses"
NO_PARTITION = "refuses the partition"
NO_SHARD = "refuses the shard"
NO_START = "does not start"
NO_TAIL = "ends the log there, as after a torn write"
SHORTER = "continues without it, as if it had never been written"
FOREIGN = "serves them: nothing in a segment says whose it is"
_WRITTEN_AT_STOP = (".index", ".timeindex", "headgate.synced")
"""What is derived, and written when a log that could be opened is closed, though its shard was not loaded."""
_SHARDS = ("__consumer_offsets-", "__transaction_state-", "__share_group_state-")
ERROR, NOTE, NOTHING = "error", "note", "nothing"


@dataclass(frozen=True)
class Cell:
    """What became of one damage, and how bad `verify` found it before."""

    outcome: str
    verified: str


def cells_of(
    ends: Ends, whole: Seen, target: Target, damages: dict[str, Damage], place: Path
) -> dict[str, tuple[Cell | None, Cell | None]]:
    """What becomes of each damage of a file, after a clean stop and after a SIGKILL."""
    return {
        name: (
            try_out(ends, whole, target, damage, "closed", place),
            try_out(ends, whole, target, damage, "killed", place),
        )
        for name, damage in damages.items()
    }


def try_out(ends: Ends, whole: Seen, target: Target, damage: Damage, ending: str, place: Path) -> Cell | None:
    """Damage a copy, check it, start on it. None where there is no such file after this end."""
    source = ends.closed if ending == "closed" else ends.killed
    if not list(source.glob(target.pattern)):
        return None
    data_dir = place / "data"
    shutil.rmtree(data_dir, ignore_errors=True)
    shutil.copytree(source, data_dir)
    path = target.path(data_dir)
    untouched = tree(data_dir)
    damage(path, ends.older / path.relative_to(data_dir))
    damaged = tree(data_dir)
    touched = {name for name in damaged.keys() | untouched.keys() if damaged.get(name) != untouched.get(name)}
    verified = _verify(data_dir, touched)
    assert tree(data_dir) == damaged, "verify changed something"
    outcome = _judge(
        observe(data_dir), whole, damaged, tree(data_dir), {Path(one).parts[0] for one in touched}
    )
    shutil.rmtree(data_dir)
    _check_foretold(outcome, verified)
    return Cell(outcome, verified[0])


def _verify(data_dir: Path, touched: set[str]) -> tuple[str, str]:
    """The worst that is said of what was touched, and all the words of it."""
    places = {Path(name).parts[0] for name in touched}
    told = [one for one in verify(data_dir).findings.listed if Path(one.file).parts[0] in places]
    errors = [one for one in told if one.severity is Severity.ERROR]
    notes = [one for one in told if one.severity is Severity.NOTE]
    words = " ".join(f"{one.what} {one.next_step}" for one in errors or notes)
    return (ERROR if errors else NOTE if notes else NOTHING), words


def _check_foretold(outcome: str, verified: tuple[str, str]) -> None:
    """What `verify` says is what happens."""
    severity, words = verified
    if outcome in (NO_PARTITION, NO_SHARD):
        assert severity == ERROR, f"{outcome}, and verify said {verified}"
        assert "does not open this log" in words or "does not load this log" in words, words
    elif outcome == NO_START:
        assert severity == ERROR, f"{outcome}, and verify said {verified}"
        assert "does not start" in words, words
    elif outcome in (ALL_BUT_BATCH, ALL_BUT_BATCHES):
        assert severity == ERROR and "refuses to serve this batch" in words, words
    else:
        assert "does not open this log" not in words and "does not start" not in words, f"{outcome}: {words}"
    if outcome == NO_TAIL:
        assert severity in (NOTE, ERROR, NOTHING)


def _judge(
    seen: Seen, whole: Seen, damaged: dict[str, bytes], after: dict[str, bytes], places: set[str]
) -> str:
    if seen.refused is not None:
        assert after == damaged, "the server did not start, and changed something"
        return NO_START
    assert seen.cluster_id == whole.cluster_id
    assert seen.topics == whole.topics
    for name in whole.records.keys() - places:
        assert seen.records.get(name) == whole.records[name], f"{name} was not damaged"
    outcomes = {
        _judge_partition(name, seen, whole, damaged, after) for name in sorted(places & whole.records.keys())
    }
    for name, contents in whole.shards.items():
        if name not in seen.shards:
            assert name in places
            _assert_unchanged(name, damaged, after)
            outcomes -= {NO_PARTITION, ALL_BUT_BATCH, ALL_BUT_BATCHES}
            outcomes.add(NO_SHARD)
        elif NO_TAIL not in outcomes or name not in places:
            assert seen.shards[name] == contents, f"{name} has another state"
            if name in places:
                # Its checkpoint stands for the batch: no group misses anything.
                outcomes -= {ALL_BUT_BATCH, ALL_BUT_BATCHES}
                outcomes.add(ALL)
    bad = outcomes - {ALL}
    assert len(bad) <= 1, bad
    lines = [line for line in seen.logged if any(place in line for place in places)]
    if bad & {NO_PARTITION, NO_SHARD}:
        assert lines, f"no log line tells of it: {seen.logged}"
    if bad == {NO_TAIL} and not lines:
        return SHORTER
    return bad.pop() if bad else ALL


def _judge_partition(
    name: str, seen: Seen, whole: Seen, damaged: dict[str, bytes], after: dict[str, bytes]
) -> str:
    if name in seen.shut:
        _assert_unchanged(name, damaged, after)
        return NO_PARTITION
    assert seen.starts[name] == whole.starts[name], f"{name} starts elsewhere"
    expected, found = whole.records[name], seen.records[name]
    if found == expected:
        assert seen.epochs[name] == whole.epochs[name], f"{name}: {seen.epochs[name]} {whole.epochs[name]}"
        assert seen.next_sequences.get(name) == whole.next_sequences.get(name), f"{name}: sequences"
        return ALL
    bad = seen.bad_batches[name]
    if bad:
        assert found == [one for one in expected if one[0] not in bad], (
            f"{name}: more than a batch is missing"
        )
        return ALL_BUT_BATCH if len(bad) <= 3 else ALL_BUT_BATCHES
    if [one[0] for one in found] == [one[0] for one in expected] and _are_of_another(found, expected):
        return FOREIGN
    assert found == expected[: len(found)], f"{name}: other records"
    each = 1 if name.startswith("__") else 3
    missing = len(expected) - len(found)
    assert missing <= BEYOND_THE_MARK * each, f"{name} lacks {missing} records that were durable"
    return NO_TAIL


def _are_of_another(found: list[tuple[int, bytes | None]], expected: list[tuple[int, bytes | None]]) -> bool:
    """Whether records differ in nothing but the partition that they name."""
    names = (b"-0 ", b"-1 ")
    plain = [
        [(value or b"").replace(names[0], b"").replace(names[1], b"") for _, value in one]
        for one in (found, expected)
    ]
    return plain[0] == plain[1]


def _assert_unchanged(name: str, damaged: dict[str, bytes], after: dict[str, bytes]) -> None:
    for files in (damaged, after):
        assert any(file.startswith(name + "/") for file in files)
    changed = [
        file
        for file in damaged.keys() | after.keys()
        if file.startswith(name + "/")
        and not (file.startswith(_SHARDS) and file.endswith(_WRITTEN_AT_STOP))
        and damaged.get(file) != after.get(file)
    ]
    assert not changed, f"{name} was refused, and {changed} changed"
