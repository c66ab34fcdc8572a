"""Records of Kafka's metadata log, as an import reads them."""

from __future__ import annotations

import pytest

from headgate.domain.ids import TopicId, TopicName
from headgate.records.errors import MalformedRecord
from headgate.takeover.metadata_records import TopicAdded, decode_metadata

ID = bytes(range(16))


def topic_record(name: bytes) -> bytes:
    """A TopicRecord in version 0: frame version, type, version, name, id, no tagged fields."""
    length = len(name) + 1
    size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return b"\x01\x02\x00" + size + name + ID + b"\x00"


def test_a_topic() -> None:
    assert decode_metadata(topic_record(b"flights")) == TopicAdded(TopicName("flights"), TopicId(ID))


@pytest.mark.parametrize("name", [b"../evil", b"a/b", b"..", b"", b"\x1b[31mred", b"x" * 250])
def test_a_name_that_no_topic_can_have_is_malformed(name: bytes) -> None:
    """Directories are named like topics: such a name would be a path to somewhere else."""
    with pytest.raises(MalformedRecord, match="Topic name is invalid"):
        decode_metadata(topic_record(name))
