"""Metrics over HTTP: collected on the event loop in slices, written as text in the thread of the HTTP server.

What is counted changes with every request, and a look into it may change it (caches of names do): nobody but
the loop's thread touches it. A scrape of many groups takes many slices of a millisecond, and requests are
served between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from time import perf_counter

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.server.failures import Where, unexpected
from headgate.server.metrics import Metrics

logger = logging.getLogger(__name__)

SLICE_SECONDS = 0.001
ANSWER_WITHIN_SECONDS = 20.0


class MetricsNotCollected(Exception):
    """The loop did not come round to it in time; the scrape is answered with an error."""


class LoopCollector(Collector):
    """Asks the loop for the metrics, from any other thread."""

    def __init__(self, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._metrics = metrics
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is found in one walk. Raises MetricsNotCollected."""
        found = asyncio.run_coroutine_threadsafe(collect_in_slices(self._metrics), self._loop)
        try:
            yield from found.result(ANSWER_WITHIN_SECONDS)
        except FutureTimeout:
            found.cancel()
            raise MetricsNotCollected(f"not within {ANSWER_WITHIN_SECONDS} s") from None


async def collect_in_slices(metrics: Metrics) -> list[Metric]:
    """Walk through the metrics on the loop; others have their turn between slices."""
    found: list[Metric] = []
    try:
        slice_end = perf_counter() + SLICE_SECONDS
        for metric in metrics.steps():
            if metric is not None:
                found.append(metric)
            if perf_counter() > slice_end:
                await asyncio.sleep(0)
                slice_end = perf_counter() + SLICE_SECONDS
    except Exception as failure:
        unexpected(Where.METRICS, "metrics cannot be collected", failure)
        raise
    return found


@contextlib.contextmanager
def metrics_server(address: tuple[str, int] | None, metrics: Metrics) -> Iterator[int | None]:
    """Serve the metrics at this address for as long as the block lasts; on the loop that is asked.

    Gives the port.
    """
    if address is None:
        yield None
        return
    host, port = address
    registry = CollectorRegistry()
    registry.register(LoopCollector(metrics, asyncio.get_running_loop()))
    server, thread = start_http_server(port, host, registry)
    logger.info("metrics are served", extra={"url": f"http://{host}:{server.server_port}/metrics"})
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
