"""Groups whose members speak through different libraries, come, leave, crash and come back."""

from __future__ import annotations

import itertools
import time

import pytest
from tests.compat.conftest import DRIVERS
from tests.compat.support.driver import Can, Committed, Driver, Refused, Sent
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import SESSION_TIMEOUT_MS, Join, wait_until_shared
from tests.compat.support.writing import values_read, write
from tests.waiting import wait_until

PARTITIONS = 4
ALL = list(range(PARTITIONS))
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69

MEMBERS = [name for name, driver in DRIVERS.items() if Can.MEMBER in driver.can]
STATIC_MEMBERS = [name for name, driver in DRIVERS.items() if Can.STATIC in driver.can]


def _write(admin: Driver, topic: str, word: str) -> list[str]:
    """Ten records for each partition; their values, sorted."""
    return write(admin, topic, word, 10 * PARTITIONS, PARTITIONS)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(MEMBERS, 2)))
def test_two_libraries_share_a_group(first: str, second: str, admin: Driver, join: Join, name: str) -> None:
    """One has everything, two share it, each record is read once; when one leaves the other has all."""
    admin.create_topic(name, PARTITIONS)
    alone = _write(admin, name, "alone")
    one = join(first, name, name)
    one.wait_until_it_owns(ALL)
    wait_until(lambda: values_read("alone", one) == alone, lambda: f"{one} has read everything")

    two = join(second, name, name)
    wait_until_shared([one, two], PARTITIONS)
    together = _write(admin, name, "together")
    wait_until(
        lambda: values_read("together", one, two) == together,
        lambda: f"{one} and {two} have read everything once",
    )
    for member in (one, two):
        read = {partition for partition, _o, value in member.records if value.startswith("together")}
        assert read == set(member.partitions)

    described = admin.describe_group(name)
    assert described.state == "Stable"
    assert described.protocol == "range"
    assert sorted(described.client_ids) == sorted((f"compat-{first}", f"compat-{second}"))

    left_at = time.monotonic()
    one.leave()
    two.wait_until_it_owns(ALL)
    # It said goodbye: nobody had to wait for its session to end.
    assert time.monotonic() - left_at < SESSION_TIMEOUT_MS / 1000
    afterwards = _write(admin, name, "afterwards")
    wait_until(lambda: values_read("afterwards", two) == afterwards, lambda: f"{two} has read everything")
    everything = dict.fromkeys(ALL, Committed(30))
    wait_until(lambda: admin.committed(name, name, ALL) == everything, "everything is committed")
    assert not one.failures + two.failures


@pytest.mark.parametrize("library", MEMBERS)
def test_a_member_that_dies_is_replaced_after_its_session(
    library: str, admin: Driver, join: Join, name: str
) -> None:
    """A killed member keeps its partitions until its session ends, then the other one has them."""
    other = MEMBERS[(MEMBERS.index(library) + 1) % len(MEMBERS)]
    admin.create_topic(name, PARTITIONS)
    victim, survivor = join(library, name, name), join(other, name, name)
    wait_until_shared([victim, survivor], PARTITIONS)
    before = _write(admin, name, "before")
    wait_until(lambda: values_read("before", victim, survivor) == before, "everything is read")
    wait_until(lambda: len(victim.committed) == len(victim.partitions), lambda: f"{victim} has committed")

    died_at = victim.kill()
    after = _write(admin, name, "after")
    survivor.wait_until_it_owns(ALL, timeout_s=20)
    took_s = time.monotonic() - died_at
    # A heartbeat was due every half second, so the session was restarted at most that long before it died.
    assert took_s > SESSION_TIMEOUT_MS / 1000 - 1.5
    wait_until(
        lambda: values_read("after", survivor) == after, lambda: f"{survivor} has read what came meanwhile"
    )
    # What the dead had committed was not read again.
    assert values_read("before", victim, survivor) == before


@pytest.mark.parametrize("library", STATIC_MEMBERS)
def test_a_static_member_restarts_without_a_rebalance(
    library: str, admin: Driver, join: Join, name: str
) -> None:
    """A member that comes back under its instance id in time has its partitions, and nobody else notices."""
    other = STATIC_MEMBERS[(STATIC_MEMBERS.index(library) + 1) % len(STATIC_MEMBERS)]
    admin.create_topic(name, PARTITIONS)
    restarted = join(library, name, name, instance_id="the-one-that-restarts")
    witness = join(other, name, name, instance_id="the-one-that-stays")
    wait_until_shared([restarted, witness], PARTITIONS)
    owned, noticed = restarted.partitions, (witness.rebalances, witness.revocations)
    restarted.kill()
    returned = join(library, name, name, instance_id="the-one-that-restarts")
    returned.wait_until_it_owns(owned)
    back = _write(admin, name, "back")
    wait_until(lambda: values_read("back", returned, witness) == back, "everything is read")
    time.sleep(1.5)  # several heartbeats: the witness would have heard of a rebalance
    assert (witness.rebalances, witness.revocations) == noticed
    assert not returned.refused_commits + witness.refused_commits


def test_four_libraries_share_one_group(admin: Driver, join: Join, name: str) -> None:
    """Every library has one partition, whoever leads."""
    admin.create_topic(name, PARTITIONS)
    members = [join(library, name, name) for library in MEMBERS]
    wait_until_shared(members, PARTITIONS, timeout_s=30)
    assert [len(member.partitions) for member in members] == [1, 1, 1, 1]
    values = _write(admin, name, "all")
    wait_until(lambda: values_read("all", *members) == values, lambda: f"everything is read once: {members}")
    assert not [failure for member in members for failure in member.failures]


@pytest.mark.drivers(Can.GROUPS)
def test_a_group_is_listed_and_described(driver: Driver, admin: Driver, join: Join, name: str) -> None:
    """A living group is Stable with its member; when that has left it is Empty, and still listed."""
    admin.create_topic(name, 2)
    member = join("confluent-kafka", name, name)
    member.wait_until_it_owns([0, 1])
    assert name in driver.groups()
    described = driver.describe_group(name)
    assert (described.state, described.protocol) == ("Stable", "range")
    assert described.client_ids == ("compat-confluent-kafka",)
    member.leave()
    wait_until(lambda: driver.describe_group(name).state == "Empty", f"{name} is empty")
    assert driver.describe_group(name).client_ids == ()
    assert name in driver.groups()


@pytest.mark.drivers(Can.FILTER_GROUPS)
def test_groups_are_listed_by_state(driver: Driver, admin: Driver, join: Join, name: str) -> None:
    """A filter is the broker's work: a living group is not among the empty ones, and the other way round."""
    empty, living = f"{name}-empty", f"{name}-living"
    admin.create_topic(name)
    admin.commit(empty, name, {0: Committed(1)})
    join("confluent-kafka", name, living).wait_until_it_owns([0])
    ours = {empty, living}
    assert driver.groups_in_state("Empty") & ours == {empty}
    assert driver.groups_in_state("Stable") & ours == {living}


@pytest.mark.drivers(Can.DELETE_GROUPS)
def test_only_an_empty_group_can_be_deleted(driver: Driver, admin: Driver, join: Join, name: str) -> None:
    """A group with members is refused; an empty one goes, with its offsets; a second time there is none."""
    admin.create_topic(name, 1)
    admin.produce(name, [Sent(value="one")])
    member = join("confluent-kafka", name, name)
    wait_until(lambda: member.committed == {0: 1}, lambda: f"{member} has committed")
    with pytest.raises(Refused) as refused:
        driver.delete_group(name)
    assert refused.value.code == NON_EMPTY_GROUP
    member.leave()
    driver.delete_group(name)
    assert name not in driver.groups()
    assert admin.committed(name, name, [0]) == {0: None}
    with pytest.raises(Refused) as refused:
        driver.delete_group(name)
    assert refused.value.code == GROUP_ID_NOT_FOUND


@pytest.mark.drivers(Can.GROUPS)
def test_a_group_that_only_ever_committed_is_a_group(driver: Driver, admin: Driver, name: str) -> None:
    """Offsets alone make a group that is listed, Empty, and without members."""
    admin.create_topic(name, 1)
    admin.commit(name, name, {0: Committed(4)})
    described = driver.describe_group(name)
    assert (described.state, described.client_ids) == ("Empty", ())
    assert name in driver.groups()


@pytest.mark.parametrize("library", MEMBERS)
def test_a_new_member_goes_on_where_the_last_one_stopped(
    library: str, admin: Driver, join: Join, name: str
) -> None:
    """After a clean leave nothing is read twice and nothing is left out, whoever comes next."""
    successor = MEMBERS[(MEMBERS.index(library) + 2) % len(MEMBERS)]
    admin.create_topic(name, PARTITIONS)
    first = _write(admin, name, "first")
    one = join(library, name, name)
    wait_until(lambda: values_read("first", one) == first, lambda: f"{one} has read everything")
    wait_until(lambda: sorted(one.committed) == ALL, lambda: f"{one} has committed everywhere")
    one.leave()
    second = _write(admin, name, "second")
    two = join(successor, name, name)
    wait_until(
        lambda: two.values() and values_read("second", two) == second, lambda: f"{two} has read everything"
    )
    assert sorted(two.values()) == second


def test_cooperative_members_hand_over_only_what_moves(admin: Driver, join: Join, name: str) -> None:
    """With cooperative-sticky, the first member keeps reading what it keeps, and each record is read once."""
    admin.create_topic(name, PARTITIONS)
    one = join("confluent-kafka", name, name, assignor="cooperative-sticky")
    one.wait_until_it_owns(ALL)
    two = join("confluent-kafka", name, name, assignor="cooperative-sticky")
    wait_until_shared([one, two], PARTITIONS)
    assert len(one.partitions) == len(two.partitions) == PARTITIONS // 2
    values = _write(admin, name, "sticky")
    wait_until(lambda: values_read("sticky", one, two) == values, "each record is read once")
    kept = two.partitions
    one.leave()
    two.wait_until_it_owns(ALL)
    assert two.revocations == 0, f"{two} never lost {kept}"


@pytest.mark.parametrize("library", MEMBERS)
def test_a_commit_below_the_start_of_the_log_is_reset(
    library: str, admin: Driver, join: Join, name: str
) -> None:
    """A member whose offset was deleted under it starts at the oldest record there is."""
    admin.create_topic(name)
    admin.produce(name, [Sent(value=str(number)) for number in range(10)])
    admin.commit(name, name, {0: Committed(2)})
    admin.delete_records(name, 0, 6)
    member = join(library, name, name)
    wait_until(lambda: len(member.values()) >= 4, lambda: f"{member} has read what is left")
    assert member.values() == ["6", "7", "8", "9"]


def test_an_administrator_removes_a_static_member(admin: KafkaPython, join: Join, name: str) -> None:
    """Removed by its instance id, an absent static member gives its partitions up before its session ends."""
    admin.create_topic(name, PARTITIONS)
    away = join("confluent-kafka", name, name, instance_id="the-one-that-is-away")
    here = join("aiokafka", name, name, instance_id="the-one-that-is-here")
    wait_until_shared([away, here], PARTITIONS)
    died_at = away.kill()
    admin.remove_static_member(name, "the-one-that-is-away")
    here.wait_until_it_owns(ALL)
    assert time.monotonic() - died_at < SESSION_TIMEOUT_MS / 1000 - 1
