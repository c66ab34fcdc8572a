"""What the kernel knows of the other end of a connection that is not read."""

from __future__ import annotations

import socket
from asyncio import BaseTransport

_ESTABLISHED = 1
"""The first byte of TCP_INFO: both ends may send."""


def is_peer_gone(transport: BaseTransport) -> bool:
    """Whether the client has closed its end, or is gone: a socket that is not read does not tell it."""
    connected = transport.get_extra_info("socket")
    if connected is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        info: bytes = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return False
    return info[0] != _ESTABLISHED
