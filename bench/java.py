"""Measures with the tools of Apache Kafka: Java's producer and consumer, against any broker."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from bench.data import PARTITIONS, RECORD_BYTES
from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.kafka.broker import KafkaUnavailable, java_command
from bench.peers import Durability, Peer, create_topic

TOOL_TIMEOUT_S = 300.0
TOOL_JVM = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
"""The options that Kafka's own start scripts set for its tools."""
LATENCY_RECORDS = 10_000
QUICK_LATENCY_RECORDS = 500
_TOPICS = (f"java-{number:03}" for number in count())
_PRODUCED = re.compile(r"^\d+ records sent, ([\d.]+) records/sec", re.MULTILINE)
_LATENCY = re.compile(r"99th = (\d+), 99\.9th = (\d+)")
_FETCHED_PER_S = -1
"""The last column of ConsumerPerformance: records per second, without the time to join its group."""


class JavaMeasured(Measured):
    """The common part of measures with Kafka's tools."""

    __slots__ = ()

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.serves_data and durability in peer.bootstraps


@dataclass(frozen=True, slots=True)
class ProducerPerformance(JavaMeasured):
    """Records of 100 bytes per second that Java's producer sends, with acks=all."""

    name: str = "java-produce"
    title: str = "ProducerPerformance, 100-byte records, acks=all"
    durabilities: tuple[Durability, ...] = (Durability.PAGE_CACHE, Durability.DURABLE)
    unit: str = "records/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        topic = _new_topic(peer, durability)
        before_s = peer.processor_s(durability)
        said = _produce(peer.bootstraps[durability], topic, effort.records)
        used_s = peer.processor_s(durability) - before_s
        found = _PRODUCED.findall(said)
        if not found:
            raise MeasureFailed(f"ProducerPerformance tells no rate: {said[-500:]}")
        return Figure(float(found[-1]), used_s / effort.records * 1e6)


@dataclass(frozen=True, slots=True)
class ConsumerPerformance(JavaMeasured):
    """Records of 100 bytes per second that Java's consumer fetches."""

    name: str = "java-consume"
    title: str = "ConsumerPerformance, 100-byte records"
    durabilities: tuple[Durability, ...] = (Durability.PAGE_CACHE,)
    unit: str = "records/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        bootstrap, topic = peer.bootstraps[durability], _new_topic(peer, durability)
        _produce(bootstrap, topic, effort.records)
        before_s = peer.processor_s(durability)
        options = {"--bootstrap-server": bootstrap, "--topic": topic, "--num-records": str(effort.records)}
        said = kafka_tool("ConsumerPerformance", options, "--hide-header", "--timeout", "60000")
        used_s = peer.processor_s(durability) - before_s
        columns = said.strip().splitlines()[-1].split(", ")
        try:
            return Figure(float(columns[_FETCHED_PER_S]), used_s / effort.records * 1e6)
        except ValueError:
            raise MeasureFailed(f"ConsumerPerformance tells no rate: {said[-500:]}") from None


@dataclass(frozen=True, slots=True)
class EndToEndLatency(JavaMeasured):
    """Latency of single records from Java's producer to Java's consumer, one after another: p99.9."""

    name: str = "java-latency"
    title: str = "EndToEndLatency, p99.9 of one 100-byte record"
    durabilities: tuple[Durability, ...] = (Durability.PAGE_CACHE, Durability.DURABLE)
    unit: str = "ms"
    is_cost: ClassVar[bool] = True

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        topic = _new_topic(peer, durability, partitions=1)
        records = min(LATENCY_RECORDS, effort.records // (200_000 // QUICK_LATENCY_RECORDS))
        options = {
            "--bootstrap-server": peer.bootstraps[durability],
            "--topic": topic,
            "--num-records": str(records),
            "--producer-acks": "all",
            "--record-size": str(RECORD_BYTES),
        }
        said = kafka_tool("EndToEndLatency", options)
        found = _LATENCY.search(said)
        if found is None:
            raise MeasureFailed(f"EndToEndLatency tells no latency: {said[-500:]}")
        # The tool prints whole milliseconds: a p99.9 of 0 is less than one.
        return Figure(max(float(found[2]), 0.5), p99_ms=float(found[1]))


JavaMeasure = ProducerPerformance | ConsumerPerformance | EndToEndLatency
JAVA_MEASURES: tuple[JavaMeasure, ...] = (ProducerPerformance(), ConsumerPerformance(), EndToEndLatency())


def _new_topic(peer: Peer, durability: Durability, partitions: int = PARTITIONS) -> str:
    topic = next(_TOPICS)
    flushes = peer.flushes is not None and durability is Durability.DURABLE
    create_topic(peer.bootstraps[durability], topic, partitions, {"flush.messages": 1} if flushes else None)
    return topic


def _produce(bootstrap: str, topic: str, records: int) -> str:
    options = {
        "--bootstrap-server": bootstrap,
        "--topic": topic,
        "--num-records": str(records),
        "--record-size": str(RECORD_BYTES),
        "--throughput": "-1",
    }
    return kafka_tool("ProducerPerformance", options, "--command-property", "acks=all")


def kafka_tool(name: str, options: Mapping[str, str], *more: str) -> str:
    """Return the output of one of Kafka's tools. Raises MeasureFailed."""
    words = [word for option in options.items() for word in option] + [*more]
    try:
        command = java_command(f"org.apache.kafka.tools.{name}", *words, jvm=TOOL_JVM)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    except KafkaUnavailable as error:
        raise MeasureFailed(str(error)) from error
    except subprocess.TimeoutExpired:
        raise MeasureFailed(f"{name} did not end within {TOOL_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise MeasureFailed(said[-500:] or f"{name} ended with status {done.returncode}")
    return done.stdout
