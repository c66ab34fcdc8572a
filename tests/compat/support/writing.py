"""Records that come all the time, and the promise about them: by what members commit, each counts once."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing

from confluent_kafka import KafkaError, Message, Producer
from tests.compat.support.driver import Committed, Driver, Sent
from tests.compat.support.kafka_python import KafkaPython
from tests.compat.support.members import Member
from tests.waiting import wait_until

from headgate.broker import Broker

PARTITIONS = 6
ALL = list(range(PARTITIONS))
SESSION_AND_MORE_S = 30.0


class Writing:
    """Records that are written all the time, in a thread, until the block is left; each of them once.

    The producer is idempotent, so that a broker may be killed meanwhile.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.values: list[str] = []
        self._topic = topic
        self._refused: list[KafkaError] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        assert not self._refused

    @property
    def count(self) -> int:
        """How many were written to each partition."""
        return len(self.values) // PARTITIONS

    def _write(self) -> None:
        while not self._ended.wait(0.1):
            for number in range(2 * PARTITIONS):
                self.values.append(f"{len(self.values):06}")
                self._producer.produce(
                    self._topic, self.values[-1], partition=number % PARTITIONS, on_delivery=self._delivered
                )
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._refused.append(error)


def write(driver: Driver, topic: str, word: str, count: int, partitions: int = PARTITIONS) -> list[str]:
    """Writes so many records that start with the word over all partitions; their values, sorted."""
    values = [f"{word} {number:03}" for number in range(count)]
    driver.produce(topic, [Sent(value=value, partition=i % partitions) for i, value in enumerate(values)])
    return values


def values_read(word: str, *members: Member) -> list[str]:
    """The values that start with the word and were read by any of the members, sorted."""
    return sorted(v for member in members for v in member.values() if v.startswith(word))


def wait_until_they_read_on(*members: Member) -> None:
    """Returns when each of them has committed something that it read from now on."""
    before = {id(member): len(member.confirmed) for member in members}
    wait_until(
        lambda: all(len(member.confirmed) > before[id(member)] for member in members),
        lambda: f"they all read on: {', '.join(map(str, members))}",
        SESSION_AND_MORE_S,
    )


def check_that_every_record_counts_once(
    broker: Broker, name: str, writing: Writing, alive: list[Member], gone: list[Member]
) -> None:
    """By what members committed: nothing twice, nothing left out, whoever had the partition.

    What was under way when a member was killed it may have committed without having been able to say so.
    """
    everything = dict.fromkeys(ALL, Committed(writing.count))
    with closing(KafkaPython(broker.bootstrap_servers)) as setter:
        wait_until(
            lambda: setter.committed(name, name, ALL) == everything,
            lambda: f"all {writing.count} are committed: {setter.committed(name, name, ALL)}, {alive}",
            SESSION_AND_MORE_S,
        )
    for member in alive:
        member.leave()
    confirmed = Counter(value for member in [*alive, *gone] for value in member.confirmed)
    assert [value for value, count in confirmed.items() if count > 1] == []
    unheard = {value for member in gone for value in member.unconfirmed.values()}
    assert set(writing.values) - set(confirmed) <= unheard
    assert set(confirmed) <= set(writing.values)
