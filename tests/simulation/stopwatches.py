"""The stopwatches of a real node's shards: what they show is random, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headgate.runtime import local_shards
from headgate.runtime.local_log import LocalLog


def with_stopwatches_of(random: Random) -> Callable[..., Any]:
    """Return `local_runtimes` for a node, whose runtimes measure neither their slices nor their syncs."""

    def local_runtimes(*given: Any) -> Any:
        runtimes = local_shards.local_runtimes(*given)
        for runtime in runtimes:
            runtime.seconds = random.random
            assert isinstance(runtime.log, LocalLog)
            runtime.log.seconds = random.random
        return runtimes

    return local_runtimes
