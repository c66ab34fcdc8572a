"""One simulation: all that follows from a seed, from the server's first start to the last check of its disk.

The core, records, log, topics, shard runtime, group commit and coordinator are real. Time, disk, sync thread,
network and clients are simulated. A life of the server ends with a power failure, a kill, or cleanly; the
next one starts with the contents of the disk. The clients and the models continue.

    plan           the parameters of the seed
    clients        tools and members, who send requests
    administrator  pauses partitions of groups with members, resets and resumes them
    nemesis        the faults
    clock          steady time and system time
    clock_setter   settings of the system clock
    surroundings   topics and group settings, and what members know of them
    calm           periods without faults, after which all groups must be stable
    network        delivers requests and answers
    life           one life of the server, on loop and disk
    local_logs     the logs of the shards on that disk
    remote_logs    or on other machines, with their faults
    audit          checks every answer by the models
    journal        the events, and the first violation
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.simulation.administrator import Administrator
from tests.simulation.audit import Audit
from tests.simulation.calm import Calm
from tests.simulation.classic_consumer import ClassicConsumer
from tests.simulation.clients import Client, Member, Tool
from tests.simulation.clock import SimulatedTime
from tests.simulation.clock_setter import ClockSetter
from tests.simulation.consumer_member import ConsumerMember
from tests.simulation.disk import SimulatedDisk
from tests.simulation.fittings import fitted
from tests.simulation.journal import Journal
from tests.simulation.life import DATA_DIR, Life
from tests.simulation.local_logs import LocalLogs
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import SimulatedNetwork
from tests.simulation.past_reader import PastReader
from tests.simulation.plan import RETENTION_MS, Plan
from tests.simulation.remote_logs import RemoteLogs
from tests.simulation.replays import compared_replays
from tests.simulation.requests import Violation
from tests.simulation.stalls import Stalls
from tests.simulation.surroundings import Surroundings

from headgate.log.header import CorruptBatch

OPERATIONS = 700
"""Number of requests of one seed's clients."""
MOST_FAILED_STARTS = 5
"""Maximum number of failed starts in a row; the disk works from the second one on."""


@dataclass
class Outcome:
    """The result of a seed."""

    seed: int
    violation: str | None
    trace_hash: str
    counts: Counter[str] = field(default_factory=Counter)


class World:
    """A seed's simulation: the assembled parts, and one life after another."""

    def __init__(self, seed: int, operations: int = OPERATIONS, **circumstances: Any) -> None:
        """`circumstances` are parameters of the plan that are set, not drawn from the seed."""
        self.seed = seed
        self.random = random = Random(seed)
        self.plan = plan = replace(Plan.of(random, seed), **circumstances)
        self.time = SimulatedTime()
        self.journal = Journal(self.time)
        self.disk = SimulatedDisk(self.time, self.journal.counts)
        self._remote: RemoteLogs | None = None
        if plan.has_remote_logs:
            self._remote = RemoteLogs(seed, plan.shards, self.time, self.disk, self.journal)
        self.logs = self._remote or LocalLogs(random.random)
        self._network = SimulatedNetwork(plan, random, self.time, self.disk, self.journal)
        self._network.most_requests = operations
        simple = [f"simple-{index}" for index in range(random.choice((1, 6)))]
        joined = [f"joined-{index}" for index in range(random.choice((1, 3)))] if plan.members else []
        balanced = [f"balanced-{index}" for index in range(random.choice((1, 2)))] if plan.consumers else []
        mixed = ["mixed"] if plan.mixed else []
        self.surroundings = Surroundings(plan, random, self.journal, self._network, balanced + mixed)
        self.audit = Audit(
            plan, self.time, self.disk, self.journal, self.surroundings, (simple, joined, balanced, mixed)
        )
        self._clients: list[Client] = [
            Tool(self._network, simple * 4 + joined + balanced) for _ in range(plan.tool_count())
        ]
        self._clients += [
            Member(self._network, joined[index % len(joined)], plan.longest_session_seconds)
            for index in range(plan.members)
        ]
        consumers: list[ConsumerMember | ClassicConsumer] = [
            ConsumerMember(self.surroundings, balanced[index % len(balanced)], plan.longest_session_seconds)
            for index in range(plan.consumers)
        ]
        session_seconds = plan.longest_session_seconds
        for index in range(plan.mixed):
            kind = (ConsumerMember, ClassicConsumer)[index % 2]
            consumers.append(kind(self.surroundings, mixed[0], session_seconds))
        self._clients += consumers
        pausing = plan.pausing if balanced or mixed else 0
        administrators = [Administrator(self.surroundings, balanced + mixed) for _ in range(pausing)]
        self._clients += administrators
        clients = consumers, administrators
        calm = Calm(plan, self.disk, self.journal, self.surroundings, clients, self.audit.paused_in)
        self._nemesis = Nemesis(plan, random, self.disk, self._remote, self.journal, self._clients, calm)
        self._clock_setter = ClockSetter(plan, seed, self.time, self.journal)
        self._stalls = Stalls(plan, seed, self.time, self.journal, calm)
        self._failed_starts = 0
        """In a row."""

    def run(self) -> Outcome:
        """Run until there were enough requests or a violation."""
        self.disk.make_directory(DATA_DIR)
        self.disk.sync_directory(DATA_DIR.parent)
        network, journal = self._network, self.journal
        with (
            fitted(self.plan, self.random, journal, self.audit.compaction_failed),
            compared_replays(journal.counts, journal.report),
        ):
            try:
                while network.requests < network.most_requests and journal.violation is None:
                    self._live(Life(self))
                if journal.violation is None:
                    self._look_back()
            except Violation as violation:
                journal.report(str(violation))
        journal.counts["requests"] = network.requests
        self.audit.summarize()
        return Outcome(self.seed, journal.violation, journal.trace_hash(), journal.counts)

    def _live(self, life: Life) -> None:
        self.journal.on_violation = lambda: life.end("violations")
        self._network.connect(life, self.audit)
        self.audit.begins(life)
        life.run()
        self.audit.ended()
        self.journal.trace(f"ended {life.end_kind}")
        self._failed_starts = self._failed_starts + 1 if life.end_kind == "failed starts" else 0
        if self._failed_starts > 1:
            self.disk.heal()
        if self._failed_starts > MOST_FAILED_STARTS:
            raise Violation("the server does not start any more on a disk that works")
        self.journal.counts[life.end_kind] += 1
        if life.end_kind == "power cuts":
            self.disk.crash(self.random if self.random.random() < 0.7 else None)
        else:
            self.disk.kill()
        if self.journal.violation is None and self._remote is None:
            self._look_at_past()  # only the local log has a history
        self.time.seconds += self.random.random() * self.random.choice((5, 5, 5, 2 * RETENTION_MS / 1000))
        self._clock_setter.between_lives()

    def _look_at_past(self) -> None:
        try:
            self.audit.look_at_past(PastReader(self.disk, DATA_DIR, self.plan.settings(), self.time))
        except (OSError, CorruptBatch) as failure:
            raise Violation(f"the history cannot be read on a disk that works: {failure!r}") from failure

    def _look_back(self) -> None:
        """Check after a last crash that all acknowledged data exists; after one more start, nothing else."""
        if self.plan.is_durable:
            self.disk.crash(self.random)
            self.audit.machine_crashed()
        if self._remote is not None:
            self._remote.interleave(0.0)
        first = Life(self, is_last=True)
        self._live(first)
        second = Life(self, is_last=True)
        self._live(second)
        if first.snapshot is None or second.snapshot is None:
            raise Violation(f"the server did not start on a disk that works: {first.end_kind}")
        if first.snapshot != second.snapshot:
            raise Violation(f"a second start changed {first.snapshot} to {second.snapshot}")
        if first.left_at != second.begun_at:
            raise Violation(f"a second start went on at {second.begun_at}, and not at {first.left_at}")

    def started(self, life: Life) -> None:
        """Note that the server accepts connections."""
        for client in self._clients:
            client.connect()
        self._nemesis.begin(life)
        self._clock_setter.begin(life)
        self._stalls.begin(life)
        self._network.look_for_the_forgotten()
