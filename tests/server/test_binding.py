"""Listening at an address that cannot be had."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Callable

import pytest
import uvloop

from headgate.server.binding import bound_server


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_without_a_descriptor_for_the_socket_that_is_the_error(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The loops leave the socket out without an error; the caller gets "Too many open files" nevertheless."""

    async def listen_without_descriptors() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            await bound_server(asyncio.Protocol, "127.0.0.1", 0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(OSError) as failure:
        runner.run(listen_without_descriptors())
    assert failure.value.errno == errno.EMFILE
