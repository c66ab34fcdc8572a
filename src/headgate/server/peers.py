"""The kernel's knowledge of the other end of a connection that is not read."""

from __future__ import annotations

import socket
from asyncio import BaseTransport

_ESTABLISHED = 1
"""First byte of TCP_INFO for an established connection: both ends may send."""


def is_peer_gone(transport: BaseTransport) -> bool:
    """Return whether the client closed its end or is gone, which an unread socket does not report."""
    connected = transport.get_extra_info("socket")
    if connected is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        info: bytes = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return False
    return info[0] != _ESTABLISHED
