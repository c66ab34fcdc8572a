"""Two transactional producers: their records, their offsets, and requests of who they were before."""

from __future__ import annotations

from tests.differential import record_requests as rr
from tests.differential import requests as rq
from tests.differential import transaction_requests as tr
from tests.differential.lives.life import NOWHERE, Life
from tests.differential.script import Topic
from tests.differential.wire import Tree

STEPS = 25
MEMBERS_SINCE = 3
"""TxnOffsetCommit has members from this version on, and InitProducerId the producer as it is."""
INIT_TRIES = 4


class TransactionsLife(Life):
    """Transactions that begin, end, are fenced and are repeated, beside plain commits of their group."""

    def live(self) -> None:
        """Ask everything."""
        self.topics = [self.ask.topic("t", 3), self.ask.topic("u", 1)]
        self.producers = [tr.new(self.ask, "p"), tr.new(self.ask, "q")]
        self.former = list(self.producers)
        self.make_group(self.ask.group)
        self.sequences: dict[tuple[int, int, str, int], int] = {}
        self.go(
            {
                self.add: 5,
                self.add_offsets: 4,
                self.commit_in_transaction: 8,
                self.write: 6,
                self.end: 6,
                self.init: 3,
                self.be_another: 3,
                self.write_marker: 1,
                self.commit: 3,
                self.fetch: 7,
                self.delete: 2,
                self.read: 4,
                self.list_offsets: 2,
                self.describe: 4,
            },
            STEPS,
        )
        for producer in self.producers:
            self.ask(tr.describe(producer))
        self.fetch()
        self.read()

    def _who(self) -> int:
        return self.pick({0: 3, 1: 1})

    def _places(self) -> dict[str, list[int]]:
        if self.happens(0.1):
            name = self.chance.choice([*(one.name for one in self.topics), NOWHERE])
            return {name: self.chance.choice([[0], [7], [0, 7], []])}
        topic, indexes = self._place()
        return {topic.name: indexes}

    def _place(self) -> tuple[Topic, list[int]]:
        if self.happens(0.5):
            return self.topics[1], [0]
        return self.topics[0], self.chance.sample(range(3), self.chance.randint(1, 3))

    def add(self) -> None:
        """Add partitions, or only look whether they are there, as brokers do."""
        version = self.chance.randint(0, 5)
        verify_only = version >= tr.OF_BROKERS_SINCE and self.happens(0.3)
        self.ask(tr.add(self.producers[self._who()], self._places(), version, verify_only=verify_only))

    def add_offsets(self) -> None:
        """Add the group."""
        self.ask(tr.add_offsets(self.producers[self._who()], self.ask.group, self.chance.randint(0, 4)))

    def commit_in_transaction(self) -> None:
        """Commit offsets, now and then as a member that there is not."""
        version = self.chance.randint(0, 5)
        more: Tree = {}
        if version >= MEMBERS_SINCE and self.happens(0.15):
            more = self.chance.choice(
                [
                    {"member": "m", "generation": 1},
                    {"member": "", "generation": 3},
                    {"member": "m"},
                    {"group_instance_id": "i"},
                ]
            )
        producer = self.producers[self._who()]
        self.ask(tr.txn_commit(producer, self.ask.group, self.offsets(), version, **more))

    def write(self) -> None:
        """Write a record, now and then with a sequence before or after the next one."""
        producer = self.producers[self._who()]
        topic, indexes = self._place()
        place = producer.id, producer.epoch, topic.name, indexes[0]
        sequence = max(0, self.sequences.get(place, 0) + self.pick({0: 20, 1: 1, -1: 1}))
        version = self.chance.randint(3, 12)
        answer = self.ask(
            tr.write(producer, topic.name, "v", version, sequence=sequence, index=indexes[0]),
            note=f"{place[2:]} {sequence}",
        )
        if answer["responses"][0]["partition_responses"][0]["error_code"] == "none":
            self.sequences[place] = sequence + 1

    def end(self) -> None:
        """Commit or abort; now and then once more, as whoever did not get the answer."""
        who, version = self._who(), self.chance.randint(0, 5)
        producer = self.producers[who]
        answer = self.ask(tr.end(producer, commit=self.happens(0.6), version=version))
        tr.wait_for_the_end(self.ask, self.producers[who])
        if answer["error_code"] != "none":
            return
        if answer.get("producer_id", -1) >= 0:
            self._becomes(who, tr.answered(producer, answer))
        if self.happens(0.3):
            self.ask(tr.end(producer, commit=self.happens(0.5), version=version), note="again")
            tr.wait_for_the_end(self.ask, self.producers[who])

    def _becomes(self, who: int, producer: tr.Producer) -> None:
        self.former[who], self.producers[who] = self.producers[who], producer

    def init(self) -> None:
        """Start anew, mostly as who it is; with a timeout that may be too long."""
        who, version = self._who(), self.chance.randint(0, 5)
        producer = tr.Producer(self.producers[who].name)
        if version >= MEMBERS_SINCE and self.happens(0.5):
            producer = self.producers[who]
        if version >= MEMBERS_SINCE and self.happens(0.1):
            odd = [self.former[who], producer.with_epoch(producer.epoch + 1), producer._replace(id=10**15)]
            producer = self.chance.choice(odd)
        timeout_ms = self.chance.choice([60_000, 60_000, 60_000, 0, -1, 900_001, 2**31 - 1])
        for _ in range(INIT_TRIES):
            answer = self.ask(tr.init(producer, version, timeout_ms))
            tr.wait_for_the_end(self.ask, self.producers[who])
            if answer["error_code"] != "concurrent_transactions":
                break
        if answer["error_code"] == "none":
            self._becomes(who, tr.answered(producer, answer))

    def be_another(self) -> None:
        """Ask for something as a producer of an epoch before or after, or as the other one."""
        who = self._who()
        now, other = self.producers[who], self.producers[1 - who]
        producer = self.chance.choice(
            [
                self.former[who],
                now.with_epoch(max(0, now.epoch - 1)),
                now.with_epoch(now.epoch + 1),
                other._replace(name=now.name),
            ]
        )
        version = self.chance.randint(0, 3)
        request = self.chance.choice(
            [
                tr.add(producer, self._places(), version),
                tr.add_offsets(producer, self.ask.group, version),
                tr.txn_commit(producer, self.ask.group, self.offsets(), self.chance.randint(0, 5)),
                tr.end(producer, commit=self.happens(0.5), version=self.chance.randint(0, 5)),
                tr.write(producer, self.topics[0].name, "o", self.chance.randint(3, 12)),
            ]
        )
        self.ask(request, note="another")
        tr.wait_for_the_end(self.ask, self.producers[who])

    def write_marker(self) -> None:
        """End the transaction in one partition, as an administrator of a transaction that hangs."""
        producer = self.producers[self._who()]
        places = {self.topics[0].name: [self.chance.choice([0, 1, 9])]}
        marker = tr.marker(producer, places, commit=self.happens(0.5))
        self.ask(tr.write_markers(marker, version=self.chance.randint(1, 2)))

    def commit(self) -> None:
        """Commit without a transaction."""
        self.ask(rq.commit(self.ask.group, self.offsets(), self.chance.randint(2, 9)))

    def fetch(self) -> None:
        """Fetch offsets, mostly only stable ones."""
        version = self.chance.randint(7, 10)
        wanted = self.wanted(version)
        self.ask(rq.fetch(self.ask.group, wanted, version, require_stable=self.happens(0.6)))

    def delete(self) -> None:
        """Delete offsets, or the group."""
        if self.happens(0.5):
            self.ask(rq.delete_offsets(self.ask.group, {self.topics[0].name: [0, 1]}))
        else:
            self.ask(rq.delete_groups(self.ask.group))
            self.fetch()
            self.make_group(self.ask.group)

    def read(self) -> None:
        """Read records, committed ones or all."""
        topic, at = self.chance.choice(self.topics), self.chance.choice([0, 0, 0, 1, 3, 50])
        version, isolation = self.chance.randint(13, 16), self.chance.choice([0, 1])
        self.ask(rr.read(topic, {0: at}, version, isolation_level=isolation))

    def list_offsets(self) -> None:
        """Ask for the offset of a time, the first one or the last one."""
        at = self.chance.choice([-1, -2, -3, rr.NOW_MS - 60_000])
        version, isolation = self.chance.randint(7, 10), self.chance.choice([0, 1])
        topic = self.chance.choice(self.topics).name
        self.ask(rr.list_offsets(topic, {0: at}, version, isolation_level=isolation))

    def describe(self) -> None:
        """Describe a transaction, or the producers of a partition."""
        if self.happens(0.5):
            self.ask(tr.describe(self.producers[self._who()]))
        else:
            self.ask(tr.describe_producers({self.chance.choice(self.topics).name: [0]}))
