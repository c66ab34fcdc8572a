"""What may happen to the files of a server that is stopped, each as a change of one of its directories."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.damage.directories import BEYOND_THE_MARK

from headgate.log.filesystem import OsFileSystem
from headgate.log.walking import walk_batches

Damage = Callable[[Path, Path], None]
"""Changes a file; the second path is the same file in an older copy, which may not be there."""


@dataclass(frozen=True)
class Target:
    """A file to be damaged: `pattern` names it, the first or the last of those that match."""

    title: str
    pattern: str
    is_last: bool = False

    def path(self, data_dir: Path) -> Path:
        """The file in a directory."""
        return sorted(data_dir.glob(self.pattern))[-1 if self.is_last else 0]


def positions(path: Path) -> list[int]:
    """Where the batches of a segment begin, and where the last one ends."""
    file = OsFileSystem().open(path)
    try:
        return [0, *(at + header.size for at, header, _ in walk_batches(file, 0, file.size()))]
    finally:
        file.close()


def _cut_between(path: Path, _: Path) -> None:
    """Leave the first half of the batches."""
    at = positions(path)
    _write(path, path.read_bytes()[: at[len(at) // 2]])


def _cut_within(path: Path, _: Path) -> None:
    at = positions(path)
    _write(path, path.read_bytes()[: at[len(at) // 2] + 40])


def _cut_at_the_end(path: Path, _: Path) -> None:
    _write(path, path.read_bytes()[: positions(path)[-2]])


def _cut_within_the_end(path: Path, _: Path) -> None:
    _write(path, path.read_bytes()[: positions(path)[-2] + 40])


def _flip_in(which: int) -> Damage:
    def flip(path: Path, _: Path) -> None:
        _flip(path, positions(path)[which] + 70)

    return flip


def _flip_in_a_batch(path: Path, _: Path) -> None:
    at = positions(path)
    _flip(path, at[len(at) // 2] + 70)


def _flip_header(path: Path, _: Path) -> None:
    at = positions(path)
    _flip(path, at[len(at) // 2] + 5)


def _flip_in_the_middle(path: Path, _: Path) -> None:
    _flip(path, path.stat().st_size // 2)


def _halve(path: Path, _: Path) -> None:
    data = path.read_bytes()
    _write(path, data[: len(data) // 2])


def _empty(path: Path, _: Path) -> None:
    _write(path, b"")


def _remove(path: Path, _: Path) -> None:
    path.unlink()


def _double(path: Path, _: Path) -> None:
    data = path.read_bytes()
    _write(path, data + data[positions(path)[-4] :])


def _swap(path: Path, _: Path) -> None:
    """Put the same file of the other partition in its place, and this one in the place of that."""
    name = path.parent.name
    other = path.parent.with_name(f"{name[:-1]}{1 - int(name[-1])}") / path.name
    mine = path.read_bytes()
    _write(path, other.read_bytes())
    _write(other, mine)


def _older(path: Path, older: Path) -> None:
    """Put the file back from an older copy, where there was one."""
    if older.exists():
        shutil.copyfile(older, path)
    else:
        path.unlink()


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x04
    _write(path, bytes(data))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


SEGMENT: dict[str, Damage] = {
    "cut between two batches": _cut_between,
    "cut within a batch": _cut_within,
    "a byte flipped in a batch": _flip_in_a_batch,
    "a byte flipped in a header": _flip_header,
    "missing": _remove,
    "empty": _empty,
    "swapped with another partition's": _swap,
    "its last batches appended again": _double,
}
TAIL: dict[str, Damage] = {
    "cut before its last batch": _cut_at_the_end,
    "cut within its last batch": _cut_within_the_end,
    "a byte flipped in its first batch": _flip_in(0),
    "a byte flipped in its last batch": _flip_in(-2),
    f"a byte flipped {BEYOND_THE_MARK} batches before its end": _flip_in(-1 - BEYOND_THE_MARK),
}
SMALL_FILE: dict[str, Damage] = {
    "a byte flipped": _flip_in_the_middle,
    "cut": _halve,
    "missing": _remove,
    "empty": _empty,
    "swapped with another partition's": _swap,
    "an older copy": _older,
}
NODE_FILE = {name: damage for name, damage in SMALL_FILE.items() if not name.startswith("swapped")}
CATALOGUE = {
    name: damage for name, damage in {**SEGMENT, **TAIL}.items() if not name.startswith("swapped")
} | {"an older copy": _older}


def _log(title: str, directory: str) -> list[tuple[Target, dict[str, Damage]]]:
    return [
        (Target(f"{title}: an older segment", f"{directory}/*.log"), SEGMENT),
        (Target(f"{title}: the last segment", f"{directory}/*.log", is_last=True), SEGMENT | TAIL),
    ]


OFFSETS, HISTORY = "__consumer_offsets-0", "__consumer_offsets_history-0"
TRANSACTIONS = "__transaction_state-0"
SHARES = "__share_group_state-0"
ROWS: list[tuple[Target, dict[str, Damage]]] = [
    *_log("a durable topic", "durable-0"),
    *_log("a topic on the page cache", "cached-0"),
    (Target("index", "durable-0/00000000000000000027.index"), SMALL_FILE),
    (Target("time index", "durable-0/00000000000000000027.timeindex"), SMALL_FILE),
    (Target("`headgate.checkpoint`", "durable-0/headgate.checkpoint"), SMALL_FILE),
    (Target("`headgate.synced`", "durable-0/headgate.synced"), SMALL_FILE),
    (Target("`leader-epoch-checkpoint`", "durable-0/leader-epoch-checkpoint"), SMALL_FILE),
    (Target("`producers.snapshot`", "durable-0/producers.snapshot"), SMALL_FILE),
    *_log("`__consumer_offsets`", OFFSETS),
    (Target("`shard.checkpoint`", f"{OFFSETS}/shard.checkpoint"), SMALL_FILE),
    *_log("`__transaction_state`", TRANSACTIONS),
    (Target("`shard.checkpoint` of `__transaction_state`", f"{TRANSACTIONS}/shard.checkpoint"), SMALL_FILE),
    *_log("`__share_group_state`", SHARES),
    (Target("`shard.checkpoint` of `__share_group_state`", f"{SHARES}/shard.checkpoint"), SMALL_FILE),
    (Target("the history of offsets", f"{HISTORY}/*.log", is_last=True), SEGMENT | TAIL),
    (Target("the catalogue", "catalogue/*.log", is_last=True), CATALOGUE),
    (Target("`headgate.synced` of the catalogue", "catalogue/headgate.synced"), NODE_FILE),
    (Target("`meta.properties`", "meta.properties"), NODE_FILE),
    (Target("`clean-shutdown`", "clean-shutdown"), NODE_FILE),
]
