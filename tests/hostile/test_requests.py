"""Well-formed requests with extreme values, against a real server, beside ordinary clients.

Every request gets a valid response or closes its own connection. Meanwhile the neighbours' commits, fetches,
joins and produces are correct and fast, the server's memory is limited, its log has no internal errors, and
acknowledged data exists after a kill.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from pathlib import Path

import pytest
from tests.hostile.generator import TOPICS, HostileRequest, HostileRequests, response_type_of
from tests.hostile.neighbours import Neighbour, create_topic, neighbours

from headgate.broker import Broker, run
from headgate.client.connection import Connection
from headgate.client.errors import BadResponse, ClientError, ConnectionFailed, RequestTimedOut
from headgate.wire.errors import UnwritableMessage
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ATTACKERS = 3
ANSWER_S = 0.5
"""Long polls and rebalances may take longer; then the connection is closed."""
PROMPT_S = 5.0
"""Maximum latency of a neighbour's request, on a machine with load on all processors."""
MOST_MEMORY_BYTES = 700 << 20
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.check.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "auto.create.topics.enable": "false",
    "group.max.session.timeout.ms": "60000",
}
pytestmark = pytest.mark.timeout(0)


class Attacker(threading.Thread):
    """Sends one hostile request after another, on a new connection whenever it lost the last."""

    def __init__(self, port: int, requests: HostileRequests, until: float) -> None:
        super().__init__()
        self._port = port
        self._requests = requests
        self._until = until
        self.counts: Counter[str] = Counter()
        self.last: deque[HostileRequest] = deque(maxlen=8)
        self.problems: list[str] = []

    def run(self) -> None:
        connection: Connection | None = None
        while time.monotonic() < self._until and len(self.problems) < 3:
            try:
                connection = connection or Connection("127.0.0.1", self._port, ANSWER_S, "hostile")
            except RequestTimedOut:
                continue  # the neighbours detect whether the server is too slow
            except ConnectionFailed as failed:
                self.problems.append(f"the server takes no connection: {failed}\n{self._told()}")
                return
            if not self._ask(connection, self._requests.next()):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _ask(self, connection: Connection, request: HostileRequest) -> bool:
        """Return whether the connection can be used again."""
        self.last.append(request)
        try:
            answer = connection.request(request.message, request.version)
        except UnwritableMessage:
            self.counts["cannot be written"] += 1
            return connection.is_open
        except RequestTimedOut:
            self.counts["not answered yet"] += 1
            return False
        except BadResponse as problem:
            self.problems.append(f"{problem}\n{request}")
            return False
        except ClientError:
            self.counts["connection closed"] += 1
            return False
        assert isinstance(answer, response_type_of(request.message))
        self.counts["answered"] += 1
        self._requests.learn(answer)
        return True

    def _told(self) -> str:
        return "\n".join(map(str, self.last))


def topic_ids(port: int) -> list[bytes]:
    """Return the ids of the topics in hostile requests."""
    with Connection("127.0.0.1", port, 10, "hostile") as connection:
        wanted = [MetadataRequestTopic(name=name) for name in TOPICS]
        return [topic.topic_id for topic in connection.request(MetadataRequest(topics=wanted)).topics]


def memory_bytes(broker: Broker) -> int:
    """Return the peak resident memory of the server."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def test_neighbours_do_not_notice(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """For requests of any API and version: other clients are served correctly and without delay."""
    seconds: float = pytestconfig.getoption("hostile_seconds")
    seed: int = pytestconfig.getoption("hostile_seed")
    with run(SETTINGS, data_dir=tmp_path / "data") as broker:
        for name in TOPICS:
            create_topic(broker.port, name)
        ids = topic_ids(broker.port)
        with neighbours(broker.port) as others:
            until = time.monotonic() + seconds
            attackers = [
                Attacker(broker.port, HostileRequests(seed * 1000 + number, ids), until)
                for number in range(ATTACKERS)
            ]
            for attacker in attackers:
                attacker.start()
            for attacker in attackers:
                attacker.join()
        counts = sum((attacker.counts for attacker in attackers), Counter[str]())
        report = f"seed {seed}: {dict(counts)}; " + ", ".join(map(_told, others))
        print(report)
        problems = [problem for attacker in attackers for problem in attacker.problems]
        problems += [f"{other.name}: {problem}" for other in others for problem in other.problems]
        problems += [f"late: {_told(other)}" for other in others if other.slowest_s > PROMPT_S]
        log = broker.log_path.read_text()
        assert not problems, "\n".join([report, *problems, *_failures(log)])
        assert not _failures(log), "\n".join([report, *_failures(log)])
        assert counts["answered"] > seconds, report
        assert memory_bytes(broker) < MOST_MEMORY_BYTES, report
        broker.kill()
        broker.start()
        assert "cannot be used" not in broker.log_path.read_text()[len(log) :]


def _told(neighbour: Neighbour) -> str:
    return (
        f"{neighbour.name} {neighbour.steps} steps, {neighbour.slowest_s:.2f} s ({neighbour.slowest_request})"
    )


def _failures(log: str) -> list[str]:
    """Return the internal errors in the server's log."""
    lines = log.splitlines()
    found = []
    for number, line in enumerate(lines):
        if any(sign in line for sign in ("Traceback", "unexpected failure", "assert")):
            found += lines[max(0, number - 2) : number + 25]
    return found[:150]
