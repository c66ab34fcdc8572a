"""Listening at an address, with the reason if that is not possible."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


async def bound_server(
    new_protocol: Callable[[], asyncio.Protocol], host: str, port: int, backlog: int = 100
) -> asyncio.Server:
    """Listen at an address on the running loop. Raises OSError when that is not possible."""
    try:
        server = await asyncio.get_running_loop().create_server(new_protocol, host, port, backlog=backlog)
    except OSError as problem:
        if problem.errno is None:  # from Python 3.13 on, if it can make no socket at all
            raise _why_no_socket(host, port) from problem
        raise
    if not server.sockets:  # the loop leaves out what it can make no socket for, without an error
        server.close()
        raise _why_no_socket(host, port)
    return server


def _why_no_socket(host: str, port: int) -> OSError:
    for family, kind, protocol, _, _ in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            socket.socket(family, kind, protocol).close()
        except OSError as problem:
            return problem
    return OSError(f"no socket could be made for {host}:{port}")
