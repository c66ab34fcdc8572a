"""Options are checked before anything is read, and errors name the option."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.domain.ids import TopicName, TopicPartition
from headgate.spark.options import NAMES, OptionError, choose_columns, parse, source_option

FLIGHTS = TopicName("flights")
GIVEN = {"path": "/data", "topic": "flights"}


def test_defaults_read_everything_and_fail_on_what_is_wrong() -> None:
    """Only a source and a topic are required."""
    options = parse(GIVEN)
    assert (options.path, options.topics.names) == (Path("/data"), ("flights",))
    assert (options.starting_offsets, options.ending_offsets, options.columns) == ({}, {}, None)
    assert options.fail_on_corrupt
    assert options.fail_on_data_loss
    assert options.min_partitions >= 1


def test_every_documented_option_is_understood_in_any_case() -> None:
    """Spark does not keep the case of option names."""
    values = {
        "path": "/data",
        "subscribe": "flights",
        "startingOffsets": '{"flights": {"0": 23, "1": -2}}',
        "endingOffsets": '{"flights": {"0": 50, "1": -1}}',
        "columns": "offset, value",
        "minPartitions": "7",
        "maxBytesPerTask": "64m",
        "failOnCorrupt": "False",
        "failOnDataLoss": "false",
        "includeHeaders": "False",
        "isolationLevel": "read_committed",
        "timeout": "1.5s",
    }
    assert set(values) | {"kafka.bootstrap.servers", "subscribePattern", "assign"} == set(NAMES)
    options = parse({name.lower(): value for name, value in values.items()})
    first, second = TopicPartition(FLIGHTS, 0), TopicPartition(FLIGHTS, 1)
    assert options.starting_offsets == {first: 23, second: -2}
    assert options.ending_offsets == {first: 50, second: -1}
    assert (options.timeout_s, options.include_headers) == (1.5, False)
    assert options.columns == ("offset", "value")
    assert (options.min_partitions, options.max_bytes_per_task) == (7, 64 << 20)
    assert not options.fail_on_corrupt
    assert not options.fail_on_data_loss
    assert options.is_committed_only


def test_the_isolation_level_has_two_names() -> None:
    """Ours, and that of Spark's Kafka source; without one, everything is read."""
    given = {"path": "/data", "topic": "flights"}
    assert parse(given | {"isolationLevel": "Read_Committed"}).is_committed_only
    assert parse(given | {"kafka.isolation.level": "read_committed"}).is_committed_only
    assert not parse(given | {"isolationLevel": "read_uncommitted"}).is_committed_only
    assert not parse(given).is_committed_only


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"toppic": "x"}, r"no option 'toppic'; did you mean 'topic'\?"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"kafka.group.id": "a"}, "no option 'kafka.group.id'"),
        ({"qqqq": "x"}, "no option 'qqqq'; there are path, kafka.bootstrap.servers"),
        ({"subscribe": "other"}, "subscribe is given twice: 'flights' and 'other'"),
        ({"subscribePattern": "f.*"}, "subscribe and subscribePattern exclude each other"),
        ({"topic": "", "subscribePattern": "("}, "no regular expression"),
        ({"topic": "", "assign": "[1]"}, "assign: .* is not like"),
        ({"path": "s3://bucket/data"}, "from this machine's disks"),
        ({"timeout": "soon"}, "not a time"),
        ({"topic": ""}, "topic is missing"),
        ({"path": ""}, "path .* or kafka.bootstrap.servers .* is missing"),
        ({"bootstrap.servers": "a:1"}, "exclude each other"),
        ({"path": "", "bootstrap.servers": "nowhere"}, "is not HOST:PORT"),
        ({"path": "", "bootstrap.servers": "a:1", "maxBytesPerTask": "1m"}, "goes with path only"),
        ({"startingOffsets": "latest"}, "neither earliest nor JSON"),
        ({"endingOffsets": "earliest"}, "neither latest nor JSON"),
        ({"startingOffsets": '{"flights": [1]}'}, "is not like"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "topics that are not read: other"),
        ({"startingOffsets": '{"flights": {}, "other": {}}'}, "topics that are not read: other"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "only -2 .earliest. may be negative"),
        ({"endingOffsets": '{"flights": {"0": -2}}'}, "only -1 .latest. may be negative"),
        ({"minPartitions": "0"}, "whole number"),
        ({"maxBytesPerTask": "much"}, "not a size"),
        ({"isolationLevel": "serializable"}, "neither read_uncommitted nor read_committed"),
        ({"failOnCorrupt": "maybe"}, "neither true nor false"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, str], message: str) -> None:
    """No option is ignored, and the error suggests the most similar name."""
    with pytest.raises(OptionError, match=message):
        parse(GIVEN | changes)


def test_columns_that_do_not_exist_are_refused() -> None:
    """The error suggests the most similar name."""
    available = ["topic", "partition", "offset"]
    assert choose_columns(None, available) == available
    assert choose_columns(("offset", "topic"), available) == ["offset", "topic"]
    with pytest.raises(OptionError, match="no column 'ofset'; did you mean 'offset'"):
        choose_columns(("ofset",), available)
    with pytest.raises(OptionError, match="twice"):
        choose_columns(("topic", "topic"), available)


def test_a_reader_of_one_topic_refuses_another() -> None:
    """The typed readers have a fixed topic."""
    assert parse({"path": "/data"}, topic="__consumer_offsets").topics.names == ("__consumer_offsets",)
    with pytest.raises(OptionError, match="__consumer_offsets only"):
        parse(GIVEN, topic="__consumer_offsets")


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("127.0.0.1:9092", ("kafka.bootstrap.servers", "127.0.0.1:9092")),
        ("a:1,b:2", ("kafka.bootstrap.servers", "a:1,b:2")),
        ("data", ("path", "data")),
        ("/var/lib/head:gate/data", ("path", "/var/lib/head:gate/data")),
        (Path("data"), ("path", "data")),
    ],
)
def test_addresses_are_distinguished_from_directories(source: str | Path, option: tuple[str, str]) -> None:
    """HOST:PORT is a cluster, all else a path."""
    assert source_option(source) == option


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"subscribe": "b, a"}, ["b", "a"]),
        ({"topic": "a"}, ["a"]),
        ({"subscribePattern": "a|b+"}, ["a", "b", "bb"]),
        ({"assign": '{"b": [1, 7]}'}, ["b"]),
    ],
)
def test_topics_are_chosen_as_in_sparks_kafka_source(choice: dict[str, str], found: list[str]) -> None:
    """By names, by a pattern that no internal topic matches, or as single partitions."""
    topics = parse({"bootstrap.servers": "a:1", **choice}).topics
    assert topics.among(["b", "a", "bb", "abb", "__b"]) == found
    expected = [1] if "assign" in choice else [0, 1, 2]
    assert topics.partitions_of(TopicName(found[0]), [2, 1, 0]) == expected


def test_a_path_may_be_a_file_uri() -> None:
    """As Spark writes paths."""
    assert parse({**GIVEN, "path": "file:///a%20b/c"}).path == Path("/a b/c")
    assert parse({**GIVEN, "path": "file:/data"}).path == Path("/data")
