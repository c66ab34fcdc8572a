"""The listening socket: accepts connections, closes idle ones, counts all of them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable
from time import perf_counter

from prometheus_client.metrics_core import Metric

from headgate.api.registry import apis_by_key
from headgate.runtime.failures import Where, failure_counters, unexpected
from headgate.runtime.gauges import gauge
from headgate.security.authorizer import ALLOW_ALL, Authorizer
from headgate.server.binding import bound_server
from headgate.server.connection import Connection
from headgate.server.connection_limits import ConnectionLimits
from headgate.server.metrics import Metrics
from headgate.server.node import BrokerNode
from headgate.server.request_memory import RequestMemory
from headgate.server.seldom import Seldom
from headgate.server.served import Served
from headgate.server.turn import Turn

logger = logging.getLogger(__name__)

BACKLOG = 1024
RETRY_MS = 1000
"""Delay before accepting is tried again."""


class Listener:
    """Accepts the connections of a node."""

    def __init__(self, node: BrokerNode, authorizer: Authorizer = ALLOW_ALL) -> None:
        """`authorizer` is the access policy for the node's clients."""
        self._node = node
        self._servers: list[asyncio.Server] = []
        self._cancel_sweep: Callable[[], None] = lambda: None
        apis = apis_by_key()
        self.metrics = Metrics({key: api.name for key, api in apis.items()})
        settings = node.settings
        self._limits = ConnectionLimits(settings)
        self._limits.on_full = self._on_full
        node.topics.on_broker_configured.append(self._limits.look)
        self._log = Seldom()
        self.served = Served(
            apis,
            self.metrics,
            Turn(node, self.metrics),
            node.watch,
            node.request_work,
            node.backlog,
            memory=RequestMemory(settings["queued.max.request.bytes"]),
            limits=self._limits,
            authorizer=authorizer,
        )
        authorizer.when_changed(self.served.repeats.forget)
        self._sockets: list[int] = []
        """Listening sockets, kept open during a pause: their backlog holds new connections meanwhile."""
        self._resuming: asyncio.Task[None] | None = None
        self._is_resuming = False
        self._open_connections = self.served.open_connections
        self.metrics.add_gauges(self._connection_gauges)
        self.metrics.add_gauges(lambda: self.served.requests.gauges(self._open_connections))
        self.metrics.add_gauges(node.gauges)
        self.metrics.add_gauges(node.watch.gauges)
        self.metrics.add_gauges(failure_counters)
        node.observe_sync = self.metrics.observe_sync
        node.send_responses = self.served.outbox.send

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections. Return the bound address. Raises OSError when the address is not available."""
        server = await bound_server(self._new_connection, host, port, backlog=BACKLOG)
        self._servers = [server]
        self._sockets = [os.dup(listening.fileno()) for listening in server.sockets]
        bound: tuple[str, int] = server.sockets[0].getsockname()[:2]
        self._schedule_sweep()
        return bound

    def _new_connection(self) -> Connection:
        return Connection(self._node, self.served)

    def _on_full(self, is_full: bool) -> None:
        """Stop accepting while the number of connections is at its limit; resume when it is below."""
        if is_full and self._servers:
            if self._log.is_time():  # clients that come and go reach the limit again and again
                reason = f"max.connections is {self._node.settings['max.connections']}"
                fields = {"reason": reason, "not_logged": self._log.take_skipped()}
                logger.warning("no more connections are accepted", extra=fields)
            asyncio.get_running_loop().call_soon(self._close_servers)
        elif self._sockets and not self._is_resuming:
            self._is_resuming = True
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        """Accept connections again."""
        try:
            for descriptor in self._sockets:
                listening = socket.socket(fileno=os.dup(descriptor))
                server = await asyncio.get_running_loop().create_server(
                    self._new_connection, sock=listening, backlog=BACKLOG
                )
                self._servers.append(server)
        except OSError as failure:  # for example no descriptor left
            logger.error("connections cannot be accepted again yet", extra={"error": str(failure)})
            self._node.call_later(RETRY_MS, lambda: self._on_full(self._limits.is_full))
        except Exception as failure:
            unexpected(Where.CONNECTION, "connections cannot be accepted again", failure)
        self._is_resuming = False
        if self._limits.is_full:
            self._close_servers()

    def _close_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    def stop_accepting(self) -> None:
        """Accept no more connections, and no more requests from the open ones."""
        self._cancel_sweep()
        self._limits.stop()
        sockets, self._sockets = self._sockets, []
        for descriptor in sockets:
            os.close(descriptor)
        if self._resuming is not None:
            self._resuming.cancel()
        self._close_servers()
        for connection in list(self._open_connections):
            connection.stop_reading()
        self.served.turn.serve()

    async def close(self) -> None:
        """Send the ready responses and close every connection."""
        for connection in list(self._open_connections):
            connection.close()
        await asyncio.sleep(0)

    def _schedule_sweep(self) -> None:
        idle_ms = self._node.settings["connections.max.idle.ms"]
        if idle_ms >= 0:
            self._cancel_sweep = self._node.call_later(max(1000, idle_ms // 10), self._sweep)

    def _sweep(self) -> None:
        self._schedule_sweep()
        oldest = perf_counter() - self._node.settings["connections.max.idle.ms"] / 1000
        for connection in list(self._open_connections):
            if connection.line.last_heard < oldest:
                connection.close_idle()

    def _connection_gauges(self) -> Iterable[Metric]:
        yield gauge("headgate_connections", "Connections that are open.", [((), len(self._open_connections))])
        text = "1 while max.connections is reached and new clients wait, else 0."
        yield gauge("headgate_connections_full", text, [((), float(self._limits.is_full))])
