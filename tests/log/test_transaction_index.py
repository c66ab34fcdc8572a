"""The aborted transactions of a segment: what a reader finds, against Kafka's own rule, and how fast."""

from __future__ import annotations

from pathlib import Path
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from headgate.log.filesystem import MemoryFileSystem
from headgate.log.transaction_index import ENTRY_BYTES, AbortedTransaction, AbortedTransactions

PATH = Path("/00000000000000000000.txnindex")


def table(histories: list[tuple[int, bool]]) -> AbortedTransactions:
    """Return the transactions of a history: each step begins one of producer `who`, or aborts it."""
    made = AbortedTransactions()
    begun: dict[int, int] = {}
    for offset, (who, _) in enumerate(histories):
        first = begun.pop(who, None)
        if first is None:
            begun[who] = offset
        else:
            stable = min(begun.values(), default=offset + 1)
            made.append(AbortedTransaction(who, first, offset, stable))
    return made


def kafkas(made: AbortedTransactions, start: int, end: int) -> tuple[list[tuple[int, int]], bool]:
    """Find entry by entry, as Kafka's TransactionIndex.collectAbortedTxns does."""
    found = []
    for one in made:
        if one.last_offset >= start and one.first_offset < end:
            found.append((one.producer_id, one.first_offset))
        if one.last_stable_offset >= end:
            return found, True
    return found, False


HISTORIES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40)


@given(HISTORIES, st.integers(0, 40), st.integers(0, 40))
def test_a_reader_finds_what_kafka_finds(history: list[tuple[int, bool]], start: int, size: int) -> None:
    """For any range of offsets; also after the file was written and read."""
    made = table(history)
    found, is_complete = made.find(start, start + size)
    expected, is_expected_complete = kafkas(made, start, start + size)
    assert found == expected
    # Otherwise later segments are searched, without need where no transaction reaches the range.
    assert is_complete or not is_expected_complete or not any(one.last_offset >= start for one in made)
    again = AbortedTransactions.from_bytes(made.to_bytes())
    assert again is not None and list(again) == list(made)


@given(HISTORIES, st.integers(0, 20), st.integers(0, 100))
def test_a_file_is_extended_and_only_its_known_entries_are_used(
    history: list[tuple[int, bool]], split: int, cut: int
) -> None:
    """A file that lacks one of these entries, or has another, is not used."""
    files = MemoryFileSystem()
    whole, made = table(history), AbortedTransactions()
    for at, one in enumerate(whole):
        made.append(one)
        if at == split:
            made.save(files, PATH)
    made.save(files, PATH)
    if not len(whole):
        assert not files.exists(PATH)
        return
    data = files.open(PATH).pread(1 << 20, 0)
    assert data == whole.to_bytes()
    loaded = AbortedTransactions.load(files, PATH, len(whole), made.saved_crc)
    assert loaded is not None and list(loaded) == list(whole)
    files.open(PATH).truncate(cut % len(data))
    assert AbortedTransactions.load(files, PATH, len(whole), made.saved_crc) is None


def test_a_long_transaction_over_many_short_ones_is_found_in_bounded_time() -> None:
    """Every reader of its range must hear of it: its entry is the last one."""
    made = AbortedTransactions()
    count = 100_000
    for number in range(count):
        made.append(AbortedTransaction(1, 2 * number + 1, 2 * number + 2, 0))
    made.append(AbortedTransaction(2, 0, 2 * count + 1, 2 * count + 2))
    assert len(made.to_bytes()) == ENTRY_BYTES * len(made)
    began = process_time()
    for start in range(0, 2 * count, count // 50):
        found, is_complete = made.find(start, start + 2)
        assert is_complete and (2, 0) in found and len(found) <= 3
    assert process_time() - began < 0.5, "hundreds of microseconds each"
