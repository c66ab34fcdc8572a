"""Makes a real node deterministic: its threads and its stopwatches are the simulation's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from tests.simulation.disk import SimulatedSyncer
from tests.simulation.journal import Journal
from tests.simulation.loop import SimulatedLoop
from tests.simulation.stopwatches import with_stopwatches_of

from headgate.core.transactions import decisions, transitions
from headgate.runtime.group_commit import GroupCommit
from headgate.server import node
from headgate.server.backlog import Backlog
from headgate.topics import appends, derived_state


class SimulatedAside:
    """The thread that checks large batches: its work takes a while, and is done in order."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self._loop = loop
        self._ready_at = 0.0
        self._is_closed = False

    def __call__(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
        """Run the work after a delay, and report its end."""
        self._ready_at = max(self._ready_at, self._loop.time() + self._loop.work_seconds())
        self._loop.call_at(self._ready_at, self._run, work, on_done)

    def _run(self, work: Callable[[], None], on_done: Callable[[BaseException | None], None]) -> None:
        if self._is_closed:
            return
        failure: BaseException | None = None
        try:
            work()
        except Exception as problem:
            failure = problem
        on_done(failure)

    def close(self) -> None:
        """Drop the rest."""
        self._is_closed = True


@contextmanager
def simulated_threads(
    random: Random, slowest_sync_seconds: float, greatest_epoch: int, journal: Journal
) -> Iterator[None]:
    """Replace the threads of all nodes that are made meanwhile, and let epochs end early."""

    def group_commit(loop: Any, observe: Any) -> GroupCommit:
        return GroupCommit(loop, observe, SimulatedSyncer(loop, random, slowest_sync_seconds))

    def rotated(*given: Any, **more: Any) -> Any:
        journal.counts["new producer ids"] += 1
        return transitions.rotated(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "GroupCommit", group_commit)
        patch.setattr(node, "AsideThread", SimulatedAside)
        patch.setattr(node, "local_runtimes", with_stopwatches_of(random))
        patch.setattr(Backlog, "seconds", lambda backlog: random.random())
        patch.setattr(appends, "BUDGET", 2)
        patch.setattr(derived_state, "_LAST_EPOCH", greatest_epoch)
        for module in (transitions, decisions):
            patch.setattr(module, "GREATEST_EPOCH", greatest_epoch)
        patch.setattr(decisions, "rotated", rotated)
        yield
