"""What the process gives back to the system of the memory it no longer uses.

The C library takes large blocks from the system one by one and gives each back when it is freed. But it
learns: after the first large blocks were freed it keeps ever larger ones for itself, in a heap that shrinks
only from its end. The columns of a large table that grow, shrink and are built anew then leave holes of many
megabytes. So once the server is up, and large blocks are rare, it is told to go on as it began.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 256 * 1024


def give_back_large_blocks() -> None:
    """From here on, give every large block back when it is freed; and now what can be. glibc's alone."""
    with suppress(AttributeError, OSError):  # another C library knows neither
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        library.malloc_trim(0)
