"""Classic groups: members that join, synchronise, heartbeat and leave, and how they are refused."""

from __future__ import annotations

from typing import Any

from tests.differential.members import join_as_new
from tests.differential.requests import (
    commit,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch,
    heartbeat,
    join,
    leave,
    list_groups,
    subscription,
    sync,
)
from tests.differential.script import Script

TOPICS = {"range": subscription(["flights"])}


def _enter(ask: Script, on: str = "main", version: int = 9, **more: Any) -> str:
    """Join alone, with an id first where the version wants that; the member's id."""
    return str(join_as_new(ask, on=on, version=version, **more)["member_id"])


def _alone(ask: Script, version: int = 9, **more: Any) -> str:
    """The only member of a stable group in its first generation; its id."""
    member = _enter(ask, version=version, **more)
    ask(sync(ask.group, member, 1, {member: b"mine"}))
    return member


def _known(ask: Script, on: str, protocols: dict[str, bytes] | None = None, **more: Any) -> str:
    """A member id to join with."""
    answer = ask(join(ask.group, protocols, **more), on)
    member: str = answer["member_id"]
    return member


def _pair(ask: Script) -> tuple[str, str]:
    """A leader and a follower, on connections "a" and "b", in generation 2."""
    leader = _enter(ask, "a")
    ask(sync(ask.group, leader, 1, {leader: b"all"}), "a")
    follower = _known(ask, "b")
    joining = ask.later(join(ask.group, member=follower), "b")
    ask.until(heartbeat(ask.group, leader, 1), lambda answer: answer["error_code"] != "none", "a")
    ask(join(ask.group, member=leader), "a")
    joining()
    waiting = ask.later(sync(ask.group, follower, 2), "b")
    ask(sync(ask.group, leader, 2, {leader: b"half", follower: b"rest"}), "a")
    waiting()
    return leader, follower


def one_member_in_every_version(ask: Script) -> None:
    """Join, sync, heartbeat, describe, leave: the life of a group of one."""
    for version in range(10):
        ask.group = f"{ask.name}-v{version}"
        member = _enter(ask, version=version, protocols=TOPICS)
        ask(sync(ask.group, member, 1, {member: b"mine"}, min(version, 5)))
        for beating in range(5):
            ask(heartbeat(ask.group, member, 1, beating))
        for describing in range(7):
            ask(describe_groups(ask.group, version=describing))
        ask(leave(ask.group, member, version=min(version, 5)))
        ask(describe_groups(ask.group))


def a_second_member_makes_a_generation(ask: Script) -> None:
    """The leader hears of it in its heartbeat, joins again, and assigns to both."""
    leader, follower = _pair(ask)
    ask(heartbeat(ask.group, leader, 2), "a")
    ask(heartbeat(ask.group, follower, 2), "b")
    ask(describe_groups(ask.group))
    ask(sync(ask.group, follower, 2), "b", note="again, which gives the same")
    ask(leave(ask.group, follower), "b")
    ask(heartbeat(ask.group, leader, 2), "a")
    ask(join(ask.group, member=leader), "a")
    ask(sync(ask.group, leader, 3, {leader: b"all again"}), "a")


def who_is_nobody(ask: Script) -> None:
    """Unknown groups and unknown members, in each API and version."""
    topic = ask.topic()
    for version in range(10):
        ask(join(ask.group, version=version, member="nobody"))
    for round_ in ("no group", "a group"):
        for version in range(6):
            ask(sync(ask.group, "nobody", 1, version=version), note=round_)
            ask(leave(ask.group, "nobody", version=version), note=round_)
        for version in range(5):
            ask(heartbeat(ask.group, "nobody", 1, version), note=round_)
        for version in range(2, 10):
            ask(commit(ask.group, {topic.name: {0: 1}}, version, member="nobody", epoch=1), note=round_)
        if round_ == "no group":
            _alone(ask)
    ask(describe_groups("no-such-group", "", ask.group))


def generations_that_are_wrong(ask: Script) -> None:
    """Older, newer and none at all, by a member that is there."""
    topic = ask.topic()
    member = _alone(ask)
    for generation in (-1, 0, 2):
        ask(heartbeat(ask.group, member, generation))
        ask(sync(ask.group, member, generation))
        for version in (2, 8, 9):
            ask(commit(ask.group, {topic.name: {0: 1}}, version, member=member, epoch=generation))
    ask(commit(ask.group, {topic.name: {0: 1}}, epoch=-1), note="an administrator, while it lives")
    ask(commit(ask.group, {topic.name: {0: 1}}, epoch=1), note="nobody, at the generation")
    ask(commit(ask.group, {topic.name: {0: 7}}, member=member, epoch=1))
    ask(fetch(ask.group, None, member_id="nobody", member_epoch=99))


def joins_that_are_refused(ask: Script) -> None:
    """Timeouts out of bounds, no protocols, another type: in Kafka's order of checks."""
    for version in (0, 3, 4, 6, 7, 9):
        ask(join(ask.group, version=version, session_timeout=100))
        ask(join(ask.group, version=version, session_timeout=2_000_000))
        ask(join("", version=version))
        ask(join(ask.group, {}, version=version))
        ask(join(ask.group, version=version, protocol_type=""))
    ask(join(ask.group, {}, session_timeout=100, member="nobody"))
    ask(join("", {}, session_timeout=100, member="nobody"))
    ask(describe_groups(ask.group))


def protocols_that_do_not_match(ask: Script) -> None:
    """A member that shares no protocol with the others, or is of another type."""
    member = _alone(ask)
    for version in (0, 3, 4, 6, 7, 9):
        ask(join(ask.group, {"roundrobin": b""}, version), "b")
        ask(join(ask.group, version=version, protocol_type="connect"), "b")
        ask(join(ask.group, {}, version), "b")
    ask(sync(ask.group, member, 1, protocol_name="roundrobin"))
    ask(sync(ask.group, member, 1, protocol_type="connect"))
    ask(sync(ask.group, member, 1, protocol_name=None, protocol_type=None))
    ask(sync(ask.group, member, 1, protocol_name="roundrobin", version=4))
    ask(heartbeat(ask.group, member, 1))


def the_group_votes(ask: Script) -> None:
    """Each member votes for the first of its protocols that all have."""
    one = _enter(ask, "a", protocols={"range": b"1r", "sticky": b"1s"})
    ask(sync(ask.group, one, 1, {}), "a")
    two = _known(ask, "b", {"sticky": b"2s", "range": b"2r"})
    joining = ask.later(join(ask.group, {"sticky": b"2s", "range": b"2r"}, member=two), "b")
    ask.until(heartbeat(ask.group, one, 1), lambda answer: answer["error_code"] != "none", "a")
    ask(join(ask.group, {"sticky": b"1s", "range": b"1r"}, member=one), "a")
    joining()
    ask(describe_groups(ask.group))
    ask(sync(ask.group, one, 2, {one: b"1"}, protocol_name="sticky"), "a")
    ask(sync(ask.group, two, 2, protocol_name="sticky"), "b")
    ask(describe_groups(ask.group))


def a_member_before_it_knows_itself(ask: Script) -> None:
    """MEMBER_ID_REQUIRED makes a member that is pending: seen, and allowed little."""
    topic = ask.topic()
    pending = _known(ask, "main")
    ask.until(
        describe_groups(ask.group),
        lambda answer: answer["groups"][0]["error_code"] == "none",
        note="Kafka answers the member before it has written down that there is a group",
    )
    ask(heartbeat(ask.group, pending, 0))
    ask(sync(ask.group, pending, 0))
    ask(commit(ask.group, {topic.name: {0: 1}}, member=pending, epoch=0))
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(leave(ask.group, pending))
    ask(join(ask.group, member=pending), note="it has left")
    ask(describe_groups(ask.group))
    ask(delete_groups(ask.group))


def between_join_and_sync(ask: Script) -> None:
    """While the leader has not assigned yet."""
    topic = ask.topic()
    member = _enter(ask)
    ask(describe_groups(ask.group))
    ask(heartbeat(ask.group, member, 1))
    ask(commit(ask.group, {topic.name: {0: 1}}, member=member, epoch=1))
    ask(commit(ask.group, {topic.name: {0: 1}}, member=member, epoch=0))
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(join(ask.group, member=member), note="again")
    ask(sync(ask.group, member, 1, {member: b"old"}))
    ask(sync(ask.group, member, 2, {member: b"new", "nobody": b"lost"}))
    ask(join(ask.group, member=member), note="a leader that joins again makes a generation")
    ask(heartbeat(ask.group, member, 2))


def while_members_are_awaited(ask: Script) -> None:
    """A rebalance that waits for the leader: what everybody is answered meanwhile."""
    topic = ask.topic()
    leader, follower = _pair(ask)
    third = _known(ask, "c")
    joining = ask.later(join(ask.group, member=third), "c")
    ask.until(heartbeat(ask.group, leader, 2), lambda answer: answer["error_code"] != "none", "a")
    ask(heartbeat(ask.group, follower, 2), "b")
    ask(heartbeat(ask.group, follower, 1), "b")
    ask(sync(ask.group, follower, 2), "b")
    ask(commit(ask.group, {topic.name: {0: 5}}, member=follower, epoch=2), "b")
    ask(describe_groups(ask.group))
    again = ask.later(join(ask.group, member=follower), "b")
    ask(join(ask.group, member=leader), "a")
    again()
    joining()
    ask(heartbeat(ask.group, follower, 3), "b")
    ask(heartbeat(ask.group, third, 3), "c")
    ask(describe_groups(ask.group))


def the_leader_leaves(ask: Script) -> None:
    """Who is left leads."""
    leader, follower = _pair(ask)
    ask(leave(ask.group, leader), "a")
    ask(heartbeat(ask.group, follower, 2), "b")
    ask(join(ask.group, member=follower), "b")
    ask(describe_groups(ask.group))


def a_follower_joins_again_with_nothing_new(ask: Script) -> None:
    """In a stable group that changes nothing; with other metadata it makes a generation."""
    leader, follower = _pair(ask)
    ask(join(ask.group, member=follower), "b")
    ask(heartbeat(ask.group, leader, 2), "a")
    joining = ask.later(join(ask.group, {"range": b"new"}, member=follower), "b")
    ask.until(heartbeat(ask.group, leader, 2), lambda answer: answer["error_code"] != "none", "a")
    ask(join(ask.group, member=leader), "a")
    joining()
    ask(describe_groups(ask.group))


def leaving_in_every_version(ask: Script) -> None:
    """One by one before version 3, several at once from then on, some of them strangers."""
    for version in range(6):
        ask.group = f"{ask.name}-v{version}"
        member = _alone(ask)
        ask(leave(ask.group, member, version=version))
        ask(leave(ask.group, member, version=version), note="twice")
    ask.group = f"{ask.name}-many"
    leader, follower = _pair(ask)
    ask(leave(ask.group, "nobody", follower, ("", "no-such-instance"), ("", None), leader))
    ask(describe_groups(ask.group))
    ask(leave(ask.group))
    ask(leave("no-such-group", "nobody", "nobody-else"))


def sessions_end(ask: Script) -> None:
    """Who is silent for a session is out; the rest hears of it."""
    member = _alone(ask, session_timeout=1_000)
    ask.until(describe_groups(ask.group), lambda answer: answer["groups"][0]["group_state"] == "Empty")
    ask(heartbeat(ask.group, member, 1))
    ask(join(ask.group, member=member))
    again = _enter(ask)
    ask(sync(ask.group, again, 3))
    ask(describe_groups(ask.group))


def who_does_not_join_again_is_left_behind(ask: Script) -> None:
    """A rebalance waits for the rebalance timeout, and goes on without."""
    member = _alone(ask, rebalance_timeout=1_000)
    second = _known(ask, "b")
    ask(join(ask.group, member=second, rebalance_timeout=1_000), "b")
    ask(heartbeat(ask.group, member, 1))
    ask(heartbeat(ask.group, second, 2), "b")
    ask(describe_groups(ask.group))


def who_does_not_sync_is_left_behind(ask: Script) -> None:
    """A leader that never assigns is removed after the rebalance timeout."""
    member = _enter(ask, rebalance_timeout=1_000)
    ask.until(describe_groups(ask.group), lambda answer: answer["groups"][0]["group_state"] == "Empty")
    ask(sync(ask.group, member, 1, {}))


def an_empty_group_is_taken_over(ask: Script) -> None:
    """By members of another type; generations go on, offsets stay."""
    topic = ask.topic()
    member = _alone(ask)
    ask(commit(ask.group, {topic.name: {0: 1}}, member=member, epoch=1))
    ask(leave(ask.group, member))
    ask(describe_groups(ask.group))
    ask(heartbeat(ask.group, member, 1))
    ask(commit(ask.group, {topic.name: {0: 2}}, member=member, epoch=1))
    ask(commit(ask.group, {topic.name: {0: 3}}))
    other = _enter(ask, protocol_type="connect", protocols={"sessioned": b"x"})
    ask(sync(ask.group, other, 3, {other: b"y"}, protocol_type="connect", protocol_name="sessioned"))
    ask(describe_groups(ask.group))
    ask(fetch(ask.group, None))
    ask(delete_offsets(ask.group, {topic.name: [0]}))


def offsets_of_a_live_group_are_deleted(ask: Script) -> None:
    """Not those of topics it reads."""
    read, unread = ask.topic("read", 2), ask.topic("unread")
    member = _alone(ask, protocols={"range": subscription([read.name])})
    ask(commit(ask.group, {read.name: {0: 1}, unread.name: {0: 2}}, member=member, epoch=1))
    ask(delete_offsets(ask.group, {read.name: [0, 1], unread.name: [0, 5], "no-such-topic": [0]}))
    ask(fetch(ask.group, None))
    ask(delete_groups(ask.group))
    ask(leave(ask.group, member))
    ask(delete_offsets(ask.group, {read.name: [0]}))
    ask(fetch(ask.group, None))


def groups_are_deleted(ask: Script) -> None:
    """Empty ones with all they have; live ones and unknown ones are not."""
    topic = ask.topic()
    live, empty, simple = (f"{ask.name}-{kind}" for kind in ("live", "empty", "simple"))
    ask(commit(simple, {topic.name: {0: 1}}))
    ask.group = empty
    ask(leave(empty, _alone(ask)))
    ask.group = live
    member = _alone(ask)
    for version in range(3):
        ask(delete_groups(live, "no-such-group", "", version=version))
    ask(delete_groups(live, empty, simple))
    ask(describe_groups(live, empty, simple))
    ask(fetch(simple, None))
    ask(delete_groups())
    ask(heartbeat(live, member, 1))


def a_static_member_comes_back(ask: Script) -> None:
    """Under a new id, in every version that has instance ids, with nobody else noticing."""
    topic = ask.topic()
    for version in range(5, 10):
        ask.group = f"{ask.name}-v{version}"
        first = ask(join(ask.group, version=version, instance="one"))["member_id"]
        ask(sync(ask.group, first, 1, {first: b"mine"}, group_instance_id="one"))
        second = ask(join(ask.group, version=version, instance="one"), "b")["member_id"]
        ask(sync(ask.group, second, 1, group_instance_id="one"), "b")
        ask(heartbeat(ask.group, first, 1, instance="one"))
        ask(heartbeat(ask.group, first, 1))
        ask(heartbeat(ask.group, second, 1, instance="one"))
        ask(heartbeat(ask.group, second, 1, instance="two"))
        ask(sync(ask.group, first, 1, group_instance_id="one"))
        ask(join(ask.group, version=version, member=first, instance="one"))
        ask(commit(ask.group, {topic.name: {0: 1}}, member=first, epoch=1, group_instance_id="one"))
        ask(commit(ask.group, {topic.name: {0: 1}}, member=first, epoch=1))
        ask(commit(ask.group, {topic.name: {0: 1}}, member=second, epoch=1, group_instance_id="one"))
        ask(commit(ask.group, {topic.name: {0: 1}}, member=second, epoch=1, group_instance_id="two"))
        ask(leave(ask.group, (first, "one")))
        ask(describe_groups(ask.group))
        ask(leave(ask.group, ("", "one")))
        ask(describe_groups(ask.group))


def _reads(topic: str) -> dict[str, bytes]:
    return {"range": subscription([topic])}


def a_static_member_comes_back_with_something_new(ask: Script) -> None:
    """In a new life that changes nothing while the group's protocol stays; under its known id it does."""
    leader = ask(join(ask.group, instance="one"), "a")["member_id"]
    ask(sync(ask.group, leader, 1, {leader: b"all"}, group_instance_id="one"), "a")
    joining = ask.later(join(ask.group, instance="two"), "b")
    ask.until(heartbeat(ask.group, leader, 1), lambda answer: answer["error_code"] != "none", "a")
    ask(join(ask.group, member=leader, instance="one"), "a")
    follower = joining()["member_id"]
    ask(sync(ask.group, leader, 2, {leader: b"1", follower: b"2"}, group_instance_id="one"), "a")
    ask(sync(ask.group, follower, 2, group_instance_id="two"), "b")
    again = ask(join(ask.group, _reads("other"), instance="two"), "c")["member_id"]
    ask(heartbeat(ask.group, leader, 2, instance="one"), "a")
    ask(sync(ask.group, again, 2, group_instance_id="two"), "c")
    ask(describe_groups(ask.group))
    lead = ask(join(ask.group, _reads("leading"), instance="one"), "d")["member_id"]
    ask(heartbeat(ask.group, again, 2), "c")
    ask(describe_groups(ask.group))
    joining = ask.later(join(ask.group, _reads("again"), member=again, instance="two"), "c")
    ask.until(heartbeat(ask.group, lead, 2), lambda answer: answer["error_code"] != "none", "d")
    ask(join(ask.group, _reads("leading"), member=lead, instance="one"), "d")
    joining()
    ask(sync(ask.group, lead, 3, {lead: b"1", again: b"2"}, group_instance_id="one"), "d")
    ask(sync(ask.group, again, 3, group_instance_id="two"), "c")
    ask(join(ask.group, _reads("older"), 5, instance="one"), "e")
    ask(join(ask.group, _reads("older"), 9, instance="one"), "f")
    ask(describe_groups(ask.group))


def groups_are_listed(ask: Script) -> None:
    """By state and type, whatever the case; what nobody is gives nobody."""
    topic = ask.topic()
    ask(commit(f"{ask.name}-simple", {topic.name: {0: 1}}))
    _alone(ask)
    ours = (ask.group, f"{ask.name}-simple")
    for version in range(6):
        _list(ask, ours, version)
    for states in (["Empty"], ["empty", "STABLE"], ["Dead"], ["PreparingRebalance", "nonsense"]):
        _list(ask, ours, 4, states=states)
    for types in (["classic"], ["Consumer"], ["simple"], ["nonsense"], ["CLASSIC", "share"]):
        _list(ask, ours, 5, types=types)
    _list(ask, ours, 5, states=["Stable"], types=["classic"])


def _list(ask: Script, groups: tuple[str, ...], version: int, **filters: list[str]) -> None:
    ask.only(list_groups(version, **filters), "groups", "group_id", groups)
