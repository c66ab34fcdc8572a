"""A group's offsets: committed by one library, seen by every other, from inside a group and from outside."""

from __future__ import annotations

import pytest
from tests.compat.support.driver import Can, Committed, Driver, Refused, Sent
from tests.compat.support.members import Join
from tests.waiting import wait_until

OFFSET_METADATA_TOO_LARGE = 12
UNKNOWN_MEMBER_ID = 25
GROUP_SUBSCRIBED_TO_TOPIC = 86


@pytest.mark.drivers(Can.COMMIT_METADATA)
@pytest.mark.other_drivers(Can.COMMIT)
def test_what_one_library_commits_another_fetches(
    driver: Driver, other_driver: Driver, admin: Driver, name: str
) -> None:
    """Offset and metadata come back as they were committed; what was not committed is told as such."""
    admin.create_topic(name, 3)
    offsets = {0: Committed(12, "written by us: å∫ç"), 1: Committed(2**40, "")}
    driver.commit(name, name, offsets)
    tail = "" if other_driver.metadata_tail else driver.metadata_tail
    seen = {partition: Committed(one.offset, one.metadata + tail) for partition, one in offsets.items()}
    assert other_driver.committed(name, name, [0, 1, 2]) == {**seen, 2: None}


@pytest.mark.drivers(Can.COMMIT)
def test_an_administrator_sets_offsets(driver: Driver, admin: Driver, name: str) -> None:
    """Offsets set for a group that never was are there for everybody."""
    admin.create_topic(name, 2)
    driver.commit(name, name, {0: Committed(12), 1: Committed(2**40)})
    offsets = {p: one and one.offset for p, one in admin.committed(name, name, [0, 1]).items()}
    assert offsets == {0: 12, 1: 2**40}


@pytest.mark.drivers(Can.COMMIT_METADATA)
def test_the_last_commit_wins_in_either_direction(driver: Driver, admin: Driver, name: str) -> None:
    """An offset may be moved back as well as forward."""
    admin.create_topic(name, 1)
    for offset in (5, 9, 3):
        driver.commit(name, name, {0: Committed(offset)})
        assert driver.committed(name, name, [0]) == {0: Committed(offset)}


@pytest.mark.drivers(Can.COMMIT_METADATA)
def test_metadata_over_the_limit_is_refused(driver: Driver, admin: Driver, name: str) -> None:
    """4,096 characters are taken, one more is not, and what was there stays (R3.2)."""
    admin.create_topic(name, 1)
    most = 4096 - len(driver.metadata_tail)
    longest = Committed(1, "m" * most)
    driver.commit(name, name, {0: longest})
    with pytest.raises(Refused) as refused:
        driver.commit(name, name, {0: Committed(2, "m" * (most + 1))})
    assert refused.value.code == OFFSET_METADATA_TOO_LARGE
    assert driver.committed(name, name, [0]) == {0: longest}


@pytest.mark.drivers(Can.COMMIT)
def test_a_group_nobody_knows_has_no_offsets(driver: Driver, admin: Driver, name: str) -> None:
    """Asking for the offsets of an unknown group is no error."""
    admin.create_topic(name, 1)
    assert driver.committed(f"{name}-nobody", name, [0]) == {0: None}


@pytest.mark.drivers(Can.DELETE_OFFSETS)
def test_an_offset_is_forgotten(driver: Driver, admin: Driver, name: str) -> None:
    """A deleted offset is gone, its neighbour stays."""
    admin.create_topic(name, 2)
    admin.commit(name, name, {0: Committed(1), 1: Committed(2)})
    driver.delete_offsets(name, name, [0])
    assert driver.committed(name, name, [0, 1]) == {0: None, 1: Committed(2)}


@pytest.mark.drivers(Can.DELETE_OFFSETS)
def test_the_offset_of_a_subscribed_topic_is_kept(
    driver: Driver, admin: Driver, join: Join, name: str
) -> None:
    """While a member reads a topic, its offsets cannot be deleted under it."""
    admin.create_topic(name, 1)
    admin.produce(name, [Sent(value="one")])
    member = join("confluent-kafka", name, name)
    wait_until(lambda: member.committed == {0: 1}, lambda: f"{member} has committed")
    with pytest.raises(Refused) as refused:
        driver.delete_offsets(name, name, [0])
    assert refused.value.code == GROUP_SUBSCRIBED_TO_TOPIC
    assert driver.committed(name, name, [0]) == {0: Committed(1)}


@pytest.mark.drivers(Can.COMMIT)
def test_a_stranger_cannot_commit_for_a_living_group(
    driver: Driver, admin: Driver, join: Join, name: str
) -> None:
    """As long as a group has members, only they commit."""
    admin.create_topic(name, 1)
    member = join("confluent-kafka", name, name)
    member.wait_until_it_owns([0])
    with pytest.raises(Refused) as refused:
        driver.commit(name, name, {0: Committed(77)})
    # kafkajs notices by itself that the group is alive; aiokafka says that it has rebalanced, without a code.
    assert refused.value.code == (None if driver.name in ("kafkajs", "aiokafka") else UNKNOWN_MEMBER_ID)
    assert admin.committed(name, name, [0]) == {0: None}
