"""Tells systemd, or another supervisor, how far the server is: the protocol of sd_notify(3).

With `Type=notify` in its unit, `systemctl start` returns when the server is ready, and fails if it is not.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

logger = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ADDRESS: Final = "NOTIFY_SOCKET"
_PATIENCE_S: Final = 1.0
"""How long a supervisor may not read what others tell it."""


def tell_supervisor(state: str) -> None:
    """Send a state to the supervisor that started this process, if it gave an address for that.

    If that fails, the log says so: the supervisor may wait for the state.
    """
    address = os.environ.get(_ADDRESS, "")
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # an abstract address
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_PATIENCE_S)
            sender.sendto(state.encode(), address)
    except OSError as problem:
        logger.warning("the supervisor cannot be told", extra={"state": state, "error": str(problem)})
