"""Assignments of groups by Headgate's assignors and by Kafka's own classes.

`AssignorRun.java` calls Kafka's classes from the jars that `make kafka` downloads; it is compiled on first
use. Both sides repeat one assignment for some seconds in one thread, after a warm-up of the same length; the
result is the median of the processor time.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.kafka.broker import KafkaUnavailable, kafka_missing
from bench.paths import BUILD, KAFKA_LIBS
from headgate.core.assignors import ASSIGNORS
from headgate.core.assignors.contract import (
    AssignablePartitions,
    Assignment,
    GroupSpec,
    MemberSubscription,
)
from headgate.domain.ids import MemberId, TopicId

SOURCE = Path(__file__).with_name("AssignorRun.java")
CLASSES = BUILD / "assigning"
# As for a broker: Kafka's own start script sets 1 GB.
JVM = ("-Xms1G", "-Xmx1G", "-XX:+UseSerialGC")
RUN_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The assignment of an assignor, and its cost."""

    seconds: float
    """Median of the processor time of one assignment."""
    targets: Mapping[MemberId, Assignment]


def group_of(members: int, topics: int, partitions: int) -> GroupSpec:
    """Return a new group whose members all subscribe to all topics, with evenly distributed partitions."""
    each = AssignablePartitions(partitions // topics)
    assignable = {TopicId(n.to_bytes(16, "big")): each for n in range(topics)}
    everything = frozenset(assignable)
    return GroupSpec(
        members={MemberId(f"member-{n:06}"): MemberSubscription(topics=everything) for n in range(members)},
        assignable=assignable,
    )


def one_joins(spec: GroupSpec, assignor: str) -> GroupSpec:
    """Return the group with an assignment of all members but the last one, which is new."""
    *settled, newest = sorted(spec.members)
    before = GroupSpec(
        members={member_id: spec.members[member_id] for member_id in settled},
        assignable=spec.assignable,
    )
    targets = ASSIGNORS[assignor](before)
    members = {
        member_id: MemberSubscription(topics=spec.members[member_id].topics, current=targets[member_id])
        for member_id in settled
    }
    return GroupSpec(members={**members, newest: spec.members[newest]}, assignable=spec.assignable)


def assign(spec: GroupSpec, assignor: str, seconds: float) -> Decision:
    """Run Headgate's assignor in this process."""
    times = []
    end = time.monotonic() + seconds
    while True:
        before = time.thread_time()
        targets = ASSIGNORS[assignor](spec)
        times.append(time.thread_time() - before)
        if time.monotonic() >= end:
            return Decision(median(times[len(times) // 2 :]), targets)


def kafka_assign(specs: Iterable[GroupSpec], assignor: str, seconds: float = 0) -> list[Decision]:
    """Run Kafka's assignor over one group after another in one JVM. Raises KafkaUnavailable.

    All subscribed topics must exist: Kafka resolves subscriptions before it assigns.
    """
    specs = list(specs)
    command = ["java", *JVM, "-cp", f"{CLASSES}:{KAFKA_LIBS}/*", "AssignorRun", assignor, str(seconds)]
    _compile()
    numbers = [sorted(spec.assignable) for spec in specs]
    asked = "".join(_lines(spec, topics) for spec, topics in zip(specs, numbers, strict=True))
    done = subprocess.run(
        command, input=asked, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise KafkaUnavailable(f"Kafka's {assignor} assignor failed: {done.stderr.strip()[-500:]}")
    answers = done.stdout.split("done\n")[:-1]
    return [_decision(answer, topics) for answer, topics in zip(answers, numbers, strict=True)]


def _compile() -> None:
    if problem := kafka_missing():
        raise KafkaUnavailable(problem)
    if shutil.which("javac") is None:
        raise KafkaUnavailable("a JDK is needed to call Kafka's classes (Debian: openjdk-17-jdk-headless)")
    compiled = CLASSES / "AssignorRun.class"
    if compiled.exists() and compiled.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    CLASSES.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-cp", f"{KAFKA_LIBS}/*", "-d", str(CLASSES), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise KafkaUnavailable(f"{SOURCE.name} does not compile: {done.stderr.strip()[-500:]}")


def _lines(spec: GroupSpec, topics: list[TopicId]) -> str:
    """Return a group in the input format of AssignorRun; topics by their index in the list."""
    number = {topic: n for n, topic in enumerate(topics)}
    lines = [f"topic\t{number[topic]}\t{len(each)}" for topic, each in spec.assignable.items()]
    for member_id, one in spec.members.items():
        subscribed = ",".join(str(number[topic]) for topic in one.topics)
        current = ",".join(
            f"{number[topic]}:{partition}"
            for topic, partitions in one.current.items()
            for partition in partitions
        )
        lines.append(f"member\t{member_id}\t{one.instance_id or ''}\t{subscribed}\t{current}")
    return "\n".join([*lines, "go", ""])


def _decision(answer: str, topics: list[TopicId]) -> Decision:
    seconds = 0.0
    targets: dict[MemberId, dict[TopicId, tuple[int, ...]]] = {}
    for line in answer.splitlines():
        kind, value, *rest = line.split("\t")
        if kind == "time":
            seconds = int(value) / 1e9
            continue
        target = targets.setdefault(MemberId(value), {})
        for where in filter(None, rest[0].split(",")):
            number, partition = map(int, where.split(":"))
            target[topics[number]] = (*target.get(topics[number], ()), partition)
    return Decision(seconds, targets)
