"""The brokers that are compared: real ones, each a child process on this machine.

Every peer is a context manager, knows which measures it supports, and can be switched to a durability.
Kafka's is a setting of the topic; Headgate's is a setting of the server, so two servers run.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.kafka.broker import kafka_missing, kafka_node, set_topic_config
from headgate import BrokerFailed, run
from headgate.compiled import build_text

LOAD_TOPIC = "load"
STATE_TOPICS = ("__consumer_offsets", "__transaction_state")
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
REST_TIMEOUT_S = 120.0
_LOOK_S = 0.5


class Durability(Enum):
    """What a broker has done with a write when it sends the response."""

    PAGE_CACHE = "page cache"
    DURABLE = "durable"


class PeerUnavailable(RuntimeError):
    """A peer cannot run; the message says why and what to do about it."""


@dataclass
class Peer:
    """One broker under measurement: its address at each durability."""

    name: str
    bootstraps: dict[Durability, str]
    process_ids: dict[Durability, int]
    widest: int = 100_000
    """Maximum number of partitions of a topic of this peer."""
    offset_fetch_version: int = 8
    serves_data: bool = True
    balances_groups: bool = True
    """Whether it supports groups of the consumer protocol."""
    has_transactions: bool = True
    note: str = ""
    serves_share_groups: bool = True
    flushes: Durability | None = field(default=None, repr=False)
    """For a peer whose durability is a setting of the topic: the current one."""
    state_topics: list[str] = field(default_factory=lambda: [*STATE_TOPICS], repr=False)
    """The topics of its coordinators that exist, for the same."""

    def processor_s(self, durability: Durability) -> float:
        """Return the processor time that the broker has used so far, of all its threads."""
        try:
            stat = Path(f"/proc/{self.process_ids[durability]}/stat").read_text()
        except OSError:  # not Linux, or the broker has ended
            return math.nan
        # After the name in brackets, which may have any characters; fields 14 and 15: user and system time.
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def bootstrap(self, durability: Durability) -> str:
        """Return the address for that durability, after the switch to it."""
        if self.flushes is not None and self.flushes is not durability:
            every = "1" if durability is Durability.DURABLE else str(2**63 - 1)
            for topic in self.state_topics:
                set_topic_config(self.bootstraps[durability], topic, "flush.messages", every)
            self.flushes = durability
        return self.bootstraps[durability]


@contextmanager
def headgate() -> Iterator[Peer]:
    """Run two real servers, one at each durability."""
    with ExitStack() as stack:
        pairs = ((Durability.DURABLE, "sync"), (Durability.PAGE_CACHE, "page-cache"))
        run = {durability: stack.enter_context(_serve(name)) for durability, name in pairs}
        yield Peer(
            "headgate",
            {durability: address for durability, (address, _) in run.items()},
            {durability: process_id for durability, (_, process_id) in run.items()},
            note=build_text(),
        )


@contextmanager
def kafka() -> Iterator[Peer]:
    """Run Apache Kafka; durable means flush.messages=1 on the topic of the writes."""
    if problem := kafka_missing():
        raise PeerUnavailable(problem)
    with kafka_node() as node:
        # The first transactional id creates __transaction_state.
        Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "first"}).init_transactions()
        yield Peer(
            "kafka",
            dict.fromkeys(Durability, node.bootstrap),
            dict.fromkeys(Durability, node.process_id),
            flushes=Durability.PAGE_CACHE,
            note="Apache Kafka 4.3.1, JVM 1 GiB, G1",
        )


@contextmanager
def mock() -> Iterator[Peer]:
    """Run librdkafka's mock cluster, in memory only, with topics of four partitions."""
    command = [sys.executable, "-c", _MOCK, LOAD_TOPIC]
    with child(command, "listening ") as (address, process_id):
        yield Peer(
            "mock",
            {Durability.PAGE_CACHE: address},
            {Durability.PAGE_CACHE: process_id},
            widest=4,
            offset_fetch_version=6,
            serves_data=False,
            balances_groups=False,
            has_transactions=False,
            serves_share_groups=False,
            note="librdkafka's mock cluster: memory only; OffsetFetch in version 6",
        )


_MOCK = """
import sys
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
# Asking for a topic makes it.
broker = next(iter(producer.list_topics(sys.argv[1], timeout=10).brokers.values()))
print(f"listening {broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


def wait_until_at_rest(peers: list[Peer]) -> None:
    """Wait until all brokers together use less than a fifth of a processor. Raises PeerUnavailable.

    So compaction of the previous measure's data does not slow the next measure.
    """
    deadline = time.monotonic() + REST_TIMEOUT_S
    processes = {
        number: (peer, durability) for peer in peers for durability, number in peer.process_ids.items()
    }
    before = -math.inf
    while time.monotonic() < deadline:
        used_s = sum(peer.processor_s(durability) for peer, durability in processes.values())
        if (
            math.isnan(used_s) or used_s - before <= 0.2 * _LOOK_S
        ):  # do not wait where processor time is unknown
            return
        before = used_s
        time.sleep(_LOOK_S)
    names = ", ".join(peer.name for peer in peers)
    raise PeerUnavailable(f"not at rest within {REST_TIMEOUT_S:.0f} s: {names}")


PEERS = {"headgate": headgate, "kafka": kafka, "mock": mock}


def create_topic(bootstrap: str, name: str, partitions: int, config: dict[str, Any] | None = None) -> None:
    """Create a topic and wait until it exists. Raises PeerUnavailable."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, 1, config={key: str(value) for key, value in (config or {}).items()})
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        for future in admin.create_topics([topic]).values():
            future.result(timeout=START_TIMEOUT_S)
        while time.monotonic() < deadline:
            if len(admin.list_topics(name, timeout=5).topics[name].partitions) == partitions:
                return
            time.sleep(0.05)
    except KafkaException as error:
        raise PeerUnavailable(f"topic {name} at {bootstrap}: {error}") from error
    raise PeerUnavailable(f"topic {name} at {bootstrap} was not there within {START_TIMEOUT_S:.0f} s")


@contextmanager
def _serve(durability: str) -> Iterator[tuple[str, int]]:
    """Run `headgate serve` with that durability and defaults otherwise."""
    try:
        settings = {
            "headgate.durability": durability,
            "group.initial.rebalance.delay.ms": "0",
        }  # as for Kafka
        with run(settings, log_level="warning") as broker:
            assert broker.pid is not None
            yield broker.bootstrap_servers, broker.pid
    except BrokerFailed as error:
        raise PeerUnavailable(str(error)) from error


@contextmanager
def child(command: list[str], ready: str) -> Iterator[tuple[str, int]]:
    """Run a broker until the block ends; yield the address it prints after `ready`, and its process id."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        # A child that prints nothing is killed, which ends the read of its output too.
        watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            address = ""
            for line in process.stdout:
                if line.startswith(ready):
                    address = line.removeprefix(ready).strip()
                    break
            watchdog.cancel()
            if not address:
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-2000:].strip()
                raise PeerUnavailable(f"{' '.join(command[1:4])} did not start: {said or 'it said nothing'}")
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            yield address, process.pid
        finally:
            watchdog.cancel()
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_TIMEOUT_S)
            return
        except ProcessLookupError:
            process.wait(STOP_TIMEOUT_S)
            return
        except subprocess.TimeoutExpired:
            continue
