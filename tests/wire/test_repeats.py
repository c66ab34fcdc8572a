"""Repeated requests: numbers are extracted, other differences are detected, responses get their numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.wire.places import Place
from headgate.wire.repeats import MOST_NARROW, RequestShape, ResponseShape, WrittenResponse

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
HEAD = 8
"""API key, version and correlation id."""


def frame(correlation_id: int, numbers: Sequence[int], between: Sequence[bytes]) -> bytes:
    """Return a frame with these bytes before each number and after the last one."""
    parts = [between[0]]
    for number, piece in zip(numbers, between[1:], strict=True):
        parts += [struct.pack(">q", number), piece]
    return b"\x00\x08\x00\x09" + struct.pack(">i", correlation_id) + b"".join(parts)


def shape_of(numbers: Sequence[int], between: Sequence[bytes]) -> RequestShape:
    first = frame(1, numbers, between)
    places: list[Place] = []
    at = HEAD
    for piece in between[:-1]:
        at += len(piece)
        places.append((at, 8))
        at += 8
    return RequestShape(len(first), places)


@st.composite
def frames(draw: st.DrawFn) -> tuple[list[int], list[bytes]]:
    numbers = draw(st.lists(int64, max_size=3 * MOST_NARROW))
    if draw(st.booleans()):  # at equal distances, as partitions of one topic are
        first, between, last = draw(st.tuples(*[st.binary(max_size=5)] * 3))
        return numbers, [first, *[between] * (len(numbers) - 1), last] if numbers else [first]
    pieces = st.lists(st.binary(max_size=5), min_size=len(numbers) + 1, max_size=len(numbers) + 1)
    return numbers, draw(pieces)


@given(frames(), st.data())
def test_numbers_are_extracted_and_the_rest_is_equal(
    first: tuple[list[int], list[bytes]], data: st.DataObject
) -> None:
    """The shape from one request splits every request that differs in numbers only."""
    numbers, between = first
    shape = shape_of(numbers, between)
    others = data.draw(st.lists(int64, min_size=len(numbers), max_size=len(numbers)))
    correlation_id = data.draw(int32)
    again = shape.split(frame(correlation_id, others, between))
    assert again[0] == correlation_id
    assert list(again[1]) == others
    assert again[2] == shape.split(frame(5, numbers, between))[2]


@given(frames(), st.data())
def test_any_other_changed_byte_makes_another_request(
    first: tuple[list[int], list[bytes]], data: st.DataObject
) -> None:
    """A frame of the same size that differs outside of its numbers has another rest."""
    numbers, between = first
    shape = shape_of(numbers, between)
    whole = frame(1, numbers, between)
    in_numbers = {at for start, size in shape.places for at in range(start, start + size)}
    elsewhere = [at for at in range(len(whole)) if at not in in_numbers and not 4 <= at < HEAD]
    at = data.draw(st.sampled_from(elsewhere))
    other = bytearray(whole)
    other[at] ^= data.draw(st.integers(1, 255))
    assert shape.split(bytes(other))[2] != shape.split(whole)[2]


@given(int32, st.lists(st.tuples(int64, int32), min_size=1, max_size=3 * MOST_NARROW), st.booleans())
def test_a_response_gets_its_numbers(
    correlation_id: int, rows: list[tuple[int, int]], is_uneven: bool
) -> None:
    """Narrow or wide, the frame equals an encoded response with these numbers."""

    def body(values: Sequence[tuple[int, int]]) -> bytes:
        parts = [b"-" + struct.pack(">qi", *row) for row in values]
        if is_uneven:
            parts[len(parts) // 2] += b"the name of another topic"
        return b"head" + b"".join(parts)

    zero = body([(0, 0)] * len(rows))
    starts = [len(b"head") + 13 * row + 1 for row in range(len(rows))]
    if is_uneven:
        starts[len(rows) // 2 + 1 :] = [at + 25 for at in starts[len(rows) // 2 + 1 :]]
    shape = ResponseShape(zero, [place for at in starts for place in ((at, 8), (at + 8, 4))])
    expected = struct.pack(">ii", len(zero) + 4, correlation_id) + body(rows)
    if len(rows) <= MOST_NARROW:
        numbers = [number for row in rows for number in row]
        assert shape.is_narrow
        assert shape.narrow(numbers).frame(correlation_id) == expected
    else:
        offsets, epochs = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        before = shape.wide(epochs, epochs)
        assert shape.wide(offsets, epochs).frame(correlation_id) == expected
        assert before.frame(correlation_id) != expected or (offsets == epochs).all(), "it stays as it was"


def test_a_response_without_numbers_gets_a_correlation_id() -> None:
    """Responses to the same commit differ only in the correlation id."""
    assert WrittenResponse(b"the answer").frame(7) == struct.pack(">ii", 14, 7) + b"the answer"
