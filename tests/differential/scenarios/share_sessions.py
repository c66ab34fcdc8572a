"""Share sessions: who may open one, which epochs follow, what is released when one ends."""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.requests import delete_topics
from tests.differential.script import Script
from tests.differential.share_requests import (
    ACCEPT,
    LONG_MS,
    RECORD_LIMIT,
    RELEASE,
    Consumer,
    configure,
    share_acknowledge,
    share_fetch,
    work,
    write,
)

NOWHERE = uuid.UUID(int=77)


def epochs_of_fetches(ask: Script) -> None:
    """Strictly the next one; a session that is opened again begins at 1."""
    consumer = work(ask, 3)
    consumer.fetch(epoch=-1, note="no session")
    consumer.fetch(epoch=1, note="no session")
    consumer.wait()
    consumer.fetch()
    consumer.fetch(epoch=1, note="again")
    consumer.fetch(epoch=9, note="too far")
    consumer.fetch(epoch=-2, note="below the last")
    consumer.fetch()
    consumer.epoch = 0
    consumer.fetch(note="opened again")
    consumer.fetch()
    consumer.fetch(epoch=-1)
    consumer.fetch(epoch=-1, note="closed already")


def epochs_of_acknowledgements(ask: Script) -> None:
    """They are those of fetches, and cannot open a session."""
    consumer = work(ask, 4)
    consumer.acknowledge((0, 0, [ACCEPT]), epoch=0, note="no session")
    consumer.acknowledge((0, 0, [ACCEPT]), epoch=1, note="no session")
    consumer.acknowledge((0, 0, [ACCEPT]), epoch=-1, note="no session")
    consumer.wait()
    consumer.acknowledge((0, 0, [ACCEPT]), epoch=0)
    consumer.acknowledge((0, 0, [ACCEPT]))
    consumer.acknowledge((1, 1, [ACCEPT]), epoch=1, note="again")
    consumer.acknowledge((1, 1, [ACCEPT]))
    consumer.fetch()
    consumer.acknowledge(note="nothing")
    consumer.close((2, 2, [ACCEPT]))
    consumer.wait()


def what_is_wrong_with_a_share_fetch(ask: Script) -> None:
    """Each check alone; the session is as before."""
    consumer = work(ask, 3)
    topics: dict[uuid.UUID, Any] = {consumer.topic.id: {0: ()}}
    wrong: tuple[dict[str, Any], ...] = (
        {"group_id": None},
        {"group_id": ""},
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"share_acquire_mode": 2},
        {"share_acquire_mode": -1},
        {"is_renew_ack": True},
        {"is_renew_ack": True, "max_bytes": 0, "min_bytes": 0, "max_records": 0},
        {"share_session_epoch": -2},
    )
    for changes in wrong:
        request = share_fetch(ask.group, "m", 0, topics)
        ask(request.but(**changes), "m", note=str(changes))
    acknowledged: dict[uuid.UUID, Any] = {consumer.topic.id: {0: [(0, 0, [ACCEPT])]}}
    ask(share_fetch(ask.group, "m", 0, acknowledged), "m", note="acknowledges in a new session")


def what_is_wrong_with_a_share_acknowledge(ask: Script) -> None:
    """Each check alone."""
    consumer = work(ask, 3)
    consumer.wait()
    topics: dict[uuid.UUID, Any] = {consumer.topic.id: {0: [(0, 0, [ACCEPT])]}}
    wrong: tuple[dict[str, Any], ...] = (
        {"group_id": None},
        {"group_id": ""},
        {"group_id": "another"},
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"member_id": "another"},
        {"topics": []},
    )
    for changes in wrong:
        request = share_acknowledge(ask.group, "m", consumer.epoch, topics)
        ask(request.but(**changes), "m", note=str(changes))


def a_session_is_closed_by_an_acknowledgement(ask: Script) -> None:
    """What the member still had is delivered to another one, and counted."""
    consumer = work(ask, 5)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.fetch()
    consumer.close((0, 1, [ACCEPT]))
    other.wait()


def a_session_is_closed_by_a_fetch(ask: Script) -> None:
    """It acknowledges, gets nothing, and gives back."""
    consumer = work(ask, 5, 5)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.fetch()
    consumer.fetch({0: [(0, 1, [ACCEPT])]}, epoch=-1)
    other.wait()


def a_session_is_opened_again(ask: Script) -> None:
    """What the member has acquired stays acquired, and can be acknowledged."""
    consumer = work(ask, 5)
    consumer.wait()
    consumer.epoch = 0
    consumer.fetch()
    consumer.acknowledge((0, 4, [ACCEPT]))
    consumer.fetch()


def a_session_begins_with_acknowledgements_forgotten(ask: Script) -> None:
    """A member whose session was closed does not have its records any more."""
    consumer = work(ask, 5)
    consumer.wait()
    consumer.close()
    consumer.wait(max_records=2, share_acquire_mode=RECORD_LIMIT)
    consumer.acknowledge((0, 4, [ACCEPT]))
    consumer.acknowledge((0, 1, [ACCEPT]))


def a_connection_is_lost(ask: Script) -> None:
    """Its session ends, and another member gets the records."""
    consumer = work(ask, 5)
    other = Consumer(ask, consumer.topic, "n")
    consumer.wait()
    other.fetch()
    waiting = ask.later(other.fetch_request(max_wait=LONG_MS), "n")
    ask.hang_up("m")
    waiting()
    consumer.fetch(note="the session is gone")


def another_connection_goes_on(ask: Script) -> None:
    """A session's requests may come by another connection."""
    consumer = work(ask, 5)
    consumer.wait(max_records=2, share_acquire_mode=RECORD_LIMIT)
    ask(consumer.fetch_request(max_records=1, share_acquire_mode=RECORD_LIMIT), "elsewhere")
    consumer.epoch += 1
    consumer.acknowledge((0, 2, [ACCEPT]))


def partitions_come_and_go(ask: Script) -> None:
    """A fetch adds and forgets partitions; what was acquired of a forgotten one stays so."""
    topic = ask.topic("t", 3)
    configure(ask)
    for index in range(3):
        write(ask, topic, 2, index=index)
    consumer = Consumer(ask, topic)
    consumer.join()
    consumer.wait()
    consumer.fetch({1: ()}, max_wait=LONG_MS)
    consumer.fetch({2: ()}, max_wait=LONG_MS, forgotten={topic.id: [1]})
    write(ask, topic, 2, index=1)
    consumer.fetch()
    consumer.acknowledge((0, 1, [ACCEPT]), index=1)
    consumer.fetch({1: ()}, max_wait=LONG_MS)
    consumer.fetch(forgotten={topic.id: [0, 1, 2]})
    consumer.fetch(forgotten={topic.id: [0, 7]}, note="not in the session")


def partitions_that_do_not_exist(ask: Script) -> None:
    """An index that a topic does not have, with and without acknowledgements."""
    consumer = work(ask, 3)
    consumer.wait()
    consumer.fetch({9: ()})
    consumer.fetch({9: [(0, 0, [ACCEPT])]})
    consumer.acknowledge((0, 0, [ACCEPT]), index=9)
    consumer.acknowledge((0, 0, [ACCEPT]), index=-1)


def topics_that_do_not_exist(ask: Script) -> None:
    """In a new session, in an open one, and in acknowledgements."""
    consumer = work(ask, 3)
    ask(share_fetch(ask.group, "m", 0, {NOWHERE: {0: ()}}), "m")
    consumer.wait()
    ask(share_acknowledge(ask.group, "m", consumer.epoch, {NOWHERE: {0: [(0, 0, [ACCEPT])]}}), "m")


def a_topic_is_deleted_under_a_session(ask: Script) -> None:
    """What was acquired of it cannot be acknowledged."""
    consumer = work(ask, 3)
    consumer.wait()
    ask(delete_topics(consumer.topic.name))
    ask.wait_until(
        share_fetch(ask.group, "probe", 0, {consumer.topic.id: {0: ()}}),
        lambda answer: answer["error_code"] != "none" or _errors(answer) == ["unknown_topic_id"],
        "probe",
    )
    consumer.acknowledge((0, 2, [ACCEPT]))


def _errors(answer: dict[str, Any]) -> list[str]:
    return [one["error_code"] for topic in answer["responses"] for one in topic["partitions"]]


def who_is_not_a_member_fetches(ask: Script) -> None:
    """Membership is not asked for, but somebody must have had the partition initialized."""
    consumer = work(ask, 3)
    other = Consumer(ask, consumer.topic, "nobody")
    other.wait()
    other.acknowledge((0, 1, [ACCEPT]), (2, 2, [RELEASE]))
    stranger = share_fetch(f"{ask.group}-unknown", "m", 0, {consumer.topic.id: {0: ()}}, max_wait=1_000)
    ask(stranger, "stranger")
