"""The record of who made a change: its bytes, and what is none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ChangeAuthor, MalformedRecord, decode, encode

AUTHOR = ChangeAuthor(GroupId("g"), TopicName("t"), 3, 2, "adminclient-1", "/10.0.0.7")
KEY = struct.pack(">h", 1002) + b"\x00\x01g\x00\x01t"
VALUE = struct.pack(">hii", 0, 3, 2) + b"\x0eadminclient-1\x0a/10.0.0.7\x00"


def test_the_bytes_are_these() -> None:
    """Type 1002; the value is flexible, so that later versions may add tagged fields."""
    assert encode(AUTHOR) == (KEY, VALUE)
    assert decode(KEY, VALUE) == AUTHOR
    assert decode(KEY, VALUE[:-1] + b"\x01\x05\x01x") == AUTHOR


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.integers(1, 2**31 - 1),
    st.text(max_size=300),
    st.text(max_size=60),
    st.none() | st.integers(-(2**63), 2**63 - 1).map(Millis),
)
def test_what_is_written_is_read(
    group: str, topic: str, count: int, client_id: str, host: str, undone_at: Millis | None
) -> None:
    """Any texts and numbers."""
    author = ChangeAuthor(GroupId(group), TopicName(topic), count, count, client_id, host, undone_at)
    assert decode(*encode(author)) == author


@pytest.mark.parametrize(
    "value",
    [
        None,
        VALUE[:-1],
        VALUE + b"\x00",
        b"\x00\x01" + VALUE[2:],
        struct.pack(">hii", 0, 2, 3) + VALUE[10:],
        struct.pack(">hii", 0, 3, 0) + VALUE[10:],
        VALUE[:-1] + b"\x01\x00\x07" + bytes(7),
    ],
    ids=["tombstone", "short", "long", "version", "more than there are", "none", "short time"],
)
def test_what_is_no_author_is_refused(value: bytes | None) -> None:
    """With the error of malformed records."""
    with pytest.raises(MalformedRecord):
        decode(KEY, value)
