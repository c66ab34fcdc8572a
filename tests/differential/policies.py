"""Scenarios that depend on `group.consumer.migration.policy`, which a broker has from its start on."""

from __future__ import annotations

from tests.differential.requests import (
    assignment,
    beat,
    commit,
    describe_consumer_groups,
    enter,
    heartbeat,
    join,
    list_groups,
    subscription,
    sync,
)
from tests.differential.script import Scenario, Script

PARTITIONS = 2


def a_new_member_comes_to_a_classic_group(ask: Script) -> None:
    """It is let in, or told that this is no group for it."""
    topic = ask.topic(partitions=PARTITIONS)
    protocols = {"range": subscription([topic.name])}
    member = ask(join(ask.group, protocols, 3), "classic")["member_id"]
    ask(sync(ask.group, member, 1, {member: assignment({topic.name: [0, 1]})}), "classic")
    ask(enter(ask.group, "new", [topic.name]), "new")
    ask(heartbeat(ask.group, member, 1), "classic")
    ask(commit(ask.group, {topic.name: {0: 1}}, member=member, epoch=1))
    ask.only(list_groups(), "groups", "group_id", [ask.group])


def a_classic_member_comes_to_a_consumer_group(ask: Script) -> None:
    """It is let in, or told that this is no group for it; then the one that was there leaves."""
    topic = ask.topic(partitions=PARTITIONS)
    protocols = {"range": subscription([topic.name])}
    ask(enter(ask.group, "new", [topic.name]), "new")
    ask(join(ask.group, {"other": b""}, member="classic", protocol_type="other"), "classic")
    joined = ask(join(ask.group, protocols, member="classic"), "classic")
    if joined["error_code"] == "none":
        ask(sync(ask.group, "classic", joined["generation_id"]), "classic")
    ask(beat(ask.group, "new", -1), "new")
    ask(describe_consumer_groups(ask.group))
    ask.only(list_groups(), "groups", "group_id", [ask.group])
    ask(heartbeat(ask.group, "classic", 3), "classic")
    joined = ask(join(ask.group, protocols, member="classic"), "classic")
    if joined["error_code"] == "none":
        ask(sync(ask.group, "classic", joined["generation_id"]), "classic")
    ask.only(list_groups(), "groups", "group_id", [ask.group])


def an_empty_group_is_what_its_next_member_is(ask: Script) -> None:
    """Both ways, and it keeps its offsets."""
    topic = ask.topic(partitions=PARTITIONS)
    protocols = {"range": subscription([topic.name])}
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(enter(ask.group, "new", [topic.name]), "new")
    ask(beat(ask.group, "new", -1), "new")
    ask(join(ask.group, protocols, 3, rebalance_timeout=1_000), "classic")
    ask.only(list_groups(), "groups", "group_id", [ask.group])


POLICY_SCENARIOS: tuple[Scenario, ...] = (
    a_new_member_comes_to_a_classic_group,
    a_classic_member_comes_to_a_consumer_group,
    an_empty_group_is_what_its_next_member_is,
)
