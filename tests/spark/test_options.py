"""Options are checked before anything is read, and what is wrong with them is said in their own terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.options import NAMES, OptionError, choose_columns, parse, source_option

GIVEN = {"path": "/data", "topic": "flights"}


def test_defaults_read_everything_and_fail_on_what_is_wrong() -> None:
    """Only a source and a topic must be given."""
    options = parse(GIVEN)
    assert (options.path, options.topic) == (Path("/data"), "flights")
    assert (options.starting_offsets, options.ending_offsets, options.columns) == (None, None, None)
    assert options.fail_on_corrupt
    assert options.fail_on_data_loss
    assert options.min_partitions >= 1


def test_every_documented_option_is_understood_in_any_case() -> None:
    """Spark does not keep the case of option names."""
    values = {
        "path": "/data",
        "topic": "flights",
        "startingOffsets": '{"flights": {"0": 23, "1": -2}}',
        "endingOffsets": '{"flights": {"0": 50, "1": -1}}',
        "columns": "offset, value",
        "minPartitions": "7",
        "maxBytesPerTask": "64m",
        "failOnCorrupt": "False",
        "failOnDataLoss": "false",
    }
    assert set(values) | {"bootstrap.servers"} == set(NAMES)
    options = parse({name.lower(): value for name, value in values.items()})
    assert options.starting_offsets == {0: 23, 1: -2}
    assert options.ending_offsets == {0: 50, 1: -1}
    assert options.columns == ("offset", "value")
    assert (options.min_partitions, options.max_bytes_per_task) == (7, 64 << 20)
    assert not options.fail_on_corrupt
    assert not options.fail_on_data_loss


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"toppic": "x"}, r"no option 'toppic'; did you mean 'topic'\?"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"kafka.bootstrap.servers": "a:1"}, "did you mean 'bootstrap.servers'"),
        ({"qqqq": "x"}, "no option 'qqqq'; there are path, bootstrap.servers"),
        ({"topic": ""}, "topic is missing"),
        ({"path": ""}, "path .* or bootstrap.servers .* is missing"),
        ({"bootstrap.servers": "a:1"}, "exclude each other"),
        ({"path": "", "bootstrap.servers": "nowhere"}, "is not HOST:PORT"),
        ({"path": "", "bootstrap.servers": "a:1", "maxBytesPerTask": "1m"}, "goes with path only"),
        ({"startingOffsets": "latest"}, "neither earliest nor JSON"),
        ({"endingOffsets": "earliest"}, "neither latest nor JSON"),
        ({"startingOffsets": '{"flights": [1]}'}, "is not like"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "is not like .* for topic 'flights'"),
        ({"startingOffsets": '{"flights": {}, "other": {}}'}, "topics that are not read: other"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "only -2 .earliest. may be negative"),
        ({"endingOffsets": '{"flights": {"0": -2}}'}, "only -1 .latest. may be negative"),
        ({"minPartitions": "0"}, "whole number"),
        ({"maxBytesPerTask": "much"}, "not a size"),
        ({"failOnCorrupt": "maybe"}, "neither true nor false"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, str], message: str) -> None:
    """Nothing is ignored, and the nearest name is suggested."""
    with pytest.raises(OptionError, match=message):
        parse(GIVEN | changes)


def test_columns_that_do_not_exist_are_refused() -> None:
    """With the nearest that does."""
    available = ["topic", "partition", "offset"]
    assert choose_columns(None, available) == available
    assert choose_columns(("offset", "topic"), available) == ["offset", "topic"]
    with pytest.raises(OptionError, match="no column 'ofset'; did you mean 'offset'"):
        choose_columns(("ofset",), available)
    with pytest.raises(OptionError, match="twice"):
        choose_columns(("topic", "topic"), available)


def test_a_reader_of_one_topic_refuses_another() -> None:
    """The typed readers know what they read."""
    assert parse({"path": "/data"}, topic="__consumer_offsets").topic == "__consumer_offsets"
    with pytest.raises(OptionError, match="__consumer_offsets only"):
        parse(GIVEN, topic="__consumer_offsets")


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("127.0.0.1:9092", ("bootstrap.servers", "127.0.0.1:9092")),
        ("a:1,b:2", ("bootstrap.servers", "a:1,b:2")),
        ("data", ("path", "data")),
        ("/var/lib/head:gate/data", ("path", "/var/lib/head:gate/data")),
        (Path("data"), ("path", "data")),
    ],
)
def test_addresses_are_told_from_directories(source: str | Path, option: tuple[str, str]) -> None:
    """HOST:PORT is a cluster, all else a path."""
    assert source_option(source) == option
