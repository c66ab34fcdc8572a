"""Unexpected failures: exceptions that no rule of this program provides for. Each is logged and counted.

What follows from one depends on where it is raised:

1. In the decision (`handle`) or the encoding of a request: the request is refused alone, before anything of
   it is applied.
2. Behind that, wherever memory may be in doubt (apply, write): the shard fails over to recovery.
3. In a connection, or while a reply is made: that connection is closed.
4. In a background job (compaction, checkpoints, housekeeping, erasure, history, timers): the job goes on.

`headgate_unexpected_failures_total` tells how many there were, by place. It is 0 on a server without a fault.
A refusal by a rule, and an error of the disk, is no unexpected failure.
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
"""A client that repeats what fails must not fill the disk with tracebacks."""


class Where(Enum):
    """The place of an unexpected failure, as the metric's label names it."""

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
    """A callback of the event loop that belongs to none of the others."""


_counts: Counter[Where] = Counter()
_traces: list[float] = []
"""When the last tracebacks were logged, by the monotonic clock in seconds."""


def unexpected(where: Where, event: str, failure: BaseException, **fields: object) -> None:
    """Count an unexpected failure and log it with its cause; of many in one second, some without trace."""
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
    """How many there were since the process began, by place."""
    return dict(_counts)


def forget() -> None:
    """Begin to count anew: for tests that plant failures."""
    _counts.clear()
    _traces.clear()


def failure_counters() -> Iterable[Metric]:
    """The counters for Prometheus; every place is there from the beginning."""
    family = CounterMetricFamily(
        "headgate_unexpected_failures",
        "Exceptions that nothing provides for, by place; each is in the log with its cause.",
        labels=["where"],
    )
    for where in Where:
        family.add_metric([where.value], _counts[where])
    yield family


def on_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count and log what a callback or a task of the loop raised; for `loop.set_exception_handler`."""
    failure = context.get("exception")
    message = str(context.get("message", "a callback failed"))
    if failure is None:
        logger.error("the event loop reported a fault", extra={"fault": message})
    elif isinstance(failure, OSError):
        logger.warning("the event loop reported an error", extra={"event": message, "error": str(failure)})
    else:
        unexpected(Where.LOOP, message, failure)
