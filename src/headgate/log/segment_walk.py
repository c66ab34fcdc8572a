"""The walk over all batches of a log's segments.

Not compiled: a compiled generator that is abandoned halfway never runs its `finally`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.log.walking import walk_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.log.header import BatchHeader
    from headgate.log.segments import Segments


def walk_segments(segments: Segments, from_offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield header and bytes of every batch from the first that reaches `from_offset`, below `limit`.

    No segment is replaced while this runs. Raises as `walk_batches` does.
    """
    segments.walks += 1
    try:
        for segment in segments.reaching(from_offset):
            if segment.base_offset >= limit:
                return
            start = segment.position_of(from_offset) if from_offset > segment.base_offset else 0
            end = segment.size if limit >= segment.next_offset else segment.position_of(limit)
            file = segment.pin()  # other logs that are opened meanwhile may close it otherwise
            try:
                for _, header, batch in walk_batches(file, start, end):
                    yield header, bytes(batch)
            finally:
                segment.unpin()
                if segment is not segments.active:
                    segment.close_file()
    finally:
        segments.walks -= 1
