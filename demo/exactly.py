"""Flights are read, joined and written to a second topic exactly once, while broker and worker are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from rich.console import Console

from demo import children
from demo.broker import DemoBroker
from demo.report import Check
from demo.story import DIRECTORY, JOINED, JOINER, PARTITION_COUNT, DemoFailed
from headgate.admin import Admin, TopicPartition
from headgate.domain.ids import TopicName

_LOG = DIRECTORY / "joiner.log"
_WITHIN_S = 90.0


class Worker:
    """The process of `demo.joining`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return children.start([sys.executable, "-m", "demo.joining", self._address], _LOG)

    def wait_until(self, count: int) -> int:
        """Wait until this number of flights is committed as joined, and return the number that is."""
        deadline = time.monotonic() + _WITHIN_S
        with Admin(self._address) as admin:
            while (done := _committed(admin)) < count:
                if self._process.poll() is not None:
                    raise DemoFailed(f"the worker ended with code {self._process.returncode}; see {_LOG}")
                if time.monotonic() > deadline:
                    raise DemoFailed(f"only {done:,} of {count:,} flights were joined in time; see {_LOG}")
                time.sleep(0.05)
        return done

    def replace(self) -> None:
        """Kill the worker with SIGKILL in the middle of a transaction, and start another one."""
        deadline = time.monotonic() + _WITHIN_S
        with Admin(self._address) as admin:
            while not _has_open_records(admin):
                if time.monotonic() > deadline:
                    raise DemoFailed("the worker wrote no record in a transaction")
        children.kill(self._process)
        self._process = self._start()

    def stop(self) -> None:
        """Let the worker end."""
        children.stop(self._process)


def join_exactly_once(console: Console, broker: DemoBroker, total: int) -> None:
    """Join all flights; kill the broker after a third of them, and the worker after two thirds."""
    with console.status("a worker joins flights and airlines in transactions"):
        worker = Worker(broker.address)
        done = worker.wait_until(total // 3)
    broker.kill()
    took_s = broker.start()
    console.print(
        f"  [bold red]kill -9[/] of the broker after {done:,} flights; ready again in {took_s:.2f} s"
    )
    with console.status("the worker continues"):
        done = worker.wait_until(2 * total // 3)
    worker.replace()
    console.print(f"  [bold red]kill -9[/] of the worker after {done:,} flights; another one continues")
    with console.status("the new worker joins the rest"):
        worker.wait_until(total)
    worker.stop()


def judge_both_topics(found: dict[str, Any], total: int) -> list[Check]:
    """Check both topics: `found` is what Spark counted."""
    written, joined, flights = found["written"], found["joined"], found["joined_flights"]
    aborted = written - joined
    return [
        Check(
            joined == flights == total == found["read"],
            f"Spark counts {found['read']:,} flights in one topic and {joined:,} joined ones in the other, "
            + ("each once" if joined == flights else f"{joined - flights:,} of them more than once"),
        ),
        Check(
            aborted > 0,
            f"{aborted:,} more were written in a transaction that was aborted: no reader of committed "
            "records gets them",
        ),
    ]


def _has_open_records(admin: Admin) -> bool:
    """Return whether a partition has records of an open transaction."""
    places = [TopicPartition(TopicName(JOINED), partition) for partition in range(PARTITION_COUNT)]
    producers = admin.describe_producers(places).values()
    return any(one.current_transaction_start_offset is not None for each in producers for one in each)


def _committed(admin: Admin) -> int:
    return sum(each.offset for each in admin.committed_offsets(JOINER).values())
