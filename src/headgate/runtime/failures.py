"""Unexpected failures: exceptions that no rule of this program provides for. Each is logged and counted.

The place of the exception decides what follows:

1. In the decision (`handle`) or the encoding of a request: this request alone is refused, before anything of
   it is applied.
2. After that, where memory may be inconsistent (apply, write): the shard fails over to recovery.
3. In a connection, or in the making of a reply: this connection is closed.
4. In a background job (compaction, checkpoints, housekeeping, erasure, history, timers): the job continues.

`headgate_unexpected_failures_total` counts them by place. It is 0 on a server without a defect. Refusals by a
rule and errors of the disk are not unexpected failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from time import monotonic
from typing import Any

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

logger = logging.getLogger(__name__)

TRACES_A_SECOND = 5
"""Limit of tracebacks: a client that repeats a failing request must not fill the disk with them."""


class Where(Enum):
    """Place of an unexpected failure, as the metric's label names it."""

    REQUEST = "request"
    SHARD = "shard"
    TICK = "tick"
    REPLY = "reply"
    CONNECTION = "connection"
    METRICS = "metrics"
    SYNC = "sync"
    COMPACTION = "compaction"
    CHECKPOINT = "checkpoint"
    HOUSEKEEPING = "housekeeping"
    HISTORY = "history"
    ERASURE = "erasure"
    LOOP = "loop"
    """Callback of the event loop that belongs to no other place."""


_counts: Counter[Where] = Counter()
_traces: list[float] = []
"""Times of the last logged tracebacks, by the monotonic clock in seconds."""


def unexpected(where: Where, event: str, failure: BaseException, **fields: object) -> None:
    """Count an unexpected failure and log it with its cause; omit the traceback above the rate limit."""
    _count(where, failure)
    now = monotonic()
    while _traces and _traces[0] < now - 1:
        del _traces[0]
    has_room = len(_traces) < TRACES_A_SECOND
    if has_room:
        _traces.append(now)
    logger.error(
        "unexpected failure: %s",
        event,
        exc_info=failure if has_room else None,
        extra={"where": where.value, "error": repr(failure), **fields},
    )


def _count(where: Where, failure: BaseException) -> None:
    _counts[where] += 1


def counts() -> Mapping[Where, int]:
    """Return the number of failures since the start of the process, by place."""
    return dict(_counts)


def forget() -> None:
    """Reset the counts, for tests that inject failures."""
    _counts.clear()
    _traces.clear()


def failure_counters() -> Iterable[Metric]:
    """Return the counters for Prometheus, including the places without a failure."""
    family = CounterMetricFamily(
        "headgate_unexpected_failures",
        "Exceptions that nothing provides for, by place; each is in the log with its cause.",
        labels=["where"],
    )
    for where in Where:
        family.add_metric([where.value], _counts[where])
    yield family


def on_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count and log an exception of a callback or task; for `loop.set_exception_handler`."""
    failure = context.get("exception")
    message = str(context.get("message", "a callback failed"))
    if failure is None:
        logger.error("the event loop reported a fault", extra={"fault": message})
    elif isinstance(failure, OSError):
        logger.warning("the event loop reported an error", extra={"what": message, "error": str(failure)})
    else:
        unexpected(Where.LOOP, message, failure)
