"""Many connections, a server killed again and again amid their requests, and no wrong answer (R3.5).

Everything that was asked and answered, over all lives of the server, fits one order of single steps: no stale
read, nothing acknowledged lost (R3.4), no commit seen in part (R3.7), nothing back from the dead. The clients
commit single partitions, a hundred at once, and so much that it takes several batches; the log they go to is
compacted meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.linearizability.checker import Operation, find_contradiction
from tests.linearizability.clients import LONG, NARROW, PARTITIONS, WIDE, Client, Load
from tests.linearizability.history import History

from headgate.broker import Broker, run
from headgate.client.cluster import Cluster
from headgate.inspect.verify import verify
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

GROUPS = 18
CLIENTS_OF_A_GROUP = 4
LONGEST_LIFE_SECONDS = 0.5
LONGEST_LAST_LIFE_SECONDS = 60
MOST_KILLS_MORE = 40
"""A kill that meets no write on its way tells little: there are more until some have."""
KINDS = (f"commits to {NARROW}", f"commits to {WIDE}", f"commits to {LONG}", "deletions", "fetches")
FEWEST_OF_A_KIND = 10

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "1000000",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.2",
}


def create_topics(broker: Broker) -> None:
    """The topics the clients commit to."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in PARTITIONS.items()
    ]
    with Cluster(broker.bootstrap_servers) as cluster:
        answer = cluster.any_node().request(CreateTopicsRequest(topics=topics))
    assert {one.error_code for one in answer.topics} == {0}


async def kill_again_and_again(broker: Broker, load: Load, clients: list[Client], kills: int) -> None:
    """Let the clients work while the server is killed and started; then look at everything twice."""
    working = [asyncio.create_task(client.run()) for client in clients]
    for kill in range(kills + MOST_KILLS_MORE):
        if kill >= kills and met_writes(load):
            break
        await asyncio.sleep(load.random.uniform(0.05, LONGEST_LIFE_SECONDS))
        await asyncio.to_thread(broker.kill)
        load.history.server_is_gone()
        await asyncio.to_thread(broker.start)
    async with asyncio.timeout(LONGEST_LAST_LIFE_SECONDS):  # a slow machine needs its time
        while answered_too_rarely(load):
            await asyncio.sleep(0.1)
    load.is_over = True
    await asyncio.gather(*working)
    for client in clients[::CLIENTS_OF_A_GROUP]:
        await client.look()
    await asyncio.to_thread(broker.restart)
    for client in clients[::CLIENTS_OF_A_GROUP]:
        await client.look()
    load.history.close()


@pytest.mark.parametrize(("durability", "kills"), [("sync", 11), ("page-cache", 4)])
@pytest.mark.timeout(180)
def test_every_answer_of_a_server_killed_under_load_fits_one_order(
    durability: str, kills: int, tmp_path: Path
) -> None:
    """Seventy-two connections: a kill costs a page cache nothing, so both durabilities promise it."""
    settings = {**SETTINGS, "headgate.durability": durability}
    with run(settings, data_dir=tmp_path / "data") as broker:
        create_topics(broker)
        load = Load(History(), broker.port, Random(durability))
        clients = [
            Client(load, f"group-{index}", has_long_commits=index < 4)
            for index in range(GROUPS)
            for _ in range(CLIENTS_OF_A_GROUP)
        ]
        asyncio.run(kill_again_and_again(broker, load, clients, kills))

    assert load.problems == []
    contradiction = load.history.contradiction()
    assert contradiction is None, str(contradiction)
    assert verify(tmp_path / "data").findings.errors == 0
    assert answered_too_rarely(load) == []
    assert met_writes(load)
    lies = [lie for each in load.history.operations.values() if (lie := with_a_lie(each)) is not None]
    assert lies, "something was replaced"
    assert find_contradiction(lies[0]) is not None


def answered_too_rarely(load: Load) -> list[str]:
    """The kinds of requests that were not answered often enough to tell anything."""
    return [kind for kind in KINDS if load.counts[kind] < FEWEST_OF_A_KIND]


def met_writes(load: Load) -> bool:
    """Whether kills met writes on their way that are seen to have happened, and others that are not."""
    operations = load.history.operations.values()
    seen = {item for each in operations for one in each for item in one.reads.items()}
    unanswered = load.history.unanswered_writes()
    happened = [writes for writes in unanswered if not seen.isdisjoint(writes.items())]
    return 0 < len(happened) < len(unanswered)


def with_a_lie(operations: list[Operation]) -> list[Operation] | None:
    """The same history, in which one fetch found an offset that another one had replaced before it began.

    None if no fetch could have.
    """
    answered = [one for one in operations if one.is_answered]
    for fetch in sorted(answered, key=lambda one: -one.began):
        for key in fetch.reads:
            before = [one for one in answered if key in one.writes and one.ended < fetch.began]
            last = max(before, key=lambda one: one.began, default=None)
            if last is None:
                continue
            stale = [one.writes[key] for one in before if one.ended < last.began and one.writes[key]]
            if stale:
                lie = replace(fetch, reads={**fetch.reads, key: stale[-1]})
                return [lie if one is fetch else one for one in operations]
    return None
