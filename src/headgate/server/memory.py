"""Settings of the C library's allocator and of Python's cycle collector for the server process.

The C library takes large blocks directly from the system and returns each one when it is freed. But its
threshold is dynamic: each freed large block raises it, and larger blocks then go into a heap that shrinks
only from its end. The columns of a large table that grow, shrink and are rebuilt then leave holes of many
megabytes. So the threshold is fixed once the server has started, when large blocks are rare.

It is above the size of what is read for one partition of a fetch (a megabyte by default): a block from the
system is new pages, zeroed and mapped one by one, which took more time than reading records into it.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 1280 * 1024
_MOST_FREE_BYTES = 16 * 1024 * 1024
"""Free memory at the heap's end that is kept for the next blocks."""


def give_back_large_blocks() -> None:
    """Return freed large blocks to the system from now on, and free memory of the heap now; glibc only."""
    with suppress(AttributeError, OSError):  # other C libraries lack both functions
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _MOST_FREE_BYTES)
        library.malloc_trim(0)


_YOUNG_OBJECTS = 10_000
_MIDDLE_COLLECTIONS = 10
_OLD_COLLECTIONS = 1000


def collect_cycles_rarely() -> None:
    """Collect cycles often among recent objects and seldom among all of them.

    The collector stops the process for about a tenth of a second per million objects. By default it examines
    all objects whenever their number has grown by a quarter, which a request with a hundred thousand parts
    causes repeatedly. Nearly all objects here are freed by reference counts; cycles that live long are few
    and can wait. Objects that exist now are excluded from collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_COLLECTIONS, _OLD_COLLECTIONS)
