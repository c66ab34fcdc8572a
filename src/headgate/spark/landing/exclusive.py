"""One run at a time lands into a target.

Two runs would plan different ranges of the same records, and the one would forget what the other landed. A
lock keeps them apart where the target is in this machine's file system. It ends with its process.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import LandingRefused

LOCK = "_headgate/lock"


@contextmanager
def only_run(target: Folder) -> Iterator[None]:
    """Keep other runs away from a local target. Raises LandingRefused if there is one, and OSError."""
    root = target.local_path()
    if root is None:
        yield
        return
    path = root / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LandingRefused(
                f"another run lands into {target.uri}: wait for its end, or stop it"
            ) from None
        yield
