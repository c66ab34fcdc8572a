"""Runs: what a reader gives out, whatever part of a log it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headgate.records.runs import HEADER_KEY, RunPlace, RunReader, run_place

Log = list[tuple[str, RunPlace | None]]


def log_of(lengths: Sequence[int]) -> Log:
    """A log of commits; a length above 1 is a run of so many records, 1 a record of its own."""
    log: Log = []
    for commit, length in enumerate(lengths):
        first = len(log)
        for before in range(length):
            log.append((f"{commit}.{before}", RunPlace(first, before, length) if length > 1 else None))
    return log


def read(log: Log) -> tuple[list[str], list[str]]:
    """What a reader gives out of a log, and what it calls torn at its end."""
    reader: RunReader[str] = RunReader()
    given_out = [record for one, place in log for record in reader.take(one, place)]
    return given_out, list(reader.end())


commits = st.lists(st.integers(1, 5), min_size=1, max_size=12)


@given(commits)
def test_whole_runs_are_given_out_in_order(lengths: list[int]) -> None:
    """Nothing of a complete log is withheld or called torn."""
    log = log_of(lengths)
    assert read(log) == ([record for record, _ in log], [])


@given(commits, st.data())
def test_a_log_cut_anywhere_gives_out_whole_commits_only(lengths: list[int], data: st.DataObject) -> None:
    """The commit in which the log was cut is torn as far as it is there, all before it is given out."""
    log = log_of(lengths)
    cut = data.draw(st.integers(0, len(log)))
    given_out, torn = read(log[:cut])
    assert given_out + torn == [record for record, _ in log[:cut]]
    for commit, length in enumerate(lengths):
        assert sum(one.startswith(f"{commit}.") for one in given_out) in (0, length)


@given(commits, st.integers(2, 5), commits)
def test_a_torn_run_in_the_middle_is_as_if_never_written(
    before: list[int], length: int, after: list[int]
) -> None:
    """A log that went on after a torn run gives out all but that run, and calls it torn no more."""
    head = log_of(before)
    torn = [(f"torn.{index}", RunPlace(len(head), index, length)) for index in range(length - 1)]
    tail = [
        (record, place and place._replace(first_offset=place.first_offset + 1000))
        for record, place in log_of(after)
    ]
    given_out, still_torn = read(head + torn + tail)
    assert given_out == [record for record, _ in head + tail]
    assert still_torn == []


def test_torn_runs_at_the_end_are_all_reported() -> None:
    """Two crashes in a row leave two torn runs: the keys of both need their standing values again."""
    given_out, torn = read(
        [("whole", None), ("a", RunPlace(1, 0, 3)), ("b", RunPlace(1, 1, 3)), ("c", RunPlace(3, 0, 2))]
    )
    assert (given_out, torn) == (["whole"], ["a", "b", "c"])


def test_a_run_whose_beginning_is_missing_is_torn() -> None:
    """Records that begin in the middle of a run never count."""
    assert read([("b", RunPlace(1, 1, 2)), ("x", None)]) == (["x"], [])


def test_the_header_is_found_among_others() -> None:
    """A place survives the record header, and headers of others are none."""
    place = RunPlace(7, 1, 200_000)
    assert run_place([(b"other", b"x"), place.header()]) == place
    assert run_place([(b"other", b"x"), (HEADER_KEY, None), (HEADER_KEY, b"short")]) is None
