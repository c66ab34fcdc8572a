"""Memory in the workers: what is freed is kept for the next chunk, or for the next step of a landing.

Each chunk of a log takes some columns of half a megabyte, and each step of a landing a copy of all columns.
The C library and Arrow's allocator would give them back to the system when they are freed, and get new pages
for the next ones, which are zeroed and mapped one by one. That took up to a fifth of the time of a landing.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache

import pyarrow as pa

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 32 << 20
"""Larger blocks go back to the system at once; the largest value that glibc takes."""
_MOST_FREE_BYTES = 128 << 20


@cache
def keep_freed_memory() -> None:
    """Keep up to 128 MiB of freed memory, Arrow's too, in this process and from now on; with glibc only."""
    with suppress(AttributeError, OSError):  # other C libraries lack the function
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _MOST_FREE_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())
