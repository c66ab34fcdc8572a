"""A simulation of transactions: whole nodes, one after another on one disk, and transactional producers.

The node is the real one, with all APIs, over its real connections. Time, disk, threads and network are
simulated. Its producers live longer than it does. Everything follows from the seed.

    plan        the parameters of the seed
    threads     makes the node's threads and stopwatches part of the simulation
    life        one life of the node
    link        a connection
    requests    what producers send
    producer    a transactional producer, of both versions of the protocol
    worker      reads, processes and writes exactly once, as a member of a group
    nemesis     the faults
    books       what is known of all transactions
    auditor     reads everything, and compares it with the books
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.clock import SimulatedTime
from tests.simulation.disk import SimulatedDisk
from tests.simulation.fittings import fitted
from tests.simulation.journal import Journal
from tests.simulation.life import DATA_DIR
from tests.simulation.plan import Plan
from tests.simulation.replays import compared_replays
from tests.simulation.requests import Violation
from tests.simulation.transactions.auditor import Auditor
from tests.simulation.transactions.books import Books, Place
from tests.simulation.transactions.life import TransactionLife
from tests.simulation.transactions.nemesis import Nemesis
from tests.simulation.transactions.plan import TransactionPlan
from tests.simulation.transactions.producer import GROUPS, TransactionalProducer
from tests.simulation.transactions.threads import simulated_threads
from tests.simulation.transactions.worker import INPUT, Worker
from tests.simulation.world import Outcome

from headgate.domain.settings import LONG_MAX

TRANSACTIONS = 150
"""Number of transactions of one seed."""


class TransactionWorld:
    """A seed's simulation."""

    def __init__(self, seed: int, transactions: int = TRANSACTIONS, **circumstances: Any) -> None:
        """`circumstances` are parameters of the plan that are set, not drawn from the seed."""
        self.seed = seed
        self.random = Random(seed)
        self.plan = replace(TransactionPlan.of(seed), **circumstances)
        self.time = SimulatedTime()
        self.journal = Journal(self.time)
        self.disk = SimulatedDisk(self.time, self.journal.counts)
        self.books = Books(self.time)
        self.most_transactions = transactions
        # A batch may arrive after the clock was set back by more than Kafka's hour.
        kept = {
            "segment.bytes": str(self.plan.segment_bytes),
            "message.timestamp.after.max.ms": str(LONG_MAX),
        }
        self.topics = {"kept": kept, "compacted": kept | {"cleanup.policy": "compact"}}
        self.places: list[Place] = [
            (topic, index) for topic in self.topics for index in range(self.plan.partitions)
        ]
        self.topics[INPUT] = {}
        self.groups = GROUPS
        self.auditor = Auditor(self)
        self._nemesis = Nemesis(self)
        self._producers = list(self._new_producers())
        self._is_last = False

    def _new_producers(self) -> Iterator[TransactionalProducer]:
        plan = self.plan
        for index in range(plan.producers + plan.rivals):
            place = index % plan.producers
            version = 1 if plan.server_version < 2 else place % 2 + 1
            has_rivals = place < plan.rivals
            yield TransactionalProducer(self, index, f"id-{place}", version, has_rivals=has_rivals)
        for index in range(plan.workers):
            yield Worker(self, index, 1 if plan.server_version < 2 else index % 2 + 1)

    @property
    def is_enough(self) -> bool:
        """Whether there were as many transactions as wanted."""
        return len(self.books.transactions) >= self.most_transactions

    def run(self) -> Outcome:
        """Run until there were enough transactions or a violation."""
        self.disk.make_directory(DATA_DIR)
        self.disk.sync_directory(DATA_DIR.parent)
        plan, journal = self.plan, self.journal
        sizes = replace(Plan.of(Random(self.seed), self.seed), checkpoint_records=plan.checkpoint_records)
        with (
            fitted(sizes, self.random, journal, lambda index: None),
            simulated_threads(self.random, plan.slowest_sync_seconds, plan.greatest_epoch, journal),
            compared_replays(journal.counts, journal.report),
        ):
            try:
                while not self.is_enough and journal.violation is None:
                    self._live()
                self._is_last = True
                for _ in range(2):
                    if journal.violation is None:
                        self.disk.heal()
                        self._live()
            except Violation as violation:
                journal.report(str(violation))
        journal.counts["transactions"] = len(self.books.transactions)
        return Outcome(self.seed, journal.violation, journal.trace_hash(), journal.counts)

    def _live(self) -> None:
        life = TransactionLife(self)
        self.journal.on_violation = lambda: life.end("violations")
        life.run()
        self.journal.trace(f"ended {life.end_kind}")
        self.journal.counts[life.end_kind] += 1
        self.books.server_ended(self.time.seconds)
        self._nemesis.ended(life.end_kind)
        if life.end_kind == "power cuts" or self._is_last:
            self.disk.crash(self.random if self.random.random() < 0.7 else None)
        else:
            self.disk.kill()
        self.time.seconds += self.random.random() * 5
        self._nemesis.between_lives()

    async def started(self, life: TransactionLife) -> None:
        """Check what the server has, before its clients come; then let them work."""
        await self.auditor.check_all(life, is_quiet=False)
        if self._is_last:
            await self._finish(life)
            return
        for producer in self._producers:
            life.begin(producer.live(life))
        life.begin(self.auditor.follow(life))
        self._nemesis.begin(life)

    async def _finish(self, life: TransactionLife) -> None:
        """Let everything time out, and check that nothing is left."""
        await life.pass_seconds(2 * self.plan.timeout_seconds + 30)
        await self.auditor.check_all(life, is_quiet=True)
        life.end("last looks")
