"""Members of share groups: how many, what each is assigned, how long they are waited for."""

from __future__ import annotations

from typing import Any

from tests.differential.requests import GROUP, delete_topics, describe_configs, list_groups
from tests.differential.script import Script
from tests.differential.share_requests import beat, configure, describe, is_assigned
from tests.differential.wire import Request, Tree


def more_than_a_group_may_have(ask: Script) -> None:
    """The sixth of five is refused; one who leaves makes room."""
    topic = ask.topic()
    ask(beat(ask.group, "m0", 0, topic.name))
    ask.until(beat(ask.group, "m0", 2), is_assigned)
    for number in range(1, 6):
        ask(beat(ask.group, f"m{number}", 0, topic.name))
    ask(beat(ask.group, "m0", 0, topic.name), note="a member already")
    ask(beat(ask.group, "m1", -1))
    ask(beat(ask.group, "m5", 0, topic.name))


def with_several_partitions(ask: Script) -> None:
    """Each partition has a member, and each member has about as many partitions."""
    topic = ask.topic("t", 6)
    ask(beat(ask.group, "m0", 0, topic.name))
    ask.until(beat(ask.group, "m0", 2), is_assigned)
    for number in range(1, 5):
        _aside(ask, beat(ask.group, f"m{number}", 0, topic.name))
        _note_spread(ask)
    for number in range(4):
        ask(beat(ask.group, f"m{number}", -1))
        _note_spread(ask)


def that_read_different_topics(ask: Script) -> None:
    """Each topic goes to those that read it."""
    one, two = ask.topic("one", 2), ask.topic("two", 2)
    ask(beat(ask.group, "a", 0, one.name))
    ask.until(beat(ask.group, "a", 0, one.name), is_assigned)
    ask(beat(ask.group, "b", 0, two.name))
    ask.until(beat(ask.group, "b", 0, two.name), is_assigned)
    _aside(ask, beat(ask.group, "c", 0, one.name, two.name))
    _note_spread(ask)
    _aside(ask, beat(ask.group, "a", 1, two.name))
    _note_spread(ask)


def _aside(ask: Script, request: Request) -> Tree:
    """Ask; the answer is no part of the story: which of several equal partitions it names is no promise."""
    return ask.wait_until(request, lambda answer: True)


def _note_spread(ask: Script) -> None:
    """Note how many partitions of each topic each member has, and how many nobody has."""
    (group,) = _aside(ask, describe(ask.group))["groups"]
    counts = {
        (member["member_id"], topic["topic_name"]): len(topic["partitions"])
        for member in group["members"]
        for topic in member["assignment"]["topic_partitions"]
    }
    there = {
        (topic["topic_name"], one)
        for member in group["members"]
        for topic in member["assignment"]["topic_partitions"]
        for one in topic["partitions"]
    }
    ask.note("the assignment", {"members": sorted(map(str, counts.items())), "assigned": len(there)})


def that_wait_for_a_topic(ask: Script) -> None:
    """A topic that is not there yet is assigned when it is."""
    name = f"{ask.name}-late"
    ask(beat(ask.group, "m", 0, name))
    ask(describe(ask.group))
    ask.topic("late")
    ask.until(beat(ask.group, "m", 0, name), is_assigned)
    ask(describe(ask.group))


def whose_topic_is_deleted(ask: Script) -> None:
    """They have nothing any more, and stay."""
    topic = ask.topic()
    ask(beat(ask.group, "m", 0, topic.name))
    ask.until(beat(ask.group, "m", 2), is_assigned)
    ask(delete_topics(topic.name))
    ask.until(beat(ask.group, "m", 0, topic.name), lambda answer: not is_assigned(answer))
    ask.until(describe(ask.group), lambda answer: _epoch(answer) > 3)


def _epoch(answer: dict[str, Any]) -> int:
    epoch: int = answer["groups"][0]["group_epoch"]
    return epoch


def that_are_not_heard_of(ask: Script) -> None:
    """The session ends, and the member is removed."""
    topic = ask.topic()
    configure(ask, session_timeout_ms="1000", heartbeat_interval_ms="500")
    ask(beat(ask.group, "m", 0, topic.name))
    ask.until(describe(ask.group), lambda answer: not answer["groups"][0]["members"])
    ask(beat(ask.group, "m", 1))


def that_are_listed(ask: Script) -> None:
    """By type and by state, with and without members."""
    topic = ask.topic()
    for kind in ("share", "Share", "consumer", "none"):
        ask.only(list_groups(types=[kind]), "groups", "group_id", [ask.group])
    ask(beat(ask.group, "m", 0, topic.name))
    for state in ("Stable", "stable", "Empty", "Dead", "none"):
        ask.only(list_groups(types=["share"], states=[state]), "groups", "group_id", [ask.group])
    ask(beat(ask.group, "m", -1))
    for version in (3, 4, 5):
        ask.only(list_groups(version), "groups", "group_id", [ask.group])


def with_operations(ask: Script) -> None:
    """Described with what the client may do, of known and unknown groups, and of one that is named twice."""
    topic = ask.topic()
    ask(beat(ask.group, "m", 0, topic.name, rack_id="r"))
    ask(describe(ask.group, "none-of-these", with_operations=True))
    ask(describe(ask.group, ask.group))
    ask(describe(""))
    ask(describe())


def settings_as_described(ask: Script) -> None:
    """The values in force and where they come from."""
    names = [
        f"share.{name}"
        for name in (
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
            "auto.offset.reset",
            "isolation.level",
            "renew.acknowledge.enable",
            "assignment.interval.ms",
        )
    ]
    ask(describe_configs(GROUP, ask.group, names, include_synonyms=True))
    configure(ask, isolation_level="read_committed", delivery_count_limit="7")
    ask(describe_configs(GROUP, ask.group, names, include_synonyms=True))
