"""kcat, the command-line client over librdkafka: it produces, reads and lists, and that is all."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from tests.compat.support.driver import ANSWER_TIMEOUT_S, Can, Driver, Received, Refused, Sent

KEY_MARK = "\x1f"


class Kcat(Driver):
    """kcat, one process for each call."""

    name = "kcat"
    can = frozenset({Can.IDEMPOTENCE, Can.ASSIGN, Can.OFFSETS_BY_TIME})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=10, check=False).stdout
        self.version = said.partition("Version ")[2].partition(" ")[0]

    def brokers(self) -> set[str]:
        return {broker["name"] for broker in json.loads(self._run("-L", "-J"))["brokers"]}

    def topics(self) -> set[str]:
        listed = json.loads(self._run("-L", "-J"))
        return {topic["topic"] for topic in listed["topics"]}

    def partition_count(self, topic: str) -> int:
        listed = json.loads(self._run("-L", "-J", "-t", topic))
        return len(listed["topics"][0]["partitions"])

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        # topic [partition] offset N
        return int(self._run("-Q", "-t", f"{topic}:{partition}:{timestamp_ms}").split()[-1])

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        """Writes run by run: kcat takes partition and headers for a whole run, and timestamps are its own."""
        for partition, headers in {(record.partition, record.headers): None for record in records}:
            same = [r for r in records if (r.partition, r.headers) == (partition, headers)]
            options = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-K", KEY_MARK, "-Z"]
            options += ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "acks=all"]
            for name, value in headers:
                options += ["-H", f"{name}={value}"]
            lines = "".join(f"{r.key or ''}{KEY_MARK}{r.value}\n" for r in same)
            self._run(*options, given=lines)

    def consume(self, topic: str, count: int) -> list[Received]:
        return self._read("-t", topic, "-o", "beginning", "-e", count=count)

    def read_from(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        place = ("-p", str(partition), "-o", str(offset))
        return self._read("-t", topic, *place, "-c", str(count), count=count)

    def values(self, topic: str, isolation_level: str) -> list[str]:
        """The values of all records that a reader of that isolation level gets."""
        options = ("-X", f"isolation.level={isolation_level}", "-o", "beginning", "-e")
        return self._run("-C", "-q", "-t", topic, *options).splitlines()

    def _read(self, *options: str, count: int) -> list[Received]:
        lines = self._run("-C", "-q", "-J", "-X", "fetch.wait.max.ms=200", *options).splitlines()
        return [_received(json.loads(line)) for line in lines][:count]

    def _run(self, *options: str, given: str | None = None) -> str:
        program = shutil.which("kcat")
        assert program is not None
        done = subprocess.run(
            [program, "-b", self.bootstrap, *options],
            input=given,
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT_S * 2,
            check=False,
        )
        if done.returncode:
            raise Refused(None, done.stderr.strip())
        return done.stdout


def _received(record: dict[str, Any]) -> Received:
    headers = record.get("headers") or []
    return Received(
        partition=record["partition"],
        offset=record["offset"],
        key=record["key"],
        value=record["payload"],
        timestamp_ms=record["ts"],
        headers=tuple(zip(headers[::2], headers[1::2], strict=True)),
    )
