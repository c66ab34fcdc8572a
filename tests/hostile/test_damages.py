"""Random damage to the files of a stopped server, for as long as requested.

The table of `tests/damage` has selected kinds of damage. Here any file is damaged in many ways at any
position. The requirement is the same: the server either serves all durable data, or refuses part of it and
changes nothing there; and `headgate log verify` predicts the result. `headgate log mend` makes every log
open, with all of its whole batches.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.damage.damages import Target
from tests.damage.directories import build
from tests.damage.mending import check_mended
from tests.damage.observe import observe
from tests.damage.table import try_out

MOST_BYTES = 200
"""Maximum size of one damage."""


def _flip(data: bytes, at: int, random: Random) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _zero(data: bytes, at: int, random: Random) -> bytes:
    end = min(len(data), at + random.randint(1, MOST_BYTES))
    return data[:at] + bytes(end - at) + data[end:]


def _zero_the_rest(data: bytes, at: int, random: Random) -> bytes:
    return data[:at] + bytes(len(data) - at)


def _cut(data: bytes, at: int, random: Random) -> bytes:
    return data[:at]


def _insert(data: bytes, at: int, random: Random) -> bytes:
    return data[:at] + random.randbytes(random.randint(1, MOST_BYTES)) + data[at:]


def _take_out(data: bytes, at: int, random: Random) -> bytes:
    return data[:at] + data[at + random.randint(1, MOST_BYTES) :]


def _overwrite(data: bytes, at: int, random: Random) -> bytes:
    noise = random.randbytes(random.randint(1, MOST_BYTES))
    return data[:at] + noise[: len(data) - at] + data[at + len(noise) :]


def _repeat(data: bytes, at: int, random: Random) -> bytes:
    end = at + random.randint(1, MOST_BYTES)
    return data[:end] + data[at:end] + data[end:]


def _append(data: bytes, at: int, random: Random) -> bytes:
    return data + random.randbytes(random.randint(1, MOST_BYTES))


CHANGES: tuple[Callable[[bytes, int, Random], bytes], ...] = (
    *[_flip] * 5,
    *[_cut] * 2,
    _zero,
    _zero_the_rest,
    _insert,
    _take_out,
    _overwrite,
    _repeat,
    _append,
)


def test_random_damages_come_to_what_verify_says(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any file and any position in it."""
    seconds: float = pytestconfig.getoption("hostile_seconds")
    seed: int = pytestconfig.getoption("hostile_seed")
    print(f"--hostile-seed {seed}")
    random = Random(seed)
    monkeypatch.setattr(logging.getLogger("headgate"), "propagate", False)
    ends = build(tmp_path)
    shutil.copytree(ends.closed, tmp_path / "whole")
    whole = observe(tmp_path / "whole")
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ending, source = random.choice([("closed", ends.closed), ("killed", ends.killed)])
        files = sorted(path for path in source.rglob("*") if path.is_file() and path.name != ".lock")
        name = str(random.choice([path for path in files if path.stat().st_size]).relative_to(source))
        change, fraction, draws = random.choice(CHANGES), random.random(), random.getrandbits(32)

        def damage(path: Path, older: Path) -> None:
            data = path.read_bytes()
            path.write_bytes(change(data, int(fraction * len(data)), Random(draws)))  # noqa: B023

        try:
            cell = try_out(ends, whole, Target(name, name), damage, ending, tmp_path)
        except AssertionError as problem:
            pytest.fail(f"{change.__name__} at {fraction} of {name}, {ending}, draws {draws}: {problem}")
        outcomes["no such file" if cell is None else cell.outcome] += 1
    assert outcomes, "not one damage was tried"
    print(f"{sum(outcomes.values())} damages: {dict(outcomes)}")


def test_logs_with_random_damages_are_mended(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any segment of any partition, at any position."""
    seconds: float = pytestconfig.getoption("hostile_seconds")
    seed: int = pytestconfig.getoption("hostile_seed")
    print(f"--hostile-seed {seed}")
    random = Random(seed)
    monkeypatch.setattr(logging.getLogger("headgate"), "propagate", False)
    ends = build(tmp_path)
    shutil.copytree(ends.closed, tmp_path / "whole")
    whole = observe(tmp_path / "whole")
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        ending, source = random.choice([("closed", ends.closed), ("killed", ends.killed)])
        files = [path for path in source.rglob("*.log") if path.parent.name != "catalogue"]
        name = str(random.choice(sorted(files)).relative_to(source))
        change, fraction, draws = random.choice(CHANGES), random.random(), random.getrandbits(32)

        def damage(path: Path, older: Path) -> None:
            data = path.read_bytes()
            path.write_bytes(change(data, int(fraction * len(data)), Random(draws)))  # noqa: B023

        data_dir = tmp_path / "mended"
        try:
            target = Target(name, name)
            check_mended(ends, ending, whole, (target, damage), data_dir, is_flip=change is _flip)
        except AssertionError as problem:
            pytest.fail(f"{change.__name__} at {fraction} of {name}, {ending}, draws {draws}: {problem}")
        shutil.rmtree(data_dir)
        count += 1
    assert count, "not one damage was tried"
