"""The records of a fetch: good batches before a damaged one, and what the broker wrote itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crc32c import crc32c

from headgate.client.cluster import Fetched
from headgate.client.errors import BadResponse
from headgate.client.records import records_in
from headgate.domain.ids import TopicName, TopicPartition
from headgate.log.batch import Record, encode_batch
from headgate.log.header import CRC_END

WHERE = TopicPartition(TopicName("flights"), 0)
GZIP = 1


def batch(base_offset: int, *values: bytes, codec: int = 0) -> bytearray:
    """Return a batch of these values."""
    return encode_batch([Record(None, value) for value in values], base_offset=base_offset, codec=codec)


def fetched(*batches: bytearray) -> Fetched:
    """Return a fetch of these batches."""
    return Fetched(records=b"".join(batches), high_watermark=9, last_stable_offset=9, log_start_offset=0)


def with_a_wrong_checksum() -> bytearray:
    """Return a batch of which a byte was changed."""
    bad = batch(2, b"c")
    bad[-1] ^= 1
    return bad


def of_no_codec() -> bytearray:
    """Return a batch with a right checksum that is not what its codec says."""
    bad = batch(2, b"c")
    bad[CRC_END + 1] |= GZIP
    bad[CRC_END - 4 : CRC_END] = crc32c(memoryview(bad)[CRC_END:]).to_bytes(4, "big")
    return bad


@pytest.mark.parametrize("damaged", [with_a_wrong_checksum, of_no_codec])
def test_the_batches_before_a_damaged_one_are_read(damaged: Callable[[], bytearray]) -> None:
    """The next fetch begins with the damaged one, and that is the error."""
    good, bad = batch(0, b"a", b"b"), damaged()
    found, following = records_in(fetched(good, bad), WHERE, 0)
    assert ([one.value for one in found], following) == ([b"a", b"b"], 2)
    with pytest.raises(BadResponse, match="flights-0 at offset 2: "):
        records_in(fetched(bad), WHERE, following)


def test_records_before_the_offset_are_left_out() -> None:
    """A batch is fetched whole."""
    found, following = records_in(fetched(batch(0, b"a", b"b", b"c")), WHERE, 1)
    assert ([(one.offset, one.value) for one in found], following) == ([(1, b"b"), (2, b"c")], 3)
