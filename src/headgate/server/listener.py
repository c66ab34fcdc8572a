"""The listening socket: accepts connections, closes idle ones, counts all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from headgate.api.registry import apis_by_key
from headgate.server.connection import Connection, Served
from headgate.server.metrics import Metrics, gauge
from headgate.server.node import BrokerNode
from headgate.server.turn import Turn

logger = logging.getLogger(__name__)


class Listener:
    """Everything between a node and its clients."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._cancel_sweep: Callable[[], None] = lambda: None
        apis = apis_by_key()
        self.metrics = Metrics({key: api.name for key, api in apis.items()})
        turn = Turn(node, self.metrics)
        self.served = Served(apis, self.metrics, turn, node.watch, node.request_work)
        self._open_connections = self.served.open_connections
        self.metrics.add_gauges(self._connection_gauges)
        self.metrics.add_gauges(node.gauges)
        self.metrics.add_gauges(node.watch.gauges)
        node.observe_sync = self.metrics.observe_sync
        node.send_responses = self.served.outbox.send
        self.registry = CollectorRegistry()
        self.registry.register(self.metrics)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; returns the address that was bound. Raises OSError when it cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._node, self.served),
            host,
            port,
            backlog=1024,
        )
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        self._schedule_sweep()
        return bound

    def stop_accepting(self) -> None:
        """Take no more connections, and no more requests from those there are."""
        self._cancel_sweep()
        if self._server is not None:
            self._server.close()
        for connection in self._open_connections:
            connection.stop_reading()
        self.served.turn.serve()

    async def close(self) -> None:
        """Send what is ready and close every connection."""
        for connection in list(self._open_connections):
            connection.close()
        await asyncio.sleep(0)

    def _schedule_sweep(self) -> None:
        idle_ms = self._node.settings["connections.max.idle.ms"]
        if idle_ms >= 0:
            self._cancel_sweep = self._node.call_later(max(1000, idle_ms // 10), self._sweep)

    def _sweep(self) -> None:
        oldest = perf_counter() - self._node.settings["connections.max.idle.ms"] / 1000
        for connection in list(self._open_connections):
            if connection.last_heard < oldest:
                connection.close_idle()
        self._schedule_sweep()

    def _connection_gauges(self) -> Iterable[Metric]:
        yield gauge("headgate_connections", "Connections that are open.", [((), len(self._open_connections))])
