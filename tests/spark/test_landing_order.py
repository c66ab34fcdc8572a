"""The order of landed rows, computed from numbers, is the order that Arrow would give them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark.landing.ordering import by_date, sorted_rows
from headgate.spark.landing.sampling import with_ends

DAY_US = 86_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("group_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
ORDER = ("group_id", "topic", "partition", "log_offset")


def table(seed: int, count: int, widest: int, *, in_log_order: bool) -> pa.Table:
    """Return rows with nulls and odd names."""
    chance = random.Random(seed)
    names = ["", "a", "b", "\u00e9", "z", "\U0001f600", None]
    offsets = range(count) if in_log_order else [chance.randrange(5) for _ in range(count)]
    rows: list[dict[str, Any]] = [
        {
            "group_id": chance.choice(names),
            "topic": chance.choice(names),
            "partition": chance.choice([0, 1, widest, -widest]),
            "log_offset": offset,
            "at": chance.choice([-1, 0, DAY_US - 1, DAY_US, 20_000 * DAY_US, None]),
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("widest", [1, 2**31 - 1])
@pytest.mark.parametrize("in_log_order", [True, False])
def test_the_order_is_that_of_arrow(seed: int, widest: int, in_log_order: bool) -> None:
    """Texts by their bytes, nulls last; with numbers that do not fit together into 64 bits, too."""
    rows = table(seed, 50, widest, in_log_order=in_log_order)
    expected = rows.sort_by([(column, "ascending") for column in ORDER])
    keys = list(ORDER)
    found = sorted_rows(rows, ORDER)
    assert found.select(keys).equals(expected.select(keys))
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, rows.to_pylist()))
    assert sorted_rows(rows.slice(0, 0), ORDER).num_rows == 0


@pytest.mark.parametrize("late", ["a group", "an offset", "nothing"])
def test_rows_that_are_sorted_at_first_are_sorted_to_the_end(late: str) -> None:
    """A row that is too late behind two thousand others is moved, by its text or by its number."""
    cells = [(f"g{number // 3:04d}", number) for number in range(2000)]
    cells += {"a group": [("a", 7)], "an offset": [("g0666", 1)], "nothing": []}[late]
    rows = pa.table([pa.array(each) for each in zip(*cells, strict=True)], ["group_id", "log_offset"])
    found = sorted_rows(rows, ("group_id", "log_offset"))
    assert list(zip(*found.to_pydict().values(), strict=True)) == sorted(cells)


@pytest.mark.parametrize("seed", range(3))
def test_offsets_get_the_ends_that_a_join_would_give_them(seed: int) -> None:
    """In the order of the offsets; a partition without an end, of a deleted topic for example, gets null."""
    chance = random.Random(seed)
    places = [(topic, partition) for topic in ("a", "b", "\u00e9", "z") for partition in range(5)]
    known = chance.sample(places, 12 if seed else 0)
    ends = pa.table(
        [
            pa.array([topic for topic, _ in known], pa.string()),
            pa.array([f"id of {topic}" for topic, _ in known], pa.string()),
            pa.array([partition for _, partition in known], pa.int32()),
            pa.array([chance.randrange(1000) for _ in known], pa.int64()),
        ],
        ["topic", "topic_id", "partition", "end_offset"],
    )
    committed = [(f"g{number}", *place) for number in range(9) for place in chance.sample(places, 6)]
    offsets = pa.table(
        [pa.array(each) for each in zip(*committed, strict=True)], ["group_id", "topic", "partition"]
    ).cast(pa.schema({"group_id": pa.string(), "topic": pa.string(), "partition": pa.int32()}))
    found = with_ends(offsets, ends)
    joined = offsets.join(ends, ["topic", "partition"])
    order = [(name, "ascending") for name in offsets.column_names]
    assert found.select(offsets.column_names).equals(offsets)
    assert found.sort_by(order).equals(joined.select(found.column_names).sort_by(order))


def test_columns_are_ordered_whether_or_not_their_ends_and_middle_differ() -> None:
    """A column with the same value in every row stays; one that only looks like it does not."""
    names = ["same", "almost", "text", "nothing", "few"]
    cells: list[list[Any]] = [
        [7] * 5,
        [1, 2, 1, 3, 1],
        ["a", "a", "a", "b", "a"],
        [None] * 5,
        [1, None, 1, 1, 1],
    ]
    rows = pa.table([pa.array([4, 3, 2, 1, 0]), *map(pa.array, cells)], ["log_offset", *names])
    found = sorted_rows(rows, ("log_offset",)).to_pydict()
    assert found == {"log_offset": [0, 1, 2, 3, 4]} | {
        name: column[::-1] for name, column in zip(names, cells, strict=True)
    }


def test_rows_are_divided_by_their_utc_date() -> None:
    """Those without a time come last, under a name of their own."""
    rows = table(1, 60, 1, in_log_order=True)
    parts = list(by_date(rows, "at"))
    assert [date for date, _ in parts] == ["1969-12-31", "1970-01-01", "1970-01-02", "2024-10-04", "unknown"]
    assert sum(part.num_rows for _, part in parts) == 60
    assert list(by_date(rows.slice(0, 0), "at")) == []
    ((date, one),) = by_date(rows.filter(pa.compute.equal(rows["at"], rows["at"][0])), "at")
    assert one.num_rows and date
