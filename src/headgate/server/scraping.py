"""Metrics over HTTP: collected on the event loop in slices, encoded as text in a thread.

    /metrics    the metrics, for Prometheus (also /)
    /healthz    200 while the event loop serves: restart the process if there is no answer
    /readyz     200 if every request can be served; 503 with the reasons while shards load or a disk fails

Counters change with every request, and reading them may change caches of names, so only the loop's thread
reads them. A scrape of many groups takes many slices of a millisecond, with requests served in between. One
collection at a time serves all scrapes that wait when it begins. The next one begins after a pause, so that
collections take at most a fifth of the loop's time, however many clients scrape.

The server supports the part of HTTP/1 that scrapes need: one GET per connection. A client that sends nothing,
or a byte now and then, takes no thread and blocks no other client: the number of connections and their
duration are limited. Above the limit, a connection that has not sent its request or does not read its answer
is closed. While many wait for metrics, a further one gets 503: others are always answered about the health.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.runtime.failures import Where, unexpected
from headgate.server.binding import bound_server
from headgate.server.metrics import Metrics

logger = logging.getLogger(__name__)

SLICE_SECONDS = 0.001
MOST_CONNECTIONS = 32
MOST_SCRAPES = 24
"""Connections that wait for metrics. Those that ask for the health do not wait."""
LONGEST_SECONDS = 30.0
"""Duration of a connection, from its opening to the end of the answer."""
LARGEST_REQUEST_BYTES = 16 << 10
PAUSE_AFTER = 4
"""Length of the pause after a collection, as a multiple of the collection's duration."""
_END_OF_REQUEST = b"\r\n\r\n"


async def collect_in_slices(metrics: Metrics) -> list[Metric]:
    """Collect all metrics on the loop in slices. Raises what a metric raises, after reporting it."""
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
    """Collected metrics, as input for the text encoders of prometheus_client."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Return all collected metrics."""
        return iter(self._metrics)


Encoder = Callable[[CollectorRegistry], bytes]
NotReady = Callable[[], Iterable[str]]


def _encoder_for(accept: str) -> tuple[Encoder, str]:
    """Return the encoder for an Accept header and its content type; the default for an invalid header."""
    try:
        return choose_encoder(accept)
    except Exception:  # the function parses versions and raises for invalid ones
        return choose_encoder("")


def _as_text(metrics: list[Metric], encoder: Encoder) -> bytes:
    """Encode the metrics; may run in any thread."""
    registry = CollectorRegistry()
    registry.register(_Found(metrics))
    return encoder(registry)


class _Collected:
    """The metrics of one collection, and their texts by content type."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics
        self.texts: dict[str, asyncio.Future[bytes]] = {}


class Scraping:
    """Answers scrapes from any number of connections."""

    def __init__(self, metrics: Metrics, not_ready: NotReady) -> None:
        self._metrics = metrics
        self.not_ready = not_ready
        self._lock = asyncio.Lock()
        self._pause_seconds = 0.0
        """Pause before the next collection."""
        self._next: asyncio.Task[_Collected | None] | None = None
        """The collection that has not begun; all scrapes that arrive now wait for it."""
        self._executor = ThreadPoolExecutor(1, "headgate-metrics")
        self._waiting = 0
        self._open: dict[_Scrape, None] = {}
        """Open connections, the oldest first."""

    @property
    def is_busy(self) -> bool:
        """Whether as many scrapes wait as may."""
        return self._waiting >= MOST_SCRAPES

    async def text(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics as text and their content type, or None if the collection failed."""
        self._waiting += 1
        try:
            return await self._text(accept)
        finally:
            self._waiting -= 1

    async def _text(self, accept: str) -> tuple[bytes, str] | None:
        loop = asyncio.get_running_loop()
        encoder, content_type = _encoder_for(accept)
        if self._next is None:
            self._next = loop.create_task(self._collect())
        found = await asyncio.shield(self._next)
        if found is None:
            return None
        text = found.texts.get(content_type)
        if text is None:
            text = loop.run_in_executor(self._executor, _as_text, found.metrics, encoder)
            found.texts[content_type] = text
        return await asyncio.shield(text), content_type

    async def _collect(self) -> _Collected | None:
        async with self._lock:
            await asyncio.sleep(self._pause_seconds)
            self._next = None
            began = perf_counter()
            try:
                return _Collected(await collect_in_slices(self._metrics))
            except Exception:  # reported where it was raised
                return None
            finally:
                self._pause_seconds = PAUSE_AFTER * (perf_counter() - began)

    def opened(self, scrape: _Scrape) -> None:
        """Add a connection. At the limit, close the oldest one that waits for no answer, or else this one."""
        if len(self._open) >= MOST_CONNECTIONS:
            goes = next((one for one in self._open if not one.waits_for_answer), scrape)
            self.closed(goes)
            goes.end()
            if goes is scrape:
                return
        self._open[scrape] = None

    def closed(self, scrape: _Scrape) -> None:
        """Remove a closed connection."""
        self._open.pop(scrape, None)

    def close(self) -> None:
        """Close all connections and stop the thread."""
        for scrape in list(self._open):
            scrape.end()
        if self._next is not None:
            self._next.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)


class _Answer(NamedTuple):
    status: str
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


class _Scrape(asyncio.Protocol):
    """One connection."""

    def __init__(self, scraping: Scraping) -> None:
        self._scraping = scraping
        self._transport: asyncio.Transport | None = None
        self._request = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._cancel_deadline: Callable[[], None] = lambda: None
        self.waits_for_answer = False
        """Whether the request is complete and nothing of the answer was sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, and limit its duration."""
        self._transport = cast(asyncio.Transport, transport)
        self._scraping.opened(self)
        self._cancel_deadline = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.end).cancel

    def connection_lost(self, reason: Exception | None) -> None:
        """Remove the lost connection, and stop answering it."""
        self._transport = None
        self._cancel_deadline()
        self._scraping.closed(self)
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        """Collect the request, and answer it when its header is complete."""
        if self._answering is not None or self._transport is None:
            return  # one request per connection
        self._request += data
        if _END_OF_REQUEST in self._request:
            self._transport.pause_reading()
            self.waits_for_answer = True
            self._answering = asyncio.get_running_loop().create_task(self._answer())
        elif len(self._request) > LARGEST_REQUEST_BYTES:
            self.end()

    def end(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    async def _answer_to(self, path: str, accept: str) -> _Answer:
        if path == "/healthz":
            return _Answer("200 OK", b"ok\n")
        if path == "/readyz":
            reasons = list(self._scraping.not_ready())
            if not reasons:
                return _Answer("200 OK", b"ready\n")
            return _Answer("503 Service Unavailable", "".join(f"{one}\n" for one in reasons).encode())
        if path not in ("/", "/metrics"):
            return _Answer("404 Not Found", b"there are /metrics, /healthz and /readyz\n")
        if self._scraping.is_busy:
            return _Answer("503 Service Unavailable", b"too many scrapes wait for the metrics\n")
        text = await self._scraping.text(accept)
        return _Answer("500 Internal Server Error") if text is None else _Answer("200 OK", *text)

    async def _answer(self) -> None:
        line, *headers = bytes(self._request).partition(_END_OF_REQUEST)[0].decode("latin-1").split("\r\n")
        method, _, target = line.partition(" ")
        accept = ",".join(text[7:] for text in headers if text[:7].lower() == "accept:")
        answer = _Answer("405 Method Not Allowed")
        if method in ("GET", "HEAD"):
            answer = await self._answer_to(target.partition(" ")[0].partition("?")[0], accept)
        status, body, content_type = answer
        head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self.waits_for_answer = False
        if self._transport is not None:
            self._transport.write(f"{head}Connection: close\r\n\r\n".encode("latin-1"))
            self._transport.write(body if method != "HEAD" else b"")
            self._transport.close()


@contextlib.asynccontextmanager
async def metrics_server(
    address: tuple[str, int] | None, metrics: Metrics, not_ready: NotReady = tuple
) -> AsyncIterator[int | None]:
    """Serve the metrics at this address until the block ends, on the running loop.

    `not_ready` returns why requests cannot be served; nothing if they can.
    Yields the bound port, or None without an address. Raises OSError when the address is not available.
    """
    if address is None:
        yield None
        return
    host, port = address
    scraping = Scraping(metrics, not_ready)
    server = await bound_server(lambda: _Scrape(scraping), host, port)
    bound = int(server.sockets[0].getsockname()[1])
    logger.info("metrics are served", extra={"url": f"http://{host}:{bound}/metrics"})
    try:
        yield bound
    finally:
        server.close()
        scraping.close()
