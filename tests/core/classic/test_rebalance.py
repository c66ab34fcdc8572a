"""Rebalances, named by their transitions."""

from __future__ import annotations

from dataclasses import replace

from tests.core.harness import NONE, Harness, heartbeat, join, leave, sync
from tests.core.kinds_of_shard import classic_groups

from headgate.core.classic.commands import DescribeGroup
from headgate.core.classic.rebalance import LAST_GENERATION
from headgate.core.classic.state import TRANSITIONS, ClassicState
from headgate.core.classic.subscription import claims_too_much, subscribed_topics
from headgate.core.group_bytes import MOST_BYTES
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicState


def test_every_state_but_dead_can_be_left_and_all_can_be_reached() -> None:
    """The table of transitions is complete."""
    assert set(TRANSITIONS) == set(ClassicState)
    reached = {state for following in TRANSITIONS.values() for state in following}
    assert reached == set(ClassicState)
    assert [state for state in ClassicState if not TRANSITIONS[state]] == [DEAD]


def test_empty_to_preparing_waits_the_initial_delay() -> None:
    """The first member waits exactly three seconds for others."""
    h = Harness()
    token = h.send(join(must_know_member_id=False))
    assert h.state("g") is PREPARING
    h.advance(2_999)
    assert h.is_parked(token)
    h.advance(1)
    assert h.answers[token].generation == 1
    assert h.state("g") is COMPLETING


def test_without_an_initial_delay_the_first_tick_completes() -> None:
    """A delay of 0 still takes a tick, so that joins of the same moment are in one generation."""
    h = Harness(group_initial_rebalance_delay_ms="0")
    tokens = [h.send(join(new_member_id=one, must_know_member_id=False)) for one in ("a", "b")]
    h.advance(0)
    assert [h.answers[token].generation for token in tokens] == [1, 1]


def test_new_members_extend_the_initial_delay() -> None:
    """A delay with a new member is followed by another one."""
    h = Harness()
    first = h.send(join(new_member_id="a", must_know_member_id=False))
    h.advance(2_000)
    h.send(join(new_member_id="b", must_know_member_id=False))
    h.advance(1_000)
    assert h.is_parked(first)
    h.advance(2_999)
    assert h.is_parked(first)
    h.advance(1)
    assert {member.member_id for member in h.answers[first].members} == {"a", "b"}


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """However many members join."""
    h = Harness()
    first = h.send(join(new_member_id="m0", rebalance_timeout_ms=10_000, must_know_member_id=False))
    for number in range(1, 20):
        h.advance(1_000)
        if not h.is_parked(first):
            break
        h.send(join(new_member_id=f"m{number}", rebalance_timeout_ms=10_000, must_know_member_id=False))
    assert number == 10
    assert h.answers[first].generation == 1


def test_completing_to_stable_when_the_leader_syncs() -> None:
    """Followers' syncs are parked until the leader's, then all get their assignments."""
    h = Harness()
    tokens = [h.send(join(new_member_id=one, must_know_member_id=False)) for one in ("a", "b", "c")]
    h.advance(6_000)
    assert {h.answers[token].leader for token in tokens} == {"a"}
    follower = h.send(sync("b", 1))
    h.advance(100)
    assert h.is_parked(follower)
    leader = h.send(sync("a", 1, assignments=(("a", b"1"), ("b", b"2"))))
    late = h.send(sync("c", 1))
    assert [h.answers[token].assignment for token in (leader, follower, late)] == [b"1", b"2", b""]
    assert h.answers[late].protocol_name == "range"
    assert h.state("g") is STABLE
    recorded = classic_groups(h.shard).recorded[GroupId("g")]
    assert (recorded.generation, recorded.leader, recorded.state_timestamp) == (1, "a", h.now)


def test_assignments_that_no_record_takes_are_refused() -> None:
    """Nobody gets any of them; the leader may send others."""
    h = Harness()
    tokens = [h.send(join(new_member_id=one, must_know_member_id=False)) for one in ("a", "b")]
    while h.is_parked(tokens[0]):
        h.advance(500)
    waiting = h.send(sync("b", 1))
    too_much = ((MemberId("a"), b"\0" * MOST_BYTES), (MemberId("b"), b"b"))
    assert h.ask(sync("a", 1, assignments=too_much)).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert h.is_parked(waiting)
    assert h.ask(sync("a", 1, assignments=((MemberId("b"), b"b"),))).error == NONE
    assert h.answers[waiting].assignment == b"b"


def test_only_the_leader_gets_the_members() -> None:
    """With their metadata for the selected protocol."""
    h = Harness()
    tokens = [
        h.send(
            join(
                new_member_id=one,
                protocols=(("range", one.encode()), ("sticky", b"s")),
                must_know_member_id=False,
            )
        )
        for one in ("a", "b")
    ]
    h.advance(6_000)
    leader, follower = (h.answers[token] for token in tokens)
    assert [(member.member_id, member.metadata) for member in leader.members] == [("a", b"a"), ("b", b"b")]
    assert follower.members == ()


def test_the_protocol_that_most_members_prefer_is_selected() -> None:
    """Among those that all support."""
    h = Harness()
    ballots = {
        "a": ("only-a", "sticky", "range"),
        "b": ("range", "sticky"),
        "c": ("sticky", "range"),
    }
    tokens = [
        h.send(
            join(
                new_member_id=one,
                protocols=tuple((name, b"") for name in names),
                must_know_member_id=False,
            )
        )
        for one, names in ballots.items()
    ]
    h.advance(6_000)
    assert {h.answers[token].protocol_name for token in tokens} == {"sticky"}


def test_stable_to_preparing_when_a_member_joins() -> None:
    """The others learn it from their heartbeats, and rejoin."""
    h = Harness()
    generation = h.stable_group("a", "b")
    newcomer = h.send(join(new_member_id="c", must_know_member_id=False))
    assert h.state("g") is PREPARING
    assert h.ask(heartbeat("a", generation)) == ErrorCode.REBALANCE_IN_PROGRESS
    for one in ("b", "a"):
        h.send(join(member_id=one))
    assert h.state("g") is COMPLETING
    assert h.answers[newcomer].generation == generation + 1
    assert h.answers[newcomer].leader == "a"


def test_preparing_to_completing_without_members_that_do_not_rejoin() -> None:
    """After the rebalance timeout dynamic ones are removed."""
    h = Harness()
    generation = h.stable_group("a", "b", rebalance_timeout_ms=20_000)
    for _ in range(3):
        h.advance(5_000)
        h.ask(heartbeat("b", generation))
        h.ask(heartbeat("a", generation))
    token = h.send(join(member_id="a", rebalance_timeout_ms=20_000))
    for _ in range(3):
        h.advance(5_000)
        assert h.ask(heartbeat("b", generation)) == ErrorCode.REBALANCE_IN_PROGRESS
    h.advance(5_000)
    assert h.answers[token].generation == generation + 1
    assert [member.member_id for member in h.answers[token].members] == ["a"]
    assert h.ask(heartbeat("b", generation)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    """By the first member that rejoined."""
    h = Harness()
    h.stable_group("a", "b")
    token = h.send(join(member_id="b", protocols=(("range", b"new"),)))
    h.advance(60_000)
    assert h.answers[token].leader == "b"
    assert [member.member_id for member in h.answers[token].members] == ["b"]


def test_a_pending_member_delays_the_rebalance() -> None:
    """Until its id expires."""
    h = Harness()
    h.stable_group("a")
    h.ask(join(new_member_id="given"))
    token = h.send(join(member_id="a"))
    assert h.is_parked(token)
    h.advance(10_000)
    assert h.answers[token].generation == 2


def test_a_pending_member_that_leaves_lets_the_rebalance_complete() -> None:
    """As seen of Kafka 4.3.1."""
    h = Harness()
    h.stable_group("a")
    h.ask(join(new_member_id="given"))
    token = h.send(join(member_id="a"))
    [(_, error)] = h.ask(leave(("given", None))).members
    assert error == NONE
    assert h.answers[token].generation == 2


def test_completing_to_preparing_refuses_parked_syncs() -> None:
    """Their assignment will never be sent."""
    h = Harness()
    for one in ("a", "b"):
        h.send(join(new_member_id=one, must_know_member_id=False))
    h.advance(6_000)
    waiting = h.send(sync("b", 1))
    h.send(join(new_member_id="c", must_know_member_id=False))
    assert h.answers[waiting].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert h.state("g") is PREPARING


def test_members_that_never_sync_are_removed() -> None:
    """After the rebalance timeout, in CompletingRebalance as in Stable."""
    for leader_syncs in (False, True):
        h = Harness()
        for one in ("a", "b"):
            h.send(
                join(
                    new_member_id=one,
                    session_timeout_ms=100_000,
                    rebalance_timeout_ms=20_000,
                    must_know_member_id=False,
                )
            )
        h.advance(6_000)
        h.send(sync("a" if leader_syncs else "b", 1))
        h.advance(19_999)
        assert h.state("g") is (STABLE if leader_syncs else COMPLETING)
        h.advance(1)
        assert h.state("g") is PREPARING
        survivor, lost = ("a", "b") if leader_syncs else ("b", "a")
        assert h.ask(heartbeat(survivor, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
        assert h.ask(heartbeat(lost, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_preparing_to_empty_without_members() -> None:
    """A record has the next generation and no members."""
    h = Harness()
    generation = h.stable_group("a")
    h.ask(leave(("a", None)))
    recorded = classic_groups(h.shard).recorded[GroupId("g")]
    assert (recorded.generation, recorded.members, recorded.leader) == (generation + 1, (), None)
    assert recorded.protocol_type == "consumer"
    assert recorded.state_timestamp == h.now
    assert not classic_groups(h.shard).live


def test_static_members_wait_for_one_of_them() -> None:
    """If none of them rejoins, no generation starts, and none is removed."""
    h = Harness()
    for one in ("i", "j"):
        h.send(
            join(
                new_member_id=f"{one}-1",
                instance_id=one,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=10_000,
            )
        )
    h.advance(6_000)
    h.send(sync("i-1", 1))
    h.send(sync("j-1", 1))
    dynamic = h.send(join(new_member_id="d", rebalance_timeout_ms=10_000, must_know_member_id=False))
    h.ask(leave(("d", None)))
    assert h.answers[dynamic].error == ErrorCode.UNKNOWN_MEMBER_ID
    h.advance(30_000)
    assert h.state("g") is PREPARING
    token = h.send(join(member_id="j-1", instance_id="j", rebalance_timeout_ms=10_000))
    h.advance(10_000)
    result = h.answers[token]
    assert result.leader == "j-1"
    assert {member.member_id for member in result.members} == {"i-1", "j-1"}


def test_outside_stable_a_description_has_the_old_assignment_but_no_protocol() -> None:
    """As seen of Kafka 4.3.1."""
    h = Harness()
    h.stable_group("a", protocols=(("range", b"meta"),))
    stable = h.ask(DescribeGroup(GroupId("g")))
    assert (stable.protocol_name, stable.members[0].metadata, stable.members[0].assignment) == (
        "range",
        b"meta",
        b"a",
    )
    h.send(join(new_member_id="b", must_know_member_id=False))
    preparing = h.ask(DescribeGroup(GroupId("g")))
    assert (preparing.state, preparing.protocol_type) == ("PreparingRebalance", "consumer")
    shown = preparing.members[0]
    assert (preparing.protocol_name, shown.metadata, shown.assignment) == ("", b"", b"a")


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x03" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff and more"


def test_a_subscription_is_decoded_from_its_version_0_part() -> None:
    """Later fields are ignored."""
    metadata = subscription("t1", "tö")
    assert subscribed_topics(metadata) == frozenset({TopicName("t1"), TopicName("tö")})
    assert not claims_too_much(metadata)
    assert subscribed_topics(b"\x00\x00\x00\x00\x00\x00") == frozenset()


def test_an_incomplete_subscription_is_unknown() -> None:
    """Wherever its topics are cut."""
    metadata = subscription("t1", "t2")[:14]
    assert len(subscribed_topics(metadata) or ()) == 2
    for size in range(len(metadata)):
        assert subscribed_topics(metadata[:size]) is None


def test_after_the_last_generation_all_members_get_new_ids() -> None:
    """The next generation is the first one, and former member ids are unknown."""
    h = Harness()
    h.stable_group("a", "b")
    h.write(replace(classic_groups(h.shard).recorded[GroupId("g")], generation=LAST_GENERATION))
    h.reload()
    assert h.ask(heartbeat("a", LAST_GENERATION)) is NONE
    tokens = [h.send(join(member_id=one)) for one in ("a", "b")]
    assert [h.answers[one].error for one in tokens] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert h.state("g") is EMPTY
    for generation in (1, LAST_GENERATION):
        assert h.commit("g", member_id="a", generation=generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    h.reload()
    assert h.stable_group("c") == 1


def test_the_last_generation_ends_with_its_last_member() -> None:
    """No member is left to be refused."""
    h = Harness()
    h.stable_group("a")
    h.write(replace(classic_groups(h.shard).recorded[GroupId("g")], generation=LAST_GENERATION))
    h.reload()
    h.advance(60_000)
    assert h.state("g") is EMPTY
    assert h.stable_group("b") == 1
