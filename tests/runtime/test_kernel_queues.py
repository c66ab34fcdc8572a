"""Memory shared with the kernel: every index is written in one piece, and no outcome is lost."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from tests.waiting import wait_until

from headgate.runtime.kernel_queues import Outcome, RingQueue

NO_FILE = 1_000_000
"""A descriptor that is not open: a sync of it ends at once, with EBADF."""


@pytest.fixture
def ring() -> Iterator[RingQueue]:
    try:
        queue = RingQueue()
    except OSError as reason:
        pytest.skip(f"not on this machine: {reason}")
    yield queue
    queue.close()


def take_all(ring: RingQueue, count: int) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def is_all_taken() -> bool:
        outcomes.extend(ring.take(0))
        return len(outcomes) >= count

    wait_until(is_all_taken, lambda: f"{count} outcomes, not {len(outcomes)}")
    return outcomes


def test_the_kernel_never_reads_another_head_than_was_written(ring: RingQueue) -> None:
    """The word has no intermediate value, which would lose outcomes."""
    ring.submit(NO_FILE, 1)
    take_all(ring, 1)
    assert set(lowest_heads(ring, seconds=2)) == {1}


def lowest_heads(ring: RingQueue, seconds: float) -> list[int]:
    """Return what another thread reads while the word is written: the lowest of 16,384 values, repeatedly."""
    word = np.frombuffer(ring._lines, np.uint32)[ring._head_at : ring._head_at + 1]
    often = np.lib.stride_tricks.as_strided(word, shape=(1 << 14,), strides=(0,))
    lowest: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            lowest.append(int(np.minimum.reduce(often)))  # without the interpreter's lock

    watcher = threading.Thread(target=watch)
    watcher.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(1000):
            ring.take(0)
    is_over.set()
    watcher.join()
    return lowest


def test_more_outcomes_than_have_a_place_are_all_taken(ring: RingQueue) -> None:
    """Outcomes that the kernel holds back are returned without another submission."""
    count = 3 * ring.most_outcomes
    for number in range(count):
        ring.submit(NO_FILE, number)
    outcomes = take_all(ring, count)
    assert sorted(outcomes) == [(number, -errno.EBADF) for number in range(count)]
    ring.submit(NO_FILE, count)
    assert take_all(ring, 1) == [(count, -errno.EBADF)]


def test_as_many_as_are_waited_for_are_taken_where_some_were_kept_aside(ring: RingQueue) -> None:
    """A stop waits for all outcomes in one call."""
    count = 2 * ring.most_outcomes
    for number in range(count):
        ring.submit(NO_FILE, number)
    outcomes = ring.take(ring.most_outcomes)
    outcomes += take_all(ring, count - len(outcomes))
    assert len({number for number, _ in outcomes}) == count
