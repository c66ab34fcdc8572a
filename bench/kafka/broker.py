"""One Apache Kafka node on this machine, for the duration of a `with` block.

    with kafka_broker() as bootstrap:
        ...  # "127.0.0.1:43567"

`kafka_node` also gives the process id.

The node has its own data directory and two ports. It answers group requests when the block is entered; its
processes and files are removed when it is left. `java_command` runs one of Kafka's command-line tools.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.paths import KAFKA_LIBS

FORMAT_TIMEOUT_S = 60
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 20
OFFSETS_TOPIC_PARTITIONS = 8

# Kafka's own start scripts set 1 GB and G1 for a broker.
BROKER_JVM = ("-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-Djava.awt.headless=true")
# Half of the processor time of G1 and full compilation, in the minute or two of a test.
BRIEF_JVM = ("-Xmx1G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
TOOL_JVM = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLASS_ARCHIVE = KAFKA_LIBS / "classes.jsa"
"""Classes of a node, ready for JVMs that are not measured; `bench.kafka.classes` writes it."""

LOG_LEVELS = """\
<Configuration status="WARN">
  <Appenders><Console name="out" target="SYSTEM_OUT">
    <PatternLayout pattern="%d{HH:mm:ss.SSS} %p %c{1} %m%n"/>
  </Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class KafkaUnavailable(RuntimeError):
    """Apache Kafka cannot run here; the message says what to do about it."""


def kafka_missing() -> str | None:
    """Return why Apache Kafka cannot run here, and what to do; None if it can."""
    if shutil.which("java") is None:
        return "Apache Kafka needs Java 17 or later (Debian: apt-get install openjdk-17-jre-headless)"
    if not any(KAFKA_LIBS.glob("kafka_2.13-*.jar")):
        return f"Apache Kafka is not in {KAFKA_LIBS}: run make kafka"
    return None


def java_command(main_class: str, *arguments: str, jvm: tuple[str, ...] | None = None) -> list[str]:
    """Return the command that runs one of Kafka's classes, as a tool by default. Raises KafkaUnavailable."""
    if problem := kafka_missing():
        raise KafkaUnavailable(problem)
    options = with_class_archive(TOOL_JVM) if jvm is None else jvm
    return ["java", *options, "-cp", f"{KAFKA_LIBS}/*", main_class, *arguments]


def with_class_archive(jvm: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options with the archive of classes, if there is one; a JVM that cannot use it goes without.

    The class path of such a JVM begins with Kafka's jars. What it says of archives would be in its output.
    """
    archive = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", "-Xlog:disable") if CLASS_ARCHIVE.exists() else ()
    return (*jvm, *archive)


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """A running node."""

    bootstrap: str
    process_id: int


@contextmanager
def kafka_broker(*, flush_every_message: bool = False) -> Iterator[str]:
    """Run a node; yield its `host:port`. See `kafka_node`."""
    with kafka_node(flush_every_message=flush_every_message) as node:
        yield node.bootstrap


@contextmanager
def kafka_node(
    *,
    flush_every_message: bool = False,
    settings: Mapping[str, str] | None = None,
    keep_log: Path | None = None,
    home: Path | None = None,
    more_listeners: Mapping[str, int] | None = None,
    jvm: tuple[str, ...] = BROKER_JVM,
) -> Iterator[KafkaNode]:
    """Run a node.

    With `flush_every_message` it syncs each append to the group offsets before it answers, as Headgate does
    by default. `settings` are added to server.properties. The node's own log is copied to `keep_log`. With
    `home` its files are in that directory, which is used again if it was used before, and is kept; its data
    are in `home/data`. `more_listeners` are names with ports, whose protocol is in `settings`. `jvm` are the
    options of its JVM.
    """
    if problem := kafka_missing():
        raise KafkaUnavailable(problem)
    directory = home or Path(tempfile.mkdtemp(prefix="headgate-kafka-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        port, controller_port = free_ports(2)
        properties = _properties(directory / "data", port, controller_port, more_listeners or {})
        properties |= settings or {}
        _write(directory, properties)
        if not (directory / "data" / "meta.properties").exists():
            _format(directory)
        process = _start(directory, jvm)
        bootstrap = f"127.0.0.1:{port}"
        _wait_until_groups_are_answered(bootstrap, process, directory / "kafka.log")
        if flush_every_message:
            set_topic_config(bootstrap, "__consumer_offsets", "flush.messages", "1")
        yield KafkaNode(bootstrap, process.pid)
    finally:
        if process is not None:
            _stop(process)
        if keep_log is not None and (directory / "kafka.log").exists():
            shutil.copyfile(directory / "kafka.log", keep_log)
        if home is None:
            shutil.rmtree(directory, ignore_errors=True)


def set_topic_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Set one of a topic's settings."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(
        _client_config(bootstrap)
    )  # a variable is needed: futures of a deleted client are lost
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=10)


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _properties(
    data: Path, port: int, controller_port: int, more_listeners: Mapping[str, int]
) -> dict[str, str]:
    ports = {"PLAINTEXT": port, "CONTROLLER": controller_port, **more_listeners}
    listeners = ",".join(f"{name}://127.0.0.1:{number}" for name, number in ports.items())
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.num.partitions": str(OFFSETS_TOPIC_PARTITIONS),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _write(directory: Path, properties: Mapping[str, str]) -> None:
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    (directory / "server.properties").write_text(lines)
    (directory / "log4j2.xml").write_text(LOG_LEVELS)


def _format(directory: Path) -> None:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # One word, because an id may start with a hyphen.
    cluster = f"--cluster-id={cluster_id}"
    arguments = ("format", "--standalone", cluster, "-c", str(directory / "server.properties"))
    done = subprocess.run(
        java_command("kafka.tools.StorageTool", *arguments),
        capture_output=True,
        timeout=FORMAT_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise KafkaUnavailable(f"Kafka's format failed: {(done.stdout + done.stderr).decode()[-2000:]}")


def _start(directory: Path, jvm: tuple[str, ...] = BROKER_JVM) -> subprocess.Popen[bytes]:
    options = (*jvm, f"-Dlog4j2.configurationFile={directory / 'log4j2.xml'}")
    command = java_command("kafka.Kafka", str(directory / "server.properties"), jvm=options)
    with (directory / "kafka.log").open("wb") as log:
        # A session of its own, so that the whole process group can be killed.
        return subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )


def _wait_until_groups_are_answered(bootstrap: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Fetch a group's offsets until it succeeds: the first request creates __consumer_offsets."""
    deadline = time.monotonic() + START_TIMEOUT_S
    _wait_until_it_listens(bootstrap, process, log, deadline)
    # A consumer, not an admin client: librdkafka 2.16.0's admin client crashes when a coordinator answers a
    # fetch of a group's offsets with COORDINATOR_LOAD_IN_PROGRESS.
    consumer = Consumer(_client_config(bootstrap) | {"group.id": "headgate-is-anybody-there"})
    try:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                consumer.committed([TopicPartition("headgate-is-anybody-there", 0)], timeout=5)
                return
            except KafkaException:
                time.sleep(0.2)
    finally:
        consumer.close()
    raise KafkaUnavailable(f"Kafka did not answer within {START_TIMEOUT_S} s: {_tail(log)}")


def _wait_until_it_listens(
    bootstrap: str, process: subprocess.Popen[bytes], log: Path, deadline: float
) -> None:
    host, port = bootstrap.split(":")
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise KafkaUnavailable(f"Kafka did not start: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else "it left no log"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the node and all its processes at once, because its data is deleted."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_TIMEOUT_S)
            break
        except subprocess.TimeoutExpired:
            continue


def _client_config(bootstrap: str) -> dict[str, str | int | float | bool]:
    # log_level 0: hide connection errors while the node starts.
    return {"bootstrap.servers": bootstrap, "log_level": 0}
