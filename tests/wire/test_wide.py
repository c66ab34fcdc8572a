"""Wide arrays: a message and its bytes are the same as columns and struct by struct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.wire import wide_reading
from headgate.wire.codec import decode, encode
from headgate.wire.errors import MalformedMessage, UnwritableMessage
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.wire.wide import NARROWEST_WIDE, SomeNumbers, WideStructs, last_number

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
rows = st.lists(st.tuples(int32, int64, int32), min_size=1, max_size=3 * NARROWEST_WIDE)
versions = st.sampled_from(range(2, 11))


def request(partitions: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name="t", partitions=partitions),
            OffsetCommitRequestTopic(name="u", partitions=[OffsetCommitRequestPartition(partition_index=9)]),
        ],
    )


def partition(row: tuple[int, int, int], metadata: str | None) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=row[0],
        committed_offset=row[1],
        committed_leader_epoch=row[2],
        committed_metadata=metadata,
    )


@given(rows, versions, st.sampled_from([None, "", "m", "ä" * 100]))
def test_reading_columns_equals_reading_struct_by_struct(
    numbers: list[tuple[int, int, int]], version: int, metadata: str | None
) -> None:
    """Large arrays are read as columns. The fields after the array are read correctly."""
    partitions = [partition(row, metadata) for row in numbers]
    data = encode(request(partitions), version)
    read = decode(OffsetCommitRequest, version, data)
    is_wide = isinstance(read.topics[0].partitions, WideStructs)
    assert is_wide == (len(numbers) >= NARROWEST_WIDE)
    assert [encode(request([one]), version) for one in read.topics[0].partitions] == [
        encode(request([one]), version) for one in partitions
    ]
    assert read.topics[1].partitions[0].partition_index == 9
    assert encode(read, version) == data


@given(rows, versions, st.lists(st.sampled_from(["", "m", "n", "longer"]), min_size=60, max_size=60))
def test_partitions_with_different_metadata_are_distinguished(
    numbers: list[tuple[int, int, int]], version: int, metadata: list[str]
) -> None:
    """Each partition has its own metadata, also if all have the same length."""
    partitions = [partition(row, text) for row, text in zip(numbers, metadata, strict=False)]
    data = encode(request(partitions), version)
    read = decode(OffsetCommitRequest, version, data)
    assert [one.committed_metadata for one in read.topics[0].partitions] == metadata[: len(numbers)]
    assert encode(read, version) == data


conditional_rows = st.lists(
    st.tuples(int32, int64, int32, int64), min_size=NARROWEST_WIDE, max_size=2 * NARROWEST_WIDE
)
flexible_versions = st.sampled_from([8, 9, 10])


def conditional(row: tuple[int, int, int, int | None], metadata: str | None) -> OffsetCommitRequestPartition:
    one = partition(row[:3], metadata)
    one.expected_offset = row[3]
    return one


@given(conditional_rows, flexible_versions, st.sampled_from([None, "", "m"]))
def test_a_number_at_the_end_of_each_struct_is_a_column(
    numbers: list[tuple[int, int, int, int]], version: int, metadata: str | None
) -> None:
    """The tagged field of conditional commits is read and written as struct by struct."""
    partitions = [conditional(row, metadata) for row in numbers]
    data = encode(request(partitions), version)
    read = decode(OffsetCommitRequest, version, data)
    wide = read.topics[0].partitions
    assert isinstance(wide, WideStructs)
    assert wide.columns["expected_offset"].tolist() == [row[3] for row in numbers]
    assert list(wide) == [decode_one(one, version) for one in partitions]
    assert encode(read, version) == data


def decode_one(one: OffsetCommitRequestPartition, version: int) -> OffsetCommitRequestPartition:
    """Read the partition as a single struct."""
    return decode(OffsetCommitRequest, version, encode(request([one]), version)).topics[0].partitions[0]


@given(conditional_rows, flexible_versions, st.data())
def test_a_struct_without_the_number_at_its_end_is_recognized(
    numbers: list[tuple[int, int, int, int]], version: int, data: st.DataObject
) -> None:
    """One partition, in any position, has no condition. The others keep their own."""
    without = data.draw(st.integers(0, len(numbers) - 1))
    rows = [(*row[:3], None if index == without else row[3]) for index, row in enumerate(numbers)]
    partitions = [conditional(row, "") for row in rows]
    read = decode(OffsetCommitRequest, version, encode(request(partitions), version))
    assert [one.expected_offset for one in read.topics[0].partitions] == [row[3] for row in rows]


def test_a_number_with_a_field_after_it_is_not_a_column() -> None:
    """The end of the bytes then belongs to another field."""
    one = conditional((1, 2, 3, 4), "")
    number = b"\xa1\x9c\x01\x08" + (4).to_bytes(8, "big")
    assert last_number(one, b"before" + number) == ("expected_offset", 10, np.dtype(">i8"))
    assert last_number(one, b"before" + number + b"\xa2\x9c\x01\x08" + bytes(8)) is None
    assert last_number(partition((1, 2, 3), ""), b"before" + number) is None


@given(st.lists(int32, min_size=1, max_size=100), versions, st.integers(-1, 130))
def test_writing_columns_equals_writing_single_structs(indexes: list[int], version: int, error: int) -> None:
    """A response with columns has the same bytes as a response with single structs."""
    one_by_one = [OffsetCommitResponsePartition(partition_index=index, error_code=error) for index in indexes]
    template = OffsetCommitResponsePartition(error_code=error)
    wide: Any = WideStructs(template, {"partition_index": np.array(indexes, np.int64)})
    assert list(wide) == one_by_one or [encode_one(one, version) for one in wide] == [
        encode_one(one, version) for one in one_by_one
    ]
    answers = [
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])
        for partitions in (one_by_one, wide)
    ]
    assert encode(answers[0], version) == encode(answers[1], version)


def encode_one(one: OffsetCommitResponsePartition, version: int) -> bytes:
    return encode(
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[one])]), version
    )


@given(st.integers(0, 2000))
def test_a_truncated_wide_message_is_malformed(cut: int) -> None:
    """An array that is longer than the data is refused and not read beyond the end."""
    data = encode(request([partition((one, one, one), "m") for one in range(40)]), 8)
    if cut < len(data) - 1:
        with pytest.raises(MalformedMessage):
            decode(OffsetCommitRequest, 8, data[:cut])


def test_a_number_that_does_not_fit_is_unwritable() -> None:
    """Numbers in columns are checked like single fields."""
    wide: Any = WideStructs(
        OffsetCommitResponsePartition(), {"partition_index": np.array([1, 2**31], np.int64)}
    )
    with pytest.raises(UnwritableMessage, match="partition_index"):
        encode(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=wide)]), 8)


def test_wide_structs_are_a_sequence() -> None:
    """They have a length, and support indexing, slicing and iteration."""
    wide = WideStructs(OffsetCommitResponsePartition(error_code=3), {"partition_index": np.arange(20)})
    assert (len(wide), wide[7].partition_index, wide[-1].partition_index) == (20, 7, 19)
    assert [one.partition_index for one in wide[2:4]] == [2, 3]
    assert all(one.error_code == 3 for one in wide)


texts = st.one_of(
    st.none(), st.sampled_from(["", "m", "ä" * 100, "m" * 126, "m" * 127, "m" * 20000]), st.text()
)


MIXED = 24
"""The smallest array of differing structs that these tests read as columns; servers use a greater number."""


@pytest.fixture(autouse=True, scope="module")
def reads_few_in_columns() -> Iterator[None]:
    """Read small arrays of differing structs as columns."""
    with patch.object(wide_reading, "NARROWEST_MIXED", MIXED):
        yield


@settings(deadline=None)
@given(st.data(), versions, st.integers(NARROWEST_WIDE, 2 * MIXED), st.booleans())
def test_structs_with_any_strings_and_numbers_equal_single_structs(
    data: st.DataObject, version: int, count: int, has_one_text: bool
) -> None:
    """Large arrays are read as columns and written to the same bytes. The fields after them are read too."""
    text = st.just(data.draw(texts)) if has_one_text else texts
    expected = st.none() | int64 if version >= 8 else st.none()
    partitions = [
        conditional(data.draw(st.tuples(int32, int64, int32, expected)), data.draw(text))
        for _ in range(count)
    ]
    written = encode(request(partitions), version)
    read = decode(OffsetCommitRequest, version, written)
    assert list(read.topics[0].partitions) == [decode_one(one, version) for one in partitions]
    assert [read.topics[0].partitions[at] for at in range(count)] == list(read.topics[0].partitions)
    assert read.topics[1].partitions[0].partition_index == 9
    assert encode(read, version) == written
    if count >= MIXED:
        assert isinstance(read.topics[0].partitions, WideStructs)


def mixed(version: int) -> bytes:
    """Return a request of partitions with and without conditions and with different metadata."""
    partitions = [conditional((one, one, one, one if one % 3 else None), "m" * one) for one in range(40)]
    if version < 8:
        partitions = [partition((one, one, one), "m" * one) for one in range(40)]
    return encode(request(partitions), version)


@pytest.mark.parametrize("version", [5, 8])
def test_a_truncated_mixed_message_is_malformed(version: int) -> None:
    """The error is the same as for single structs. It names the field at which the bytes end."""
    data = mixed(version)
    for cut in range(len(data) - 1):
        with pytest.raises(MalformedMessage):
            decode(OffsetCommitRequest, version, data[:cut])


@pytest.mark.parametrize("version", [5, 8])
@given(st.data())
def test_a_changed_mixed_message_equals_reading_struct_by_struct(version: int, data: st.DataObject) -> None:
    """The message, or the error, is the same as from the reader of single structs."""
    changed = bytearray(mixed(version))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    outcomes: list[OffsetCommitRequest | str] = []
    for narrowest in (MIXED, 1 << 30):
        with patch.object(wide_reading, "NARROWEST_MIXED", narrowest):
            try:
                outcomes.append(decode(OffsetCommitRequest, version, bytes(changed)))
            except MalformedMessage as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_string_that_is_too_long_is_malformed_in_mixed_structs() -> None:
    """The limit is the same as in a single struct."""
    partitions = [partition((one, one, one), "m" * (0x7FFF if one == 30 else one)) for one in range(40)]
    longest = encode(request(partitions), 8)
    assert decode(OffsetCommitRequest, 8, longest) == request(partitions)
    longer = longest.replace(b"\x80\x80\x02" + b"m" * 0x7FFF, b"\x81\x80\x02" + b"m" * 0x8000)
    with pytest.raises(MalformedMessage, match=r"committed_metadata has the length 32768"):
        decode(OffsetCommitRequest, 8, longer)


def test_an_unknown_tagged_field_is_skipped_in_mixed_structs() -> None:
    """It does not change the other fields and structs."""
    data = mixed(8)
    known = b"\x01\xa1\x9c\x01\x08" + (7).to_bytes(8, "big")
    assert data.count(known) == 1
    unknown = data.replace(known, b"\x02\xa1\x9c\x01\x08" + (7).to_bytes(8, "big") + b"\xa2\x9c\x01\x01?")
    assert decode(OffsetCommitRequest, 8, unknown) == decode(OffsetCommitRequest, 8, data)


@given(st.lists(st.tuples(st.booleans(), int64), max_size=60), st.sampled_from([8, 9, 10]))
def test_a_response_with_some_numbers_equals_writing_struct_by_struct(
    rows: list[tuple[bool, int]], version: int
) -> None:
    """Some structs have a number at their end and others do not, in any order."""
    is_there, current = (
        np.array([row[0] for row in rows], np.bool_),
        np.array([row[1] for row in rows], np.int64),
    )
    numbers = np.arange(len(rows))
    wide: Any = WideStructs(
        OffsetCommitResponsePartition(),
        {"partition_index": numbers, "error_code": numbers % 90},
        {"current_offset": SomeNumbers(is_there, current)},
    )
    one_by_one = [
        OffsetCommitResponsePartition(
            partition_index=index, error_code=index % 90, current_offset=offset if has_current else None
        )
        for index, (has_current, offset) in enumerate(rows)
    ]
    assert (len(wide), list(wide)) == (len(rows), one_by_one)
    assert [wide[index] for index in range(len(rows))] == one_by_one
    topics = [OffsetCommitResponseTopic(name="t", partitions=some) for some in (wide, one_by_one)]
    written = [encode(OffsetCommitResponse(topics=[topic]), version) for topic in topics]
    assert written[0] == written[1]
