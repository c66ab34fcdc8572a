"""JoinGroup: accepted and refused joins, in Kafka's order of checks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.harness import NONE, Harness, heartbeat, join, sync

from headgate.core.classic.commands import DescribeGroup, JoinResult
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.commands import ListGroups
from headgate.core.group_bytes import MOST_BYTES
from headgate.core.offsets.commands import FetchOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import GroupMetadata


def harness(**settings: str) -> Harness:
    return Harness(**settings)


REFUSALS: list[tuple[str, dict[str, Any], ErrorCode, str]] = [
    # what is wrong, the join, the error, the member id that is echoed
    ("no group id", {"group_id": "", "member_id": "x"}, ErrorCode.INVALID_GROUP_ID, "x"),
    ("short session", {"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT, ""),
    ("long session", {"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, ""),
    ("unknown group", {"group_id": "nobody", "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "x"),
    ("unknown member", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "x"),
    ("other type", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ("no type", {"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ("other protocol", {"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    ("no protocol", {"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
    (
        "other protocol before unknown member",
        {"member_id": "x", "protocols": (("sticky", b""),)},
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "x",
    ),
    ("unknown instance", {"member_id": "a", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID, "a"),
    (
        "metadata that claims two billion topics",
        {"protocols": (("range", b"\x00\x01\x7f\xff\xff\xff"),)},
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "",
    ),
    (
        "metadata that claims fewer topics than none",
        {"protocols": (("range", b"\x00\x01\xff\xff\xff\xff"),)},
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "",
    ),
]


@pytest.mark.parametrize(("what", "changes", "error", "echoed"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_a_join_is_refused(what: str, changes: dict[str, Any], error: ErrorCode, echoed: str) -> None:
    """Each invalid join of a stable group gets its error and changes nothing."""
    h = harness()
    generation = h.stable_group("a", "b")
    result = h.ask(join(**changes))
    assert (result.error, result.member_id) == (error, echoed)
    assert (result.generation, result.leader, result.protocol_name) == (-1, "", None)
    assert h.ask(heartbeat("b", generation)) == NONE


def test_metadata_that_no_record_takes_is_refused() -> None:
    """All members together; what a member joins with again takes the place of its metadata."""
    h = harness()
    half = (("range", b"\0" * (MOST_BYTES // 2 - 100)),)
    generation = h.stable_group("a", "b", protocols=half)
    third = h.ask(join(new_member_id="c", protocols=(("range", b"\0" * 200),), must_know_member_id=False))
    assert third.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    too_much = h.ask(join(member_id="b", protocols=(("range", b"\0" * (MOST_BYTES // 2 + 100)),)))
    assert (too_much.error, too_much.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "b")
    assert h.ask(heartbeat("b", generation)) == NONE


def test_ids_that_no_record_takes_are_refused() -> None:
    """As metadata is: a static member and a client may have long ones."""
    h = harness()
    errors = []
    for number in range(500):
        ids = {"new_member_id": str(number), "instance_id": f"{number:0>32000}", "client_id": "c" * 32_000}
        token = h.send(join(must_know_member_id=False, **ids))
        if not h.is_parked(token):
            errors.append((number, h.answers[token].error))
    first, error = errors[0]
    assert (300 < first < 400, error) == (True, ErrorCode.GROUP_MAX_SIZE_REACHED)


@pytest.mark.parametrize("changes", [row[1] for row in REFUSALS if row[0] != "other protocol"])
def test_a_refused_join_creates_no_group(changes: dict[str, Any]) -> None:
    """A group is created only by an accepted member."""
    h = harness()
    if changes.get("protocol_type") == "connect":
        changes = {**changes, "protocols": ()}
    h.ask(join(**changes))
    assert h.ask(ListGroups()).groups == ()
    assert h.batches == []


def test_a_session_timeout_at_the_limits_is_accepted() -> None:
    """6 seconds and 30 minutes, both inclusive."""
    h = harness()
    assert h.ask(join(session_timeout_ms=6_000)).error == ErrorCode.MEMBER_ID_REQUIRED
    assert h.ask(join(new_member_id="b", session_timeout_ms=1_800_000)).error == ErrorCode.MEMBER_ID_REQUIRED


def test_a_new_member_gets_its_id_first() -> None:
    """MEMBER_ID_REQUIRED has the id to join with, and creates a visible empty group."""
    h = harness()
    result = h.ask(join(new_member_id="given"))
    assert (result.error, result.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "given")
    [listed] = h.ask(ListGroups()).groups
    assert (listed.group_id, listed.protocol_type, listed.state) == ("g", "", "Empty")
    token = h.send(join(member_id="given"))
    assert h.is_parked(token)
    h.advance(3_000)
    assert h.answers[token].member_id == "given"


def test_an_old_client_joins_without_an_id() -> None:
    """Before v4 it gets the id with the generation."""
    h = harness()
    token = h.send(join(new_member_id="made", must_know_member_id=False))
    h.advance(3_000)
    result = h.answers[token]
    assert (result.error, result.member_id, result.leader, result.generation) == (NONE, "made", "made", 1)


def test_a_static_member_joins_without_an_id() -> None:
    """Its instance id identifies it."""
    h = harness()
    token = h.send(join(new_member_id="i-1", instance_id="i"))
    h.advance(3_000)
    assert h.answers[token].member_id == "i-1"


def test_an_unused_member_id_expires() -> None:
    """After the session timeout it is unknown."""
    h = harness()
    h.ask(join(new_member_id="given", session_timeout_ms=10_000))
    h.advance(10_000)
    assert h.ask(join(member_id="given")).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_claims_an_instance_is_unknown() -> None:
    """Kafka fails with an internal error here."""
    h = harness()
    h.ask(join(new_member_id="given"))
    result = h.ask(join(member_id="given", instance_id="i"))
    assert result.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_new_members() -> None:
    """GROUP_MAX_SIZE_REACHED without a member id; members may still rejoin."""
    h = harness(group_max_size="2")
    h.stable_group("a", "b")
    for must_know in (True, False):
        result = h.ask(join(new_member_id="c", must_know_member_id=must_know))
        assert (result.error, result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    again = h.send(join(member_id="a"))
    assert h.is_parked(again)


def test_in_a_rebalance_of_a_full_group_the_first_to_join_stay() -> None:
    """Only parked joins count; a member that rejoins too late is removed."""
    h = harness(group_max_size="2")
    h.stable_group("a", "b")
    first = h.send(join(member_id="a"))
    newcomer = h.send(join(new_member_id="c", must_know_member_id=False))
    late = h.ask(join(member_id="b"))
    assert late.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.answers[first].generation == h.answers[newcomer].generation == 2
    assert {member.member_id for member in h.answers[first].members} == {"a", "c"}


def test_a_pending_member_of_a_full_group_is_removed() -> None:
    """It has an id, but others joined first."""
    h = harness(group_max_size="1")
    h.ask(join(new_member_id="slow"))
    h.send(join(new_member_id="quick", must_know_member_id=False))
    assert h.ask(join(member_id="slow")).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.ask(join(member_id="slow")).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    h.advance(3_000)
    assert h.state("g") is ClassicState.COMPLETING_REBALANCE


def test_an_empty_group_may_change_its_protocol_type() -> None:
    """Generations continue, as seen of Kafka 4.3.1."""
    h = harness()
    generation = h.stable_group("a")
    h.advance(60_000)
    assert h.state("g") is ClassicState.EMPTY
    token = h.send(
        join(
            new_member_id="w",
            protocol_type="connect",
            protocols=(("eager", b""),),
            must_know_member_id=False,
        )
    )
    h.advance(3_000)
    result = h.answers[token]
    assert (result.protocol_type, result.protocol_name) == ("connect", "eager")
    assert result.generation == generation + 2  # one more when it became empty


def test_a_group_that_only_committed_may_be_joined_and_keeps_its_offsets() -> None:
    """The simple group becomes a classic group."""
    h = harness()
    h.commit("g", offset=7)
    assert h.ask(join(member_id="x")).error == ErrorCode.UNKNOWN_MEMBER_ID
    h.stable_group("a")
    assert h.offset("g") == 7


def test_undecodable_metadata_is_accepted() -> None:
    """Only an array with an impossible count is refused."""
    h = harness()
    for number, metadata in enumerate([b"", b"\x00", b"junk", b"\x00\x00\x00\x00\x00\x02\x00\x05ab"]):
        generation = h.stable_group("a", group_id=f"g{number}", protocols=(("range", metadata),))
        assert h.ask(heartbeat("a", generation, group_id=f"g{number}")) == NONE


def test_a_member_that_joins_twice_is_answered_twice() -> None:
    """The older join gets an error; Kafka never answers it."""
    h = harness()
    h.stable_group("a", "b")
    older = h.send(join(member_id="a"))
    newer = h.send(join(member_id="a"))
    assert h.answers[older] == JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id="a")  # type: ignore[arg-type]
    assert h.is_parked(newer)
    h.send(join(member_id="b"))
    assert h.answers[newer].generation == 2


REJOINS = [
    # state, who, same metadata, whether it is answered at once
    ("stable", "b", True, True),
    ("stable", "b", False, False),
    ("stable", "a", True, False),
    ("completing", "a", True, True),
    ("completing", "b", True, True),
    ("completing", "b", False, False),
    ("preparing", "b", True, False),
]


@pytest.mark.parametrize(("state", "member_id", "is_same", "is_answered"), REJOINS)
def test_a_known_member_rejoins(state: str, member_id: str, is_same: bool, is_answered: bool) -> None:
    """A lost answer is repeated; changed metadata, or a leader in Stable, causes a rebalance."""
    h = harness()
    generation = h.stable_group("a", "b", "c")
    if state != "stable":
        h.send(join(member_id="a"))
    if state == "completing":
        for other in ("b", "c"):
            h.send(join(member_id=other))
        generation += 1
    protocols = (("range", b"" if is_same else b"\x00\x01"),)
    token = h.send(join(member_id=member_id, protocols=protocols))
    assert h.is_parked(token) != is_answered
    if is_answered:
        result = h.answers[token]
        assert (result.error, result.generation, result.leader) == (NONE, generation, "a")
        expected = {"a", "b", "c"} if member_id == "a" else set()
        assert {member.member_id for member in result.members} == expected
        assert not result.skip_assignment
    else:
        assert h.state("g") is ClassicState.PREPARING_REBALANCE


def test_a_fetch_of_an_unknown_group_has_no_offsets() -> None:
    """It is no error: every partition has offset -1."""
    h = harness()
    fetched = h.ask(FetchOffsets(GroupId("nobody"), [(TopicName("t"), [0, 1])]))
    assert fetched.topics == [("t", [(0, None), (1, None)])]
    assert h.ask(DescribeGroup(GroupId("nobody"))) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_leaves_before_its_first_generation_leaves_an_empty_group() -> None:
    """It can be joined."""
    h = harness()
    h.ask(join(new_member_id="given"))
    h.advance(10_000)
    assert h.state("g") is ClassicState.EMPTY
    h.stable_group("a")
    h.send(sync("a", 1))


def test_the_cost_of_a_join_is_independent_of_the_groups_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work proportional to the members is done once per rebalance."""
    asked: list[int] = []
    metadata = ClassicGroup.metadata

    def counted(group: ClassicGroup) -> GroupMetadata:
        asked.append(len(group.members))
        return metadata(group)

    monkeypatch.setattr(ClassicGroup, "metadata", counted)
    h = harness()
    h.stable_group("a", "b")
    asked.clear()
    h.send(join(member_id="a"))
    h.send(join(member_id="b"))
    assert asked == []
