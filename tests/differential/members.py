"""What scenarios about members have in common: joining, what members read and own, how a group stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.differential.requests import (
    describe_consumer_groups,
    describe_groups,
    join,
    list_groups,
    subscription,
)
from tests.differential.script import Script, Topic
from tests.differential.wire import Tree


def look(ask: Script) -> None:
    """The group, described as one of either type, and listed."""
    ask(describe_groups(ask.group))
    ask(describe_consumer_groups(ask.group))
    ask.only(list_groups(), "groups", "group_id", [ask.group])


def reads(topic: Topic, owned: Sequence[int] = (), version: int = 1) -> dict[str, bytes]:
    """What a classic member offers that reads the topic, and has these partitions of it."""
    return {"range": subscription([topic.name], {topic.name: owned} if owned else None, version)}


def owned_by(answer: Tree) -> dict[Any, list[int]]:
    """What a member of the new protocol has by an answer with an assignment, as it reports it."""
    assigned = answer["assignment"]["topic_partitions"]
    return {one["topic_id"]: sorted(one["partitions"]) for one in assigned}


def join_as_new(
    ask: Script,
    protocols: Mapping[str, bytes] | None = None,
    on: str = "classic",
    version: int = 9,
    **more: Any,
) -> Tree:
    """A classic member joins, with an id first where the version wants that; the answer to its last join."""
    answer = ask(join(ask.group, protocols, version, **more), on)
    if answer["error_code"] != "member_id_required":
        return answer
    return ask(join(ask.group, protocols, version, member=answer["member_id"], **more), on)
