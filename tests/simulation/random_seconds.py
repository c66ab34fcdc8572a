"""Shards whose clock for slices and early syncs is the seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headgate.runtime import local_shards
from headgate.runtime.local_log import LocalLog


def runtimes_with_seconds_of(random: Random) -> Callable[..., Any]:
    """Return `local_runtimes` with random times: those of a busy machine would differ from run to run."""

    def local_runtimes(*given: Any) -> Any:
        runtimes = local_shards.local_runtimes(*given)
        for runtime in runtimes:
            runtime.seconds = random.random
            assert isinstance(runtime.log, LocalLog)
            runtime.log.seconds = random.random
        return runtimes

    return local_runtimes
