"""Two brokers for the whole run: Apache Kafka, and a real Headgate server with the same settings.

Kafka comes from Maven Central (`make kafka`). Where it is neither there nor to be had, all of this is skipped
and says why. HEADGATE_DIFFERENTIAL_KAFKA=host:port names a Kafka that already runs: quicker, while scenarios
are written; `python -m tests.differential` starts one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench.kafka.broker import (
    BRIEF_JVM,
    KafkaUnavailable,
    kafka_missing,
    kafka_node,
    with_class_archive,
)
from bench.kafka.fetch import fetch
from tests.differential.script import Side

import headgate

HERE = Path(__file__).parent
KAFKA_VARIABLE = "HEADGATE_DIFFERENTIAL_KAFKA"
START_TIMEOUT_S = 300
TEST_TIMEOUT_S = 60

SETTINGS = {
    # One shard: what one group's coordinator knows of topics, every group's does.
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    # So that a target is made in the heartbeat that asks for it, and stories do not depend on the clock.
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    # So that locks and sessions end within a story.
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.max.size": "5",
    "group.max.size": "5",
    "group.consumer.max.size": "5",
}
KAFKA_ALONE = {
    "group.consumer.assignor.offload.enable": "false",
    # So that its files soon tell what is durable.
    "replica.high.watermark.checkpoint.interval.ms": "200",
}


@dataclass
class Run:
    """The two brokers, and what this run has seen."""

    kafka: Side
    headgate: Side
    tag: str = ""
    """What distinguishes this run's names from another's at a Kafka that both use."""
    played: set[str] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    """Which accepted differences were seen, by their places."""


LONG = frozenset({"test_retention.py", "test_scenarios.py"})
"""The modules that take minutes. They come first, so that no process ends long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here drives live brokers and is bounded in time; each module may wait for their start."""
    begun: set[Path] = set()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)
            if item.get_closest_marker("timeout") is None:  # one added here would hide that of its module
                item.add_marker(
                    pytest.mark.timeout(TEST_TIMEOUT_S if item.path in begun else START_TIMEOUT_S)
                )
            begun.add(item.path)
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Both brokers, ready."""
    with both_brokers(tmp_path_factory.mktemp("headgate") / "data") as run:
        yield run


@contextmanager
def both_brokers(directory: Path) -> Iterator[Run]:
    """Start both brokers, Headgate on this directory; fails at the end if Headgate's log has an error."""
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(1))
        starting = threads.submit(_kafka, stack)
        broker = stack.enter_context(headgate.run(SETTINGS, data_dir=directory, log_level="warning"))
        kafka = starting.result()
        tag = f"-{os.getpid()}" if KAFKA_VARIABLE in os.environ else ""
        yield Run(kafka, Side("headgate", broker.host, broker.port), tag)
        log = broker.log_path.read_text()
    complaints = [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]
    assert not complaints, f"the server complained:\n{log[-5000:]}"


def _kafka(stack: ExitStack) -> Side:
    address = os.environ.get(KAFKA_VARIABLE)
    return start_kafka(stack, SETTINGS) if address is None else _side(address)


def start_kafka(stack: ExitStack, settings: Mapping[str, str]) -> Side:
    """A Kafka with these settings, until the stack is closed; skips the test where none is to be had."""
    if kafka_missing() and shutil.which("java"):
        try:
            fetch()
        except SystemExit as why:
            pytest.skip(f"Apache Kafka is not here and cannot be fetched: {why}")
    if problem := kafka_missing():
        pytest.skip(problem)
    try:
        jvm = with_class_archive(BRIEF_JVM)
        return _side(stack.enter_context(kafka_node(settings={**settings, **KAFKA_ALONE}, jvm=jvm)).bootstrap)
    except KafkaUnavailable as why:
        pytest.fail(str(why))


def _side(address: str) -> Side:
    host, _, port = address.rpartition(":")
    return Side("kafka", host, int(port))
