"""Every version of every message, compared with kio."""

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
    """Headgate and kio write the same bytes, and read the same message from them."""
    tree = data.draw(case.trees())
    message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
    encoded = encode(message, case.version)
    assert encoded == kio_bytes
    assert decode(case.message_type, case.version, kio_bytes) == message
    assert case.kio_reads(encoded) == to_kio(case.kio_type, tree)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_minimal_and_a_full_message_are_written_and_read_as_kio_does(case: Case) -> None:
    """Nulls, empty arrays, extreme numbers, and lengths of more than one byte agree with kio."""
    for tree in case.edges():
        message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
        assert encode(message, case.version) == kio_bytes
        assert decode(case.message_type, case.version, kio_bytes) == message


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bytes_after_a_message_are_ignored(case: Case) -> None:
    """Bytes before and after a message do not change the result."""
    for tree in case.edges():
        message, kio_bytes = case.ours(tree), case.kio_bytes(tree)
        assert decode(case.message_type, case.version, kio_bytes + b"\x01behind") == message
        assert decode(case.message_type, case.version, memoryview(b"header" + kio_bytes), 6) == message


@pytest.mark.parametrize("case", FLEXIBLE_CASES, ids=str)
@few
@given(data=st.data(), content=st.binary(max_size=5) | st.just(bytes(200)))
def test_unknown_tagged_fields_are_skipped(case: Case, data: st.DataObject, content: bytes) -> None:
    """An unknown tagged field in every struct of the message does not change the result."""
    tree = data.draw(case.trees())
    with_unknown = case.bytes_with_unknown_tags(tree, content)
    assert decode(case.message_type, case.version, with_unknown) == case.ours(tree)
