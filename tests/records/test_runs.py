"""Runs: the records that a reader returns for any part of a log."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headgate.records.runs import HEADER_KEY, RunPlace, RunReader, run_place

Log = list[tuple[str, RunPlace | None]]


def log_of(lengths: Sequence[int]) -> Log:
    """Return a log of commits. A length of 1 is a single record, a greater length is a run."""
    log: Log = []
    for commit, length in enumerate(lengths):
        first = len(log)
        for before in range(length):
            log.append((f"{commit}.{before}", RunPlace(first, before, length) if length > 1 else None))
    return log


def read(log: Log) -> tuple[list[str], list[str]]:
    """Return the records that a reader returns, and those that are torn at the end of the log."""
    reader: RunReader[str] = RunReader()
    returned = [record for one, place in log for record in reader.take(one, place)]
    return returned, list(reader.end())


commits = st.lists(st.integers(1, 5), min_size=1, max_size=12)


@given(commits)
def test_whole_runs_are_returned_in_order(lengths: list[int]) -> None:
    """All records of a complete log are returned and none is torn."""
    log = log_of(lengths)
    assert read(log) == ([record for record, _ in log], [])


@given(commits, st.data())
def test_a_truncated_log_returns_whole_commits_only(lengths: list[int], data: st.DataObject) -> None:
    """The remaining records of the truncated commit are torn. All records before them are returned."""
    log = log_of(lengths)
    cut = data.draw(st.integers(0, len(log)))
    returned, torn = read(log[:cut])
    assert returned + torn == [record for record, _ in log[:cut]]
    for commit, length in enumerate(lengths):
        assert sum(one.startswith(f"{commit}.") for one in returned) in (0, length)


@given(commits, st.integers(2, 5), commits)
def test_a_torn_run_in_the_middle_is_skipped(before: list[int], length: int, after: list[int]) -> None:
    """If complete records follow a torn run, all others are returned and the run is not reported as torn."""
    head = log_of(before)
    torn = [(f"torn.{index}", RunPlace(len(head), index, length)) for index in range(length - 1)]
    tail = [
        (record, place and place._replace(first_offset=place.first_offset + 1000))
        for record, place in log_of(after)
    ]
    returned, still_torn = read(head + torn + tail)
    assert returned == [record for record, _ in head + tail]
    assert still_torn == []


def test_torn_runs_at_the_end_are_all_reported() -> None:
    """Two crashes in a row leave two torn runs. The current values of both runs' keys are written again."""
    returned, torn = read(
        [("whole", None), ("a", RunPlace(1, 0, 3)), ("b", RunPlace(1, 1, 3)), ("c", RunPlace(3, 0, 2))]
    )
    assert (returned, torn) == (["whole"], ["a", "b", "c"])


def test_a_run_whose_start_is_missing_is_torn() -> None:
    """Records from the middle of a run without its start do not count."""
    assert read([("b", RunPlace(1, 1, 2)), ("x", None)]) == (["x"], [])


def test_the_header_is_found_among_others() -> None:
    """The place is decoded from its header; other and malformed headers are ignored."""
    place = RunPlace(7, 1, 200_000)
    assert run_place([(b"other", b"x"), place.header()]) == place
    assert run_place([(b"other", b"x"), (HEADER_KEY, None), (HEADER_KEY, b"short")]) is None
