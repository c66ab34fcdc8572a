"""The first offsets of leader epochs, and Kafka's file of them, which is used only if it is valid."""

from __future__ import annotations

import pytest

from headgate.topics.leader_epochs import UNDEFINED, LeaderEpochs


def epochs_of(*pairs: tuple[int, int]) -> LeaderEpochs:
    """Return epochs that began one after the other, each with its first offset."""
    epochs = LeaderEpochs()
    for epoch, start in pairs:
        assert epochs.begin(epoch, start)
    return epochs


@pytest.mark.parametrize("pairs", [(), ((0, 0),), ((0, 0), (2, 7)), ((0, 0), (2, 7), (3, 7000), (11, 7001))])
def test_encoding_and_decoding(pairs: tuple[tuple[int, int], ...]) -> None:
    """The file is Kafka's: a version, a count, and a line per epoch."""
    data = epochs_of(*pairs).encode()
    assert data == "\n".join(["0", str(len(pairs)), *(f"{e} {s}" for e, s in pairs), ""]).encode()
    read = LeaderEpochs.decode(data)
    assert read is not None
    assert read.encode() == data
    assert read.latest == (pairs[-1][0] if pairs else -1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0\n",
        "1\n1\n0 0\n",
        "-1\n1\n0 0\n",
        "0\n2\n0 0\n",
        "0\n0\n0 0\n",
        "0\n1\n0 0\n1 5\n",
        "0\n2\n1 5\n0 0\n",
        "0\n2\n0 5\n1 0\n",
        "0\n2\n0 0\n0 5\n",
        "0\n2\n0 5\n1 5\n",
        "0\n1\n0\n",
        "0\n1\n0 0 0\n",
        "0\n1\nx 0\n",
        "0\n1\n-1 0\n",
        "0\n1\n0 -1\n",
        "0\n1\n0 0\n\xff\n",
    ],
)
def test_an_invalid_file_is_ignored(text: str) -> None:
    """Epochs and offsets must increase, the count must be right, and there is nothing else."""
    assert LeaderEpochs.decode(text.encode("latin-1")) is None


def test_an_epoch_ends_at_the_start_of_the_next_one_with_records() -> None:
    """KIP-320: for an epoch without records the answer names the one before it; a future epoch has no
    answer.
    """
    epochs = epochs_of((0, 0), (2, 7), (5, 30))
    assert [epochs.end_offset_of(epoch, 40) for epoch in (-5, -(2**31))] == [(-5, 0), (-(2**31), 0)]
    assert epochs_of((3, 0), (4, 9)).end_offset_of(2, 40) == (2, 0)
    found = [epochs.end_offset_of(epoch, 40) for epoch in range(-1, 7)]
    assert found == [UNDEFINED, (0, 7), (0, 7), (2, 30), (2, 30), (2, 30), (5, 40), UNDEFINED]
    assert [epochs.epoch_of(offset) for offset in (0, 6, 7, 29, 30, 99)] == [0, 0, 2, 2, 5, 5]


def test_an_epoch_without_records_is_removed() -> None:
    """The next one replaces it; truncation removes epochs too."""
    epochs = epochs_of((0, 0), (2, 7), (3, 7))
    assert epochs.encode() == b"0\n2\n0 0\n3 7\n"
    assert not epochs.begin(3, 9)
    epochs.truncate(7)
    assert epochs.encode() == b"0\n1\n0 0\n"
    assert epochs.epoch_of(100) == 0
