"""kcat as a member of a group: the balanced consumer of its -G mode."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.support.driver import ALL_CODECS, Driver, Sent
from tests.compat.support.members import SESSION_TIMEOUT_MS, Join
from tests.waiting import wait_until

from headgate.log.header import read_header

ALL = [0, 1, 2, 3]


class BalancedKcat:
    """`kcat -G`, and what its output says about assignments and records."""

    def __init__(self, bootstrap: str, topic: str, group: str, directory: Path) -> None:
        self._records, self._events = directory / "records", directory / "events"
        command = ["kcat", "-b", bootstrap, "-u", "-J", "-o", "beginning"]
        command += ["-X", f"session.timeout.ms={SESSION_TIMEOUT_MS}", "-X", "heartbeat.interval.ms=500"]
        command += ["-X", "partition.assignment.strategy=range", "-X", "fetch.wait.max.ms=200"]
        command += ["-X", "auto.offset.reset=earliest", "-G", group, topic]
        with self._records.open("wb") as records, self._events.open("wb") as events:
            self.process = subprocess.Popen(command, stdout=records, stderr=events, start_new_session=True)

    def partitions(self) -> list[int]:
        """What it was last assigned."""
        said = self._events.read_text().splitlines()
        assignments = [line for line in said if "rebalanced" in line]
        if not assignments:
            return []
        _before, _colon, assigned = assignments[-1].partition("assigned:")
        return sorted(int(number) for number in re.findall(r"\[(\d+)\]", assigned))

    def values(self) -> list[str]:
        """The records it has read."""
        whole_lines, _newline, _rest = self._records.read_text().rpartition("\n")
        return [json.loads(line)["payload"] for line in whole_lines.splitlines()]


@pytest.fixture
def kcat(bootstrap: str, name: str, tmp_path: Path, admin: Driver) -> Iterator[BalancedKcat]:
    """kcat in the test's group, reading the test's topic of four partitions."""
    admin.create_topic(name, len(ALL))
    balanced = BalancedKcat(bootstrap, name, name, tmp_path)
    yield balanced
    if balanced.process.poll() is None:
        os.killpg(balanced.process.pid, signal.SIGKILL)
        balanced.process.wait(10)


def test_kcat_shares_a_group_and_leaves_it(kcat: BalancedKcat, admin: Driver, join: Join, name: str) -> None:
    """kcat has everything, shares with another library, and gives its part back when it is interrupted."""
    wait_until(lambda: kcat.partitions() == ALL, "kcat has every partition")
    other = join("kafka-python", name, name)
    wait_until(lambda: other.partitions and sorted(kcat.partitions() + other.partitions) == ALL, "they share")
    values = [f"{partition}-{number}" for partition in ALL for number in range(10)]
    admin.produce(name, [Sent(value=value, partition=int(value[0])) for value in values])
    wait_until(lambda: sorted(kcat.values() + other.values()) == sorted(values), "each record is read once")
    assert len(kcat.values()) == 20
    left_at = time.monotonic()
    kcat.process.send_signal(signal.SIGINT)
    other.wait_until_it_owns(ALL)
    assert time.monotonic() - left_at < SESSION_TIMEOUT_MS / 1000
    assert kcat.process.wait(10) == 0
    # It committed when it left, so nothing of its part is read again.
    time.sleep(0.5)
    assert len(other.values()) == 20


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_is_to_be_compressed_arrives_compressed(
    codec: str, admin: Driver, bootstrap: str, server_directory: Path | None, name: str
) -> None:
    """librdkafka sends it as it is, and says nothing, to a broker that it thinks cannot read it."""
    if server_directory is None:
        pytest.skip("the broker is not ours: where its files lie is not known")
    admin.create_topic(name)
    lines = "".join(f"the same again and again {number}\n" for number in range(100))
    command = ["kcat", "-P", "-b", bootstrap, "-t", name, "-z", codec]
    subprocess.run(command, input=lines, text=True, timeout=20, check=True)
    (segment,) = server_directory.rglob(f"{name}-0/*.log")
    assert read_header(segment.read_bytes()).codec == ALL_CODECS.index(codec)
