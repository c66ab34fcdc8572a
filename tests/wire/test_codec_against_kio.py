"""Every version of every message, against kio."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.wire.kio_oracle import CASES, Case, to_kio

from headgate.wire.codec import decode, encode

FLEXIBLE_CASES = [case for case in CASES if case.is_flexible]

few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("case", CASES, ids=str)
@few
@given(data=st.data())
def test_any_message_is_written_and_read_as_kio_does(case: Case, data: st.DataObject) -> None:
    """The same bytes from us and from kio, and from these bytes the same message to both."""
    tree = data.draw(case.trees())
    message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
    encoded = encode(message, case.version)
    assert encoded == kio_bytes
    assert decode(case.message_type, case.version, kio_bytes) == message
    assert case.kio_reads(encoded) == to_kio(case.kio_type, tree)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_emptiest_and_the_fullest_message_are_written_and_read_as_kio_does(case: Case) -> None:
    """Nulls, empty arrays, extreme numbers, and lengths of more than one byte agree with kio."""
    for tree in case.edges():
        message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
        assert encode(message, case.version) == kio_bytes
        assert decode(case.message_type, case.version, kio_bytes) == message


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bytes_behind_a_message_are_left_alone(case: Case) -> None:
    """A message reads the same with something behind it, and with something before it."""
    for tree in case.edges():
        message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
        assert decode(case.message_type, case.version, kio_bytes + b"\x01behind") == message
        assert decode(case.message_type, case.version, memoryview(b"header" + kio_bytes), 6) == message


@pytest.mark.parametrize("case", FLEXIBLE_CASES, ids=str)
@few
@given(data=st.data(), content=st.binary(max_size=5) | st.just(bytes(200)))
def test_unknown_tagged_fields_are_skipped(case: Case, data: st.DataObject, content: bytes) -> None:
    """A tagged field nobody knows, in every struct of the message, changes nothing of what is read."""
    tree = data.draw(case.trees())
    with_unknown = case.bytes_with_unknown_tags(tree, content)
    assert decode(case.message_type, case.version, with_unknown) == case.ours(tree)
