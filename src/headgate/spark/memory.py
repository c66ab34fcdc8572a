"""The C library's allocator in the workers: memory that is freed is kept for the next chunk.

Each chunk of a log takes some columns of half a megabyte. By default the C library gives them back to the
system when they are freed, and gets new pages for the next chunk, which are zeroed and mapped one by one.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 32 << 20
"""The largest value that glibc takes."""
_MOST_FREE_BYTES = 64 << 20


@cache
def keep_freed_memory() -> None:
    """Keep up to 64 MiB of freed memory at the heap's end, in this process and from now on; glibc only."""
    with suppress(AttributeError, OSError):  # other C libraries lack the function
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _MOST_FREE_BYTES)
