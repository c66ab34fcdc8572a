"""Opening logs beside the event loop, for those who need them.

To open a log takes long where it was not closed well: all that was not known to be durable is read. Whoever
drives these steps (`headgate.log.compaction.Steps`, but that a future is waited for) finds the log open after
them, or is told by the partition what is wrong with it, as if it had just been opened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.topics.partition import Partition


def opened_aside(partition: Partition) -> Generator[Callable[[], None] | Future[Any] | None, None, None]:
    """Have the log of a partition read in a thread, if it has to be read; one that others open is awaited."""
    while partition.needs_opening and not partition.topic.is_deleted:
        opening = partition.opening()
        if opening is not None:
            yield opening
        elif (when_opened := partition.when_opened) is not None:
            with suppress(Exception):  # who opens it is told
                yield when_opened
        else:
            return
