"""Offsets in transactions of groups with members: whose commits are believed."""

from __future__ import annotations

from tests.differential.members import join_as_new, reads
from tests.differential.requests import beat, enter, fetch, join, sync
from tests.differential.script import Script
from tests.differential.transaction_requests import add_offsets, ended, new, txn_commit
from tests.differential.wire import Request


def committed_for_a_classic_member(ask: Script) -> None:
    """Its generation and its id count, if it tells them; the group may be empty, or there may be none."""
    topic = ask.topic()
    producer = new(ask)
    offsets = {topic.name: {0: 1}}
    ask(txn_commit(producer, ask.group, offsets, member="m", generation=1), note="no group")
    ask(txn_commit(producer, ask.group, offsets, member="", generation=1), note="no group")
    joined = join_as_new(ask, reads(topic), version=5)
    member, generation = joined["member_id"], joined["generation_id"]

    def commits(note: str) -> None:
        for version in (2, 3, 5):
            for who, which in (
                ("", -1),
                (member, generation),
                (member, generation - 1),
                (member, generation + 1),
                (member, -1),
                ("", generation),
                ("other", generation),
                ("other", -1),
            ):
                request = txn_commit(producer, ask.group, offsets, version, member=who, generation=which)
                ask(request, note=note)

    commits("before it has synced")
    ask(sync(ask.group, member, generation), "classic")
    commits("stable")
    for instance in ("i", ""):
        request = txn_commit(
            producer,
            ask.group,
            offsets,
            member=member,
            generation=generation,
            group_instance_id=instance,
        )
        ask(request, note=f"instance {instance}")
    ended(ask, producer, commit=True)
    ask(fetch(ask.group, {topic.name: [0]}, require_stable=True))


def committed_for_a_member_of_the_new_protocol(ask: Script) -> None:
    """Its epoch counts, if it tells it."""
    topic = ask.topic()
    producer = new(ask)
    offsets = {topic.name: {0: 1}}
    ask(add_offsets(producer, ask.group))
    epoch = ask(enter(ask.group, "m", [topic.name]), "m")["member_epoch"]
    for version in (2, 3, 4, 5):
        for who, which in (
            ("", -1),
            ("m", epoch),
            ("m", epoch - 1),
            ("m", epoch + 1),
            ("m", -1),
            ("", epoch),
            ("other", epoch),
        ):
            ask(txn_commit(producer, ask.group, offsets, version, member=who, generation=which))
    ask(beat(ask.group, "m", -1), "m")
    ask(txn_commit(producer, ask.group, offsets, member="m", generation=epoch), note="after it left")
    ask(txn_commit(producer, ask.group, offsets), note="after it left")
    ended(ask, producer, commit=True)
    ask(fetch(ask.group, {topic.name: [0]}, require_stable=True))


def committed_for_a_static_member(ask: Script) -> None:
    """Of either protocol, with its instance id, another one, and after it has come again."""
    topic = ask.topic()
    producer = new(ask)

    def commits(group: str, member: str, epoch: int, note: str) -> None:
        for instance in ("i", "j", None):
            request = txn_commit(
                producer,
                group,
                {topic.name: {0: 1}},
                member=member,
                generation=epoch,
                group_instance_id=instance,
            )
            ask(request, note=f"{note}, instance {instance}")

    classic, modern = f"{ask.group}-classic", f"{ask.group}-modern"
    joined = ask(join(classic, reads(topic), instance="i"), "classic")
    commits(classic, joined["member_id"], joined["generation_id"], "classic")
    commits(classic, "other", joined["generation_id"], "classic, another id")
    ask.hang_up("classic")
    later = ask(join(classic, reads(topic), instance="i"), "classic")
    commits(classic, joined["member_id"], later["generation_id"], "classic, before it came again")
    commits(classic, later["member_id"], later["generation_id"], "classic, again")
    epoch = ask(enter(modern, "m", [topic.name], instance_id="i"), "m")["member_epoch"]
    commits(modern, "m", epoch, "modern")
    commits(modern, "n", epoch, "modern, another id")
    ended(ask, producer, commit=True)


def committed_for_a_member_that_falls_behind(ask: Script) -> None:
    """Another joins: the generation, or the epoch, of the first is over."""
    topic = ask.topic(partitions=2)
    producer = new(ask)

    def commits(group: str, epoch: int, note: str) -> Request:
        request = txn_commit(producer, group, {topic.name: {0: epoch}}, member="a", generation=epoch)
        ask(request, note=note)
        return request

    modern = f"{ask.group}-modern"
    epoch = ask(enter(modern, "a", [topic.name]), "a")["member_epoch"]
    commits(modern, epoch, "alone")
    ask(enter(modern, "b", [topic.name]), "b")
    commits(modern, epoch, "another has joined")
    ask(beat(modern, "a", epoch), "a")
    commits(modern, epoch, "it has heard of it")
    commits(modern, epoch + 1, "of the next epoch")
    ask(beat(modern, "a", -1), "a")
    commits(modern, epoch, "it has left")
    ended(ask, producer, commit=True)
    ask(fetch(modern, None, require_stable=True))


def committed_for_groups_of_other_kinds(ask: Script) -> None:
    """Of a classic group that are no consumers; of a share group."""
    topic = ask.topic()
    producer = new(ask)
    workers, share = f"{ask.group}-workers", f"{ask.group}-share"
    first = ask(join(workers, {"p": b""}, 5, protocol_type="connect"), "w")
    ask(join(workers, {"p": b""}, 5, member=first["member_id"], protocol_type="connect"), "w")
    values = {
        "group_id": share,
        "member_id": "s",
        "member_epoch": 0,
        "subscribed_topic_names": [topic.name],
    }
    ask(Request("share_group_heartbeat", 1, values), "s")
    for group, member in ((workers, first["member_id"]), (share, "s")):
        for version in (3, 5):
            for who, generation in (("", -1), (member, 1), (member, 2)):
                request = txn_commit(
                    producer, group, {topic.name: {0: 1}}, version, member=who, generation=generation
                )
                ask(request, note=f"{group == share}, {generation}")
    ended(ask, producer, commit=True)
    for group in (workers, share):
        ask(fetch(group, {topic.name: [0]}, require_stable=True))
