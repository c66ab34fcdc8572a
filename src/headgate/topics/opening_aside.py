"""Open logs outside the event loop's thread.

Opening a log takes long if it was not closed cleanly: everything not known to be durable is read. After these
steps (`headgate.log.compaction.Steps` that may also yield futures to wait for) the log is open, or the
partition reports the error, as if it had just been opened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.topics.partition import Partition


def opened_aside(partition: Partition) -> Generator[Callable[[], None] | Future[Any] | None, None, None]:
    """Open the log of a partition in a thread, if it must be read, or wait for another caller's opening."""
    while partition.needs_opening and not partition.topic.is_deleted:
        opening = partition.opening()
        if opening is not None:
            yield opening
        elif (when_opened := partition.when_opened) is not None:
            with suppress(Exception):  # reported to the caller that opens it
                yield when_opened
        else:
            return
