"""A Spark stream over all flights is rewound from the command line while it runs."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console

from demo import children
from demo.broker import DemoBroker
from demo.report import Check
from demo.shell import show_consumer_groups
from demo.story import DIRECTORY, GROUP, LAKE, REPORT, TOPIC, DemoFailed
from headgate.admin import Admin

REWOUND = 2
"""The partition that is rewound."""
BACK_BY = 10_000
"""Number of flights that are read again."""

_LOG = DIRECTORY / "lake.log"
_WITHIN_S = 120.0


class Lake:
    """The process of the stream. Spark starts while earlier chapters run."""

    def __init__(self, broker: DemoBroker) -> None:
        self._address = broker.address
        self._process = children.start([sys.executable, "-m", "demo.lake", broker.address], _LOG)
        self._watchdog = threading.Timer(3 * _WITHIN_S, children.kill, [self._process])
        self._watchdog.daemon = True
        self._watchdog.start()
        self.found: dict[str, Any] = {}
        """The summary of the files and topics, after the end."""

    def begin(self) -> None:
        """Wait until Spark is ready, and start the stream."""
        self._line()
        self._tell("go")

    def end(self) -> dict[str, Any]:
        """Stop the stream, and return the summary of its files and of the joined flights."""
        self._tell("stop")
        self.found = json.loads(self._line())
        self._watchdog.cancel()
        children.stop(self._process)
        return self.found

    def wait_until(self, holds: Callable[[dict[int, int]], bool], what: str) -> dict[int, int]:
        """Wait for a condition of the group's offsets, and return them."""
        deadline = time.monotonic() + _WITHIN_S
        with Admin(self._address) as admin:
            while not holds(at := _offsets(admin)):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise DemoFailed(f"the stream did not get so far: {what}; see {_LOG}")
                time.sleep(0.1)
        return at

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        raise DemoFailed(f"the stream ended; see {_LOG}")


def rewind_a_stream(console: Console, broker: DemoBroker, lake: Lake, total: int) -> list[Check]:
    """Start the stream, rewind one partition of it halfway, and wait for the last flight."""
    with console.status("a Spark stream reads the flights"):
        lake.begin()
        at = lake.wait_until(lambda at: at.get(REWOUND, 0) > BACK_BY, f"{BACK_BY:,} flights")
    show_consumer_groups(console, broker, ["--describe", "--group", LAKE])
    place = ["--group", LAKE, "--topic", f"{TOPIC}:{REWOUND}"]
    target = at[REWOUND] - BACK_BY
    show_consumer_groups(console, broker, ["--rewind", *place, "--to-offset", str(target), "--execute"])
    with console.status("the stream reads to the last flight"):
        lake.wait_until(lambda at: sum(at.values()) == total, "all flights")
    show_consumer_groups(console, broker, ["--describe", "--group", LAKE])
    with console.status("Spark counts what the stream wrote, and makes a report on all groups"):
        return judge(lake.end(), total, target)


def judge(found: dict[str, Any], total: int, target: int) -> list[Check]:
    """Check the stream's files: `found` is the summary of `demo.lake`."""
    again = found["again"]
    is_one_stretch = (
        [row["partition"] for row in again] == [REWOUND]
        and again[0]["first"] == target
        and again[0]["last"] - target + 1 == again[0]["count"] >= BACK_BY
    )
    count = sum(row["count"] for row in again)
    return [
        Check(found["flights"] == total, f"the stream wrote all {total:,} flights"),
        Check(
            is_one_stretch and found["rows"] == total + count,
            f"the {count:,} flights from the new offset on came twice; nothing else did",
        ),
        Check(found["same_epoch"] == 0, "the second time in a higher epoch"),
        Check(
            {GROUP, LAKE} <= set(found["reported"]),
            f"{REPORT.name} tells of all {len(found['reported'])} groups",
        ),
    ]


def _offsets(admin: Admin) -> dict[int, int]:
    return {where.partition: each.offset for where, each in admin.committed_offsets(LAKE).items()}
