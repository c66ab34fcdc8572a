"""Metrics over HTTP: collected on the event loop in slices, written as text in a thread.

What is counted changes with every request, and a look into it may change it (caches of names do): nobody but
the loop's thread touches it. A scrape of many groups takes many slices of a millisecond, and requests are
served between them. One scrape is collected at a time.

The server speaks as much of HTTP/1 as scraping takes: one GET a connection. Whoever connects and sends
nothing, or a byte now and then, costs no thread and keeps no other from being answered: there are few
connections at a time, the oldest makes room, and none lasts long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.runtime.failures import Where, unexpected
from headgate.server.metrics import Metrics

logger = logging.getLogger(__name__)

SLICE_SECONDS = 0.001
MOST_CONNECTIONS = 32
LONGEST_SECONDS = 30.0
"""From the connection to the end of the answer."""
LARGEST_REQUEST_BYTES = 16 << 10
_END_OF_REQUEST = b"\r\n\r\n"


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


class _Found(Collector):
    """What was collected, as Prometheus' text encoders take it."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        return iter(self._metrics)


def _as_text(metrics: list[Metric], accept: str) -> tuple[bytes, str]:
    """The text in the format that is asked for, and what it is called; in any thread."""
    registry = CollectorRegistry()
    registry.register(_Found(metrics))
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


class Scraping:
    """Answers scrapes, from any number of connections."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self._executor = ThreadPoolExecutor(1, "headgate-metrics")
        self._open: dict[_Scrape, None] = {}
        """The oldest first."""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that is asked for, and what it is called."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            found = await collect_in_slices(self._metrics)
            return await loop.run_in_executor(self._executor, _as_text, found, accept)

    def opened(self, scrape: _Scrape) -> None:
        """Somebody connected; who came first has to go when there are too many."""
        while len(self._open) >= MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            self.closed(oldest)
            oldest.end()
        self._open[scrape] = None

    def closed(self, scrape: _Scrape) -> None:
        """A connection is over."""
        self._open.pop(scrape, None)

    def close(self) -> None:
        """End all connections, and the thread."""
        for scrape in list(self._open):
            scrape.end()
        self._executor.shutdown(wait=True, cancel_futures=True)


class _Scrape(asyncio.Protocol):
    """One connection."""

    def __init__(self, scraping: Scraping) -> None:
        self._scraping = scraping
        self._transport: asyncio.Transport | None = None
        self._request = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._cancel_deadline: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._scraping.opened(self)
        self._cancel_deadline = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.end).cancel

    def connection_lost(self, reason: Exception | None) -> None:
        self._transport = None
        self._cancel_deadline()
        self._scraping.closed(self)
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport is None:
            return  # one request a connection
        self._request += data
        if _END_OF_REQUEST in self._request:
            self._transport.pause_reading()
            self._answering = asyncio.get_running_loop().create_task(self._answer())
        elif len(self._request) > LARGEST_REQUEST_BYTES:
            self.end()

    def end(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _answer(self) -> None:
        line, *headers = bytes(self._request).partition(_END_OF_REQUEST)[0].decode("latin-1").split("\r\n")
        method = line.partition(" ")[0]
        accept = ",".join(text[7:] for text in headers if text[:7].lower() == "accept:")
        status, body, content_type = "405 Method Not Allowed", b"", "text/plain"
        if method in ("GET", "HEAD"):
            try:
                body, content_type = await self._scraping.text(accept)
                status = "200 OK"
            except Exception:  # it was told where it was raised
                status = "500 Internal Server Error"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        if self._transport is not None:
            self._transport.write(f"{head}Connection: close\r\n\r\n".encode("latin-1"))
            self._transport.write(body if method != "HEAD" else b"")
            self._transport.close()


@contextlib.asynccontextmanager
async def metrics_server(address: tuple[str, int] | None, metrics: Metrics) -> AsyncIterator[int | None]:
    """Serve the metrics at this address for as long as the block lasts; on the loop that is asked.

    Gives the port. Raises OSError when the address cannot be had.
    """
    if address is None:
        yield None
        return
    host, port = address
    scraping = Scraping(metrics)
    server = await asyncio.get_running_loop().create_server(lambda: _Scrape(scraping), host, port)
    bound = int(server.sockets[0].getsockname()[1])
    logger.info("metrics are served", extra={"url": f"http://{host}:{bound}/metrics"})
    try:
        yield bound
    finally:
        server.close()
        scraping.close()
