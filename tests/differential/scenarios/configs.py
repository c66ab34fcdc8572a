"""Settings of groups, topics and the broker: described and altered."""

from __future__ import annotations

from typing import Any

from tests.differential.requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    alter_configs,
    beat,
    commit,
    delete_groups,
    describe_configs,
    describe_consumer_groups,
    enter,
)
from tests.differential.script import Script

GROUP_SETTINGS = [
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
]
TOPIC_SETTINGS = ["retention.ms", "cleanup.policy", "max.message.bytes", "no.such.setting"]


def _settled(ask: Script, resource_type: int, name: str, key: str, value: str) -> None:
    """Wait until a setting that was altered shows."""

    def shows(answer: Any) -> bool:
        return any(one["name"] == key and one["value"] == value for one in answer["results"][0]["configs"])

    ask.until(describe_configs(resource_type, name, [key]), shows)


def settings_of_groups_are_described(ask: Script) -> None:
    """Whether the group is there or not; by name, all of them, unknown ones."""
    for version in range(1, 5):
        ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS, version))
        ask(describe_configs(GROUP, ask.group, ["no.such.setting"], version))
        ask(describe_configs(GROUP, "", GROUP_SETTINGS, version))
    ask(describe_configs(GROUP, ask.group, []))
    ask(describe_configs(GROUP, ask.group, None))
    ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS, include_synonyms=True))
    ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS[:1], include_documentation=True))


def settings_of_groups_are_altered(ask: Script) -> None:
    """Set, shown, deleted; within bounds."""
    name = "consumer.heartbeat.interval.ms"
    ask(alter_configs(GROUP, ask.group, {name: (SET, "7000")}))
    _settled(ask, GROUP, ask.group, name, "7000")
    ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS, include_synonyms=True))
    ask(alter_configs(GROUP, ask.group, {name: (DELETE, None)}))
    _settled(ask, GROUP, ask.group, name, "5000")
    ask(alter_configs(GROUP, ask.group, {name: (DELETE, None)}), note="twice")
    for version in (0, 1):
        for key, operation, value in (
            (name, SET, "499"),
            (name, SET, "15001"),
            (name, SET, "soon"),
            (name, SET, ""),
            (name, SET, None),
            (name, APPEND, "7000"),
            (name, SUBTRACT, "7000"),
            (name, 7, "7000"),
            ("consumer.session.timeout.ms", SET, "999"),
            ("consumer.session.timeout.ms", SET, "4000"),
            ("consumer.session.timeout.ms", SET, "60001"),
            ("consumer.assignment.interval.ms", SET, "-1"),
            ("consumer.assignment.interval.ms", SET, "15001"),
            ("no.such.setting", SET, "1"),
            ("no.such.setting", DELETE, None),
        ):
            note = f"{key}={value}, operation {operation}"
            ask(alter_configs(GROUP, ask.group, {key: (operation, value)}, version), note=note)
    ask(alter_configs(GROUP, "", {name: (SET, "7000")}))
    ask(alter_configs(GROUP, ask.group, {}))
    ask(alter_configs(GROUP, ask.group, {name: (SET, "8000")}, validate_only=True))
    ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS))


def several_settings_at_once(ask: Script) -> None:
    """All or none: one that is wrong keeps the others from being set."""
    ask(
        alter_configs(
            GROUP,
            ask.group,
            {"consumer.heartbeat.interval.ms": (SET, "7000"), "no.such.setting": (SET, "1")},
        )
    )
    ask(describe_configs(GROUP, ask.group, GROUP_SETTINGS))
    twice = alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (SET, "7000")})
    (resource,) = twice.values["resources"]
    ask(twice.but(resources=[resource, resource]))
    ask(twice.but(resources=[resource | {"configs": resource["configs"] * 2}]))
    other = resource | {"resource_name": f"{ask.group}-2"}
    bad = resource | {"configs": [{"name": "no.such.setting", "config_operation": SET, "value": "1"}]}
    ask(twice.but(resources=[bad, other]))
    _settled(ask, GROUP, f"{ask.group}-2", "consumer.heartbeat.interval.ms", "7000")


def a_heartbeat_interval_of_its_own(ask: Script) -> None:
    """Members of the group are told it, and those of others are not."""
    topic = ask.topic()
    ask(alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (SET, "7000")}))
    ask.until(
        enter(ask.group, "m", [topic.name]),
        lambda answer: answer["heartbeat_interval"] == 7000,
    )
    ask(enter(f"{ask.group}-2", "m", [topic.name]))


def an_assignment_interval_of_its_own(ask: Script) -> None:
    """The second member is in, and its epoch known, but there is no new target until the interval is over."""
    topic = ask.topic(partitions=2)
    ask(alter_configs(GROUP, ask.group, {"consumer.assignment.interval.ms": (SET, "2000")}))
    _settled(ask, GROUP, ask.group, "consumer.assignment.interval.ms", "2000")
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "a", 2))
    ask.until(beat(ask.group, "a", 2), lambda answer: answer["assignment"] is not None)
    ask(describe_consumer_groups(ask.group))


def a_session_of_its_own(ask: Script) -> None:
    """A member that is silent for as long as its group says is out; of another group it is not."""
    topic = ask.topic()
    other = f"{ask.group}-2"
    ask(alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (SET, "500")}))
    ask(alter_configs(GROUP, ask.group, {"consumer.session.timeout.ms": (SET, "1000")}))
    _settled(ask, GROUP, ask.group, "consumer.session.timeout.ms", "1000")
    for group in (ask.group, other):
        ask(enter(group, "m", [topic.name]))
    ask.until(
        describe_consumer_groups(ask.group), lambda answer: answer["groups"][0]["group_state"] == "Empty"
    )
    ask(beat(ask.group, "m", 2))
    ask(beat(other, "m", 2))


def settings_of_topics_are_described(ask: Script) -> None:
    """In every version; of topics that are not there, too."""
    topic = ask.topic(configs={"retention.ms": "123456"})
    for version in range(1, 5):
        ask(describe_configs(TOPIC, topic.name, TOPIC_SETTINGS, version))
        ask(describe_configs(TOPIC, "no-such-topic", TOPIC_SETTINGS, version))
        ask(describe_configs(TOPIC, "bad name", TOPIC_SETTINGS, version))
        ask(describe_configs(TOPIC, "", TOPIC_SETTINGS, version))
    ask(describe_configs(TOPIC, topic.name, None))
    ask(describe_configs(TOPIC, topic.name, TOPIC_SETTINGS, include_synonyms=True))


def settings_of_topics_are_altered(ask: Script) -> None:
    """Set, appended to, taken from, deleted."""
    topic = ask.topic()
    ask(alter_configs(TOPIC, topic.name, {"retention.ms": (SET, "1000")}))
    _settled(ask, TOPIC, topic.name, "retention.ms", "1000")
    ask(alter_configs(TOPIC, topic.name, {"cleanup.policy": (APPEND, "compact")}))
    _settled(ask, TOPIC, topic.name, "cleanup.policy", "delete,compact")
    ask(alter_configs(TOPIC, topic.name, {"cleanup.policy": (SUBTRACT, "delete")}))
    _settled(ask, TOPIC, topic.name, "cleanup.policy", "compact")
    ask(alter_configs(TOPIC, topic.name, {"retention.ms": (DELETE, None), "cleanup.policy": (DELETE, None)}))
    _settled(ask, TOPIC, topic.name, "cleanup.policy", "delete")
    for key, operation, value in (
        ("retention.ms", SET, "soon"),
        ("retention.ms", SET, "-2"),
        ("retention.ms", SET, None),
        ("retention.ms", APPEND, "1"),
        ("cleanup.policy", SET, "shred"),
        ("cleanup.policy", APPEND, "shred"),
        ("cleanup.policy", APPEND, "delete"),
        ("cleanup.policy", SUBTRACT, "compact"),
        ("no.such.setting", SET, "1"),
        ("no.such.setting", DELETE, None),
        ("segment.bytes", SET, "1"),
    ):
        note = f"{key}={value}, operation {operation}"
        ask(alter_configs(TOPIC, topic.name, {key: (operation, value)}), note=note)
    ask(alter_configs(TOPIC, "no-such-topic", {"retention.ms": (SET, "1000")}))
    ask(alter_configs(TOPIC, "bad name", {"retention.ms": (SET, "1000")}))
    ask(describe_configs(TOPIC, topic.name, TOPIC_SETTINGS))


def settings_of_the_broker(ask: Script) -> None:
    """Some that both have, of this broker and of another one."""
    names = ["offset.metadata.max.bytes", "group.max.session.timeout.ms", "no.such.setting"]
    ask(describe_configs(BROKER, "1", names))
    ask(describe_configs(BROKER, "77", names))
    ask(describe_configs(BROKER, "one", names))
    ask(alter_configs(BROKER, "77", {"offset.metadata.max.bytes": (SET, "1")}))
    ask(describe_configs(99, "x", names))
    ask(alter_configs(99, "x", {"a": (SET, "1")}))


def settings_outlive_their_group(ask: Script) -> None:
    """They belong to the group's name."""
    topic = ask.topic()
    ask(alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (SET, "7000")}))
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(delete_groups(ask.group))
    _settled(ask, GROUP, ask.group, "consumer.heartbeat.interval.ms", "7000")
