"""What the process gives back to the system of the memory it no longer uses, and when it looks for cycles.

The C library takes large blocks from the system one by one and gives each back when it is freed. But it
learns: after the first large blocks were freed it keeps ever larger ones for itself, in a heap that shrinks
only from its end. The columns of a large table that grow, shrink and are built anew then leave holes of many
megabytes. So once the server is up, and large blocks are rare, it is told to go on as it began.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 256 * 1024


def give_back_large_blocks() -> None:
    """From here on, give every large block back when it is freed; and now what can be. glibc's alone."""
    with suppress(AttributeError, OSError):  # another C library knows neither
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        library.malloc_trim(0)


_YOUNG_OBJECTS = 10_000
_MIDDLE_COLLECTIONS = 10
_OLD_COLLECTIONS = 1000


def collect_cycles_rarely() -> None:
    """Look for cycles among objects that were made lately, and seldom among all there are.

    The collector stops everything while it looks, for about a tenth of a second per million objects. By its
    own rules it looks at all objects whenever they have grown by a quarter, which a request with a hundred
    thousand parts makes happen again and again. Nearly everything here goes without it, by counting
    references; cycles that live long are few and wait. What is there now is not looked at any more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_COLLECTIONS, _OLD_COLLECTIONS)
