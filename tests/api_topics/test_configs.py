"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest
from tests.api_topics.node import OneCall, OneNode
from tests.topics.disk import NOW, batch

from headgate.api import (
    k32_describe_configs,
    k33_alter_configs,
    k44_incremental_alter_configs,
    k74_list_config_resources,
)
from headgate.api.contract import Node
from headgate.domain.errors import ErrorCode
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Kind
from headgate.log.memory_filesystem import Fault
from headgate.topics.catalogue import Catalogue
from headgate.wire.messages import alter_configs, incremental_alter_configs
from headgate.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OVERRIDE, DYNAMIC_BROKER, DYNAMIC_ALL_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5


def describe(node: OneNode, kind: int, name: str, *keys: str, version: int = 4, **more: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return node.ask(
        k32_describe_configs.API, DescribeConfigsRequest(resources=[resource], **more), version
    ).results[0]


def value_of(node: OneNode, kind: int, name: str, key: str) -> tuple[str | None, int]:
    config = describe(node, kind, name, key).configs[0]
    return config.value, config.config_source


def change(
    node: OneNode, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> ErrorCode:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    answer = node.ask(k44_incremental_alter_configs.API, request).responses[0]
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", range(1, 5))
def test_all_settings_of_a_topic_are_described(node: OneNode, version: int) -> None:
    """No keys mean all; each has its value, source and type."""
    node.topic("letters", retention_ms="5000")
    result = describe(node, TOPIC, "letters", version=version, include_documentation=True)
    assert result.error_code == ErrorCode.NONE
    found = {config.name: config for config in result.configs}
    assert set(found) == set(TOPIC_SETTINGS)
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5000", OVERRIDE)
    assert not found["retention.ms"].read_only
    if version >= 3:
        assert found["retention.ms"].config_type == Kind.LONG.value
        assert found["cleanup.policy"].config_type == Kind.LIST.value
        assert found["retention.ms"].documentation


def test_synonyms_list_all_sources_of_a_value() -> None:
    """The topic's own value, then the broker's static one, then the default."""
    node = OneNode(log_retention_ms="7000")
    node.topic("letters", retention_ms="5000")
    config = describe(node, TOPIC, "letters", "retention.ms", include_synonyms=True).configs[0]
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        ("retention.ms", "5000", OVERRIDE),
        ("log.retention.ms", "7000", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert describe(node, TOPIC, "letters", "retention.ms").configs[0].synonyms == []


def test_settings_in_other_units_are_synonyms() -> None:
    """Milliseconds before minutes before hours; a synonym needs a value of the setting itself before it."""
    node = OneNode(log_retention_hours="2", log_retention_minutes="90")
    node.topic("letters")
    config = describe(node, TOPIC, "letters", "retention.ms", include_synonyms=True).configs[0]
    assert (config.value, config.config_source, config.synonyms) == (str(90 * 60_000), DEFAULT, [])
    assert value_of(node, BROKER, "1", "log.retention.ms") == (None, DEFAULT)
    assert value_of(node, BROKER, "1", "log.retention.minutes") == ("90", STATIC)
    assert value_of(OneNode(log_roll_hours="3"), BROKER, "1", "log.roll.hours") == ("3", STATIC)
    for_ever = OneNode(log_retention_minutes="-1")
    for_ever.topic("letters")
    assert value_of(for_ever, TOPIC, "letters", "retention.ms") == ("-1", DEFAULT)


FACTS = {
    "advertised.listeners",
    "broker.id",
    "group.coordinator.rebalance.protocols",
    "listeners",
    "log.dirs",
    "process.roles",
}


def test_the_broker_is_described(node: OneNode) -> None:
    """By its id, with its properties as Kafka's settings; without a name: the overrides of all brokers."""
    result = describe(node, BROKER, "1")
    assert {config.name for config in result.configs} == {*BROKER_SETTINGS, *FACTS}
    fixed = {config.name for config in result.configs if config.read_only}
    assert "message.max.bytes" not in fixed and {"num.partitions", "log.dirs"} < fixed
    assert value_of(node, BROKER, "1", "log.dirs") == (str(node.topics.data_dir), STATIC)
    protocols = value_of(node, BROKER, "1", "group.coordinator.rebalance.protocols")
    assert protocols == ("classic,consumer", STATIC)
    assert describe(node, BROKER, "").configs == []


def test_dynamic_broker_settings_are_changed(node: OneNode) -> None:
    """For all brokers, or for this one, which has precedence; topics without overrides use them."""
    topic, own = node.topic("letters"), node.topic("own", max_message_bytes="77")
    key = "message.max.bytes"
    assert change(node, BROKER, "", (key, SET, "2000")) == ErrorCode.NONE
    assert (topic.policy.max_message_bytes, own.policy.max_message_bytes) == (2000, 77)
    assert change(node, BROKER, "1", (key, SET, "3000")) == ErrorCode.NONE
    config = describe(node, TOPIC, "letters", "max.message.bytes", include_synonyms=True).configs[0]
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        (key, "3000", DYNAMIC_BROKER),
        (key, "2000", DYNAMIC_ALL_BROKERS),
        (key, "1048588", DEFAULT),
    ]
    assert [(one.name, one.value) for one in describe(node, BROKER, "").configs] == [(key, "2000")]
    node.restart()
    topic = node.topics.by_name("letters") or topic
    assert (topic.policy.max_message_bytes, value_of(node, BROKER, "1", key)) == (
        3000,
        ("3000", DYNAMIC_BROKER),
    )
    assert change(node, BROKER, "1", (key, DELETE, None)) == ErrorCode.NONE
    assert change(node, BROKER, "", (key, DELETE, None)) == ErrorCode.NONE
    assert topic.policy.max_message_bytes == 1_048_588
    assert change(node, BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert value_of(node, BROKER, "1", "log.cleanup.policy") == ("delete,compact", DYNAMIC_BROKER)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num.partitions", "3", "Cannot update these configs dynamically: [num.partitions]"),
        (
            "log.retention.hours",
            "3",
            "Cannot update these configs dynamically: [log.retention.hours]; log.retention.ms can be "
            "updated, and is used instead of log.retention.hours",
        ),
        (
            "log.roll.hours",
            "3",
            "Cannot update these configs dynamically: [log.roll.hours]; log.roll.ms can be updated, and "
            "is used instead of log.roll.hours",
        ),
        (
            "offsets.retention.minutes",
            "3",
            "Cannot update these configs dynamically: [offsets.retention.minutes]; a group can have its own "
            "offsets.retention.ms (`headgate configs --alter --group`)",
        ),
        (
            "headgate.durability",
            "sync",
            "Cannot update these configs dynamically: [headgate.durability]; a topic can have its own "
            "headgate.durability (`headgate configs --alter --topic`)",
        ),
        ("max.poll.records", "3", "max.poll.records is a setting of the client, not of the server"),
        ("process.roles", "broker", "Cannot update these configs dynamically: [process.roles]"),
        ("log.dirs", "/x", "Cannot update these configs dynamically: [log.dirs]"),
        (
            "mesage.max.bytes",
            "3",
            "there is no setting called mesage.max.bytes; did you mean message.max.bytes?",
        ),
        (
            "group.share.auto.offset.reset",
            "earliest",
            "group.share.auto.offset.reset is not a setting of the broker; each group has its own "
            "share.auto.offset.reset: see `headgate configs --alter --group`, or alter_configs of the Admin "
            "API",
        ),
        (
            "group.share.heartbeat.interval",
            "500",
            "there is no setting called group.share.heartbeat.interval; "
            "did you mean group.share.heartbeat.interval.ms?",
        ),
        ("log.segment.bytes", "x", "log.segment.bytes=x: a whole number is expected"),
        # Nobody could connect any more to take it back.
        ("max.connections", "0", "max.connections=0: a value from 1 to 2147483647 is expected"),
        ("max.connections.per.ip", "0", "max.connections.per.ip=0: a value from 1 to 2147483647 is expected"),
    ],
)
def test_static_broker_settings_are_refused(node: OneNode, name: str, value: str, message: str) -> None:
    """Refused as in Kafka, with all changes of the request."""
    for broker in ("", "1"):
        config = incremental_alter_configs.AlterableConfig(name=name, value=value)
        fine = incremental_alter_configs.AlterableConfig(name="message.max.bytes", value="5")
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=BROKER, resource_name=broker, configs=[fine, config]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer = node.ask(k44_incremental_alter_configs.API, request).responses[0]
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert describe(node, BROKER, "").configs == []


DESCRIBE_REFUSALS = [
    ("unknown topic", TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("bad topic", TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("another broker", BROKER, "2", ErrorCode.INVALID_REQUEST),
    ("no broker", BROKER, "one", ErrorCode.INVALID_REQUEST),
    ("no group", GROUP, "", ErrorCode.INVALID_REQUEST),
    ("unknown type", 77, "x", ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [row[1:] for row in DESCRIBE_REFUSALS],
    ids=[row[0] for row in DESCRIBE_REFUSALS],
)
def test_invalid_resources_are_refused(node: OneNode, kind: int, name: str, error: ErrorCode) -> None:
    """Every API refuses the same resources, with the same error codes."""
    assert describe(node, kind, name).error_code == error
    assert change(node, kind, name, ("retention.ms", SET, "1")) == error


def test_single_settings_are_changed_durably(node: OneNode) -> None:
    """Set, append, subtract and delete; other settings do not change."""
    node.topic("letters", max_message_bytes="1000")
    assert change(node, TOPIC, "letters", ("retention.ms", SET, "5000")) == ErrorCode.NONE
    assert change(node, TOPIC, "letters", ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert value_of(node, TOPIC, "letters", "cleanup.policy") == ("delete,compact", OVERRIDE)
    assert change(node, TOPIC, "letters", ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    node.restart(crash=True)
    assert value_of(node, TOPIC, "letters", "cleanup.policy") == ("compact", OVERRIDE)
    assert value_of(node, TOPIC, "letters", "retention.ms") == ("5000", OVERRIDE)
    assert value_of(node, TOPIC, "letters", "max.message.bytes") == ("1000", OVERRIDE)
    assert change(node, TOPIC, "letters", ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert value_of(node, TOPIC, "letters", "retention.ms")[1] == DEFAULT


def test_a_change_takes_effect_at_once(node: OneNode) -> None:
    """The next append is checked with the new settings."""
    topic = node.topic("letters")
    large = batch(b"x" * 500)
    assert topic.partition(0).append(large, NOW).error == ErrorCode.NONE
    change(node, TOPIC, "letters", ("max.message.bytes", SET, "100"))
    assert topic.partition(0).append(large, NOW).error == ErrorCode.MESSAGE_TOO_LARGE


def test_durability_can_be_changed(node: OneNode) -> None:
    """A topic that becomes durable syncs its records, which stay visible to readers."""
    topic = node.topic("letters", headgate_durability="page-cache")
    partition = topic.partition(0)
    partition.append(batch(b"a"), NOW)
    change(node, TOPIC, "letters", ("headgate.durability", SET, "sync"))
    assert partition.high_watermark == 1
    partition.append(batch(b"b"), NOW)
    assert partition.high_watermark == 1
    change(node, TOPIC, "letters", ("headgate.durability", SET, "page-cache"))
    assert partition.high_watermark == 2


CHANGE_REFUSALS = [
    ("unknown name", [("nonsense", SET, "1")], ErrorCode.INVALID_CONFIG),
    ("not a number", [("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
    ("out of range", [("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG),
    ("not a choice", [("cleanup.policy", SET, "burn")], ErrorCode.INVALID_CONFIG),
    ("append to a number", [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
    ("append not a choice", [("cleanup.policy", APPEND, "burn")], ErrorCode.INVALID_CONFIG),
    ("null", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
    ("unknown operation", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
    ("twice", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
    ("good and bad", [("retention.ms", SET, "1"), ("segment.bytes", SET, "x")], ErrorCode.INVALID_CONFIG),
]


def test_the_last_cleanup_policy_can_be_taken_away(node: OneNode) -> None:
    """As in Kafka: nothing is removed from the topic then."""
    topic = node.topic("letters")
    assert change(node, TOPIC, "letters", ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert topic.overrides == {"cleanup.policy": ""}
    assert not topic.policy.is_deleted_from and not topic.policy.is_compacted


@pytest.mark.parametrize(
    ("changes", "error"), [row[1:] for row in CHANGE_REFUSALS], ids=[row[0] for row in CHANGE_REFUSALS]
)
def test_invalid_changes_are_refused(
    node: OneNode, changes: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    """The changes of a resource are made together or not at all."""
    topic = node.topic("letters")
    assert change(node, TOPIC, "letters", *changes) == error
    assert topic.overrides == {}


@pytest.mark.parametrize(
    ("kind", "name", "known", "value"),
    [
        (TOPIC, "letters", "retention.ms", "1"),
        (GROUP, "readers", "consumer.session.timeout.ms", "50000"),
        (BROKER, "1", "message.max.bytes", "2000"),
        (BROKER, "", "message.max.bytes", "2000"),
    ],
)
def test_a_setting_that_headgate_has_not_got_can_be_deleted(
    node: OneNode, kind: int, name: str, known: str, value: str
) -> None:
    """As in Kafka; the other changes are made. MirrorMaker 2 deletes all that are default at the source."""
    node.topic("letters")
    unknown = ("remote.log.delete.on.disable", DELETE, None)
    assert change(node, kind, name, unknown, (known, SET, value)) == ErrorCode.NONE
    assert value in {one.value for one in describe(node, kind, name, known).configs}


def test_a_static_broker_setting_is_refused_with_a_reason(node: OneNode) -> None:
    """It can only be set at start."""
    assert change(node, BROKER, "1", ("num.partitions", SET, "3")) == ErrorCode.INVALID_REQUEST


def test_validate_only_changes_nothing(node: OneNode) -> None:
    """It checks all the same."""
    topic = node.topic("letters")
    good = change(node, TOPIC, "letters", ("retention.ms", SET, "1"), validate_only=True)
    bad = change(node, TOPIC, "letters", ("retention.ms", SET, "x"), validate_only=True)
    assert (good, bad) == (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    assert topic.overrides == {}


def test_groups_have_settings_before_they_exist(node: OneNode) -> None:
    """An unknown group has the defaults; overrides survive a restart and list the group."""
    key = "consumer.session.timeout.ms"
    assert value_of(node, GROUP, "readers", key) == ("45000", DEFAULT)
    assert change(node, GROUP, "readers", (key, SET, "50000")) == ErrorCode.NONE
    assert change(node, GROUP, "readers", ("nonsense", SET, "50")) == ErrorCode.INVALID_CONFIG
    node.restart(crash=True)
    assert value_of(node, GROUP, "readers", key) == ("50000", 8)
    assert listed(node, GROUP) == [("readers", GROUP)]
    assert change(node, GROUP, "readers", (key, DELETE, None)) == ErrorCode.NONE
    assert listed(node, GROUP) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max.poll.interval.ms", ""),
        ("enable.auto.commit", ""),
        ("auto.offset.reset", "; did you mean share.auto.offset.reset?"),
        (
            "session.timeout.ms",
            "; did you mean consumer.session.timeout.ms or share.session.timeout.ms?",
        ),
    ],
)
def test_a_setting_of_consumers_is_called_so(node: OneNode, name: str, hint: str) -> None:
    """The only hint is a setting of groups with its name: other similar names are of other things."""
    config = incremental_alter_configs.AlterableConfig(name=name, value="1")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP, resource_name="work", configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = node.ask(k44_incremental_alter_configs.API, request).responses[0]
    message = f"{name} is a setting of the client, not of the server{hint}"
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize("value", ["100", "2000", "60001"])
def test_a_setting_of_a_group_has_one_range(node: OneNode, value: str) -> None:
    """That of the broker's bounds, however far outside the value is."""
    name = "share.record.lock.duration.ms"
    config = incremental_alter_configs.AlterableConfig(name=name, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP, resource_name="work", configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = node.ask(k44_incremental_alter_configs.API, request).responses[0]
    message = f"{name}={value}: a value from 15000 to 60000 is expected"
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"consumer.session.timeout.ms": "60000"}, ErrorCode.NONE),
        ({"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "4999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "15000"}, ErrorCode.NONE),
        ({"consumer.assignment.interval.ms": "0"}, ErrorCode.NONE),
        ({"consumer.assignment.interval.ms": "15001"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_the_broker_bounds_a_groups_settings(
    node: OneNode, changes: dict[str, str], error: ErrorCode, validate_only: bool
) -> None:
    """Also with validate_only."""
    wanted = [(key, SET, value) for key, value in changes.items()]
    assert change(node, GROUP, "readers", *wanted, validate_only=validate_only) == error


def listed(node: OneNode, *kinds: int, version: int = 1) -> list[tuple[str, int]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = node.ask(k74_list_config_resources.API, request, version)
    return [(one.resource_name, one.resource_type) for one in answer.config_resources]


def test_resources_are_listed_by_type(node: OneNode) -> None:
    """No types mean all; version 0 has client metrics only, and there are none."""
    node.topic("letters")
    assert listed(node) == [("letters", TOPIC), ("1", BROKER)]
    assert listed(node, BROKER) == [("1", BROKER)]
    assert listed(node, version=0) == []
    request = ListConfigResourcesRequest(resource_types=[77])
    assert node.ask(k74_list_config_resources.API, request).error_code == ErrorCode.UNSUPPORTED_VERSION


def replace(node: OneNode, *resources: tuple[str, dict[str, str | None]], **more: Any) -> list[int]:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value) for key, value in texts.items()
                ],
            )
            for name, texts in resources
        ],
        **more,
    )
    return [one.error_code for one in node.ask(k33_alter_configs.API, request).responses]


def test_the_old_api_replaces_all_settings(node: OneNode) -> None:
    """Omitted settings return to their defaults."""
    topic = node.topic("letters", retention_ms="5000")
    assert replace(node, ("letters", {"segment.bytes": "2048"})) == [ErrorCode.NONE]
    assert topic.overrides == {"segment.bytes": "2048"}
    assert replace(node, ("letters", {"segment.bytes": "x"})) == [ErrorCode.INVALID_CONFIG]
    assert replace(node, ("letters", {}), validate_only=True) == [ErrorCode.NONE]
    assert topic.overrides == {"segment.bytes": "2048"}


def test_the_same_resource_twice_is_refused(node: OneNode) -> None:
    """It would be unclear which one applies."""
    node.topic("letters")
    twice = replace(node, ("letters", {"retention.ms": "1"}), ("letters", {"retention.ms": "2"}))
    assert twice == [ErrorCode.INVALID_REQUEST] * 2


def retention_of(*names: str) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    """A request that sets `retention.ms` of all of these topics."""
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[incremental_alter_configs.AlterableConfig(name="retention.ms", value="7000")],
        )
        for name in names
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)


def test_many_resources_are_altered_with_one_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each for itself all the same: what is not there is refused alone."""
    commits: list[int] = []
    commit = Catalogue.commit

    def counted(catalogue: Catalogue, events: Any, now: Any) -> None:
        commits.append(len(events))
        commit(catalogue, events, now)

    node = OneNode()
    topics = [node.topic(f"topic-{number}") for number in range(40)]
    names = [topic.name for topic in topics]
    monkeypatch.setattr(Catalogue, "commit", counted)
    answers = node.ask(k44_incremental_alter_configs.API, retention_of(*names[:20], "nowhere", *names[20:]))
    errors = [answer.error_code for answer in answers.responses]
    assert errors == [0] * 20 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] + [0] * 20
    assert all(topic.overrides == {"retention.ms": "7000"} for topic in topics)
    assert commits == [40]


def test_what_changes_while_others_are_looked_at_is_looked_at_again(node: OneNode) -> None:
    """A topic that is deleted before the change is made is refused; another setting of it is not undone."""
    topics = [node.topic(name) for name in ("changed", "deleted", "made-again", "letters")]
    request = retention_of(*(topic.name for topic in topics))
    call = OneCall(k44_incremental_alter_configs.API, 1)
    steps = k44_incremental_alter_configs._answer(cast(Node, node), call, request)
    for _ in range(4):
        next(steps)
    assert not any(topic.overrides for topic in topics)
    assert change(node, TOPIC, "changed", ("segment.bytes", SET, "2048")) == ErrorCode.NONE
    for gone in topics[1:3]:
        assert node.topics.delete(gone, NOW) is None
    again = node.topic("made-again")
    with pytest.raises(StopIteration) as stop:
        next(steps)
    errors = [answer.error_code for answer in stop.value.value.responses]
    assert errors == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 0]
    assert topics[0].overrides == {"retention.ms": "7000", "segment.bytes": "2048"}
    assert again.overrides == topics[3].overrides == {"retention.ms": "7000"}


def test_no_resource_is_altered_when_the_catalogue_cannot_be_written(node: OneNode) -> None:
    """All that are made together are told so; what was refused before is told why."""
    topics = [node.topic(name) for name in ("letters", "numbers")]
    node.disk.files.inject(Fault(errno.ENOSPC, "pwrite", path_ends=".log"))
    answers = node.ask(k44_incremental_alter_configs.API, retention_of("letters", "nowhere", "numbers"))
    storage, unknown = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [answer.error_code for answer in answers.responses] == [storage, unknown, storage]
    assert not any(topic.overrides for topic in topics)


def test_a_short_request_does_not_describe_endlessly(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of groups can be named, which need not exist: those beyond a bound are refused."""
    monkeypatch.setattr(k32_describe_configs, "MOST_DESCRIBED", 20)
    resources = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}", configuration_keys=None)
        for number in range(10)
    ]
    results = node.ask(k32_describe_configs.API, DescribeConfigsRequest(resources=resources), 4).results
    errors = [ErrorCode(result.error_code) for result in results]
    described = errors.count(ErrorCode.NONE)
    assert 0 < described < 10
    assert errors == [ErrorCode.NONE] * described + [ErrorCode.INVALID_REQUEST] * (10 - described)
    assert 20 < sum(len(result.configs) for result in results) < 20 + len(results[0].configs) + 1
