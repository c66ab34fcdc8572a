"""Tells systemd, or another supervisor, how far the server is: the protocol of sd_notify(3).

With `Type=notify` in its unit, `systemctl start` returns when the server is ready, and fails if it is not.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ADDRESS: Final = "NOTIFY_SOCKET"


def tell_supervisor(state: str) -> None:
    """Send a state to the supervisor that started this process, if it gave an address for that."""
    address = os.environ.get(_ADDRESS, "")
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # an abstract address
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address)
