"""One member of the group as a process: `python -m demo.members LIBRARY ADDRESS SIGHTINGS_FILE`.

It reads at a fixed rate, commits often, and fetches the offset after each acknowledged commit. It appends the
flights that it reads to a file, one int32 flight id each, and writes its actions to standard output (see
`journal`). On SIGTERM, or when its standard input closes, it leaves the group and ends.
"""

from __future__ import annotations

import array
import json
import select
import signal
import sys
import time
from typing import Any, BinaryIO

from demo.flights import flight_id
from demo.libraries import MEMBERS, Member, Seen, Subscription
from demo.story import COMMIT_INTERVAL_S, FLIGHTS_READ_PER_S, GROUP, TOPIC

POLL_TIMEOUT_S = 0.1
MOST_RECORDS_A_POLL = 400


class Reader:
    """The work of a member between joining and leaving."""

    def __init__(self, library: str, address: str, sightings: BinaryIO) -> None:
        self.sightings = sightings
        self.positions: dict[int, int] = {}
        self.count = 0
        self.member: Member = MEMBERS[library](
            Subscription(address, GROUP, TOPIC, client_id=library, on_assignment=self.assigned)
        )

    def assigned(self, partitions: list[int]) -> None:
        """Forget positions that are not committed: the next owner continues from the last commit."""
        self.positions.clear()
        say("assignment", partitions=partitions)

    def read_on(self) -> None:
        """Read some flights, and note them."""
        seen = self.member.poll(MOST_RECORDS_A_POLL, POLL_TIMEOUT_S)
        if seen:
            self.note(seen)

    def note(self, seen: list[Seen]) -> None:
        """Append the flights to the file of sightings, before a commit of them."""
        self.sightings.write(array.array("i", [flight_id(one.value) for one in seen]).tobytes())
        self.sightings.flush()
        self.positions.update({one.partition: one.offset + 1 for one in seen})
        self.count += len(seen)
        say("read", count=self.count)

    def commit(self) -> None:
        """Commit the positions; then check that the coordinator returns the same."""
        offsets = dict(self.positions)
        if not offsets:
            return
        self.member.commit(offsets)
        say("acknowledged", offsets=sorted(offsets.items()), at=time.monotonic())
        for partition, offset in offsets.items():
            if self.positions.get(partition) == offset:
                del self.positions[partition]
        asked_at = time.monotonic()
        fetched = self.member.committed(offsets)
        say("fetched", offsets=sorted(fetched.items()), asked_at=asked_at)


def say(kind: str, **entry: Any) -> None:
    """Print one line of the journal."""
    print(json.dumps({"kind": kind, **entry}), flush=True)


def main(library: str, address: str, sightings_file: str) -> None:
    """Read until the process is stopped."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    with open(sightings_file, "ab") as sightings:  # noqa: PTH123 - a plain binary file
        reader = Reader(library, address, sightings)
        next_commit = began = time.monotonic()
        allowed = 0.0
        while not told and not is_closed(sys.stdin):
            try:
                reader.read_on()
                if time.monotonic() >= next_commit:
                    reader.commit()
                    next_commit = time.monotonic() + COMMIT_INTERVAL_S
            except Exception as problem:  # any error of a library while the broker is down: try again
                say("refused", reason=f"{type(problem).__name__}: {problem}")
                time.sleep(0.2)
            now = time.monotonic()
            # A member that had to wait does not exceed its rate afterwards.
            allowed = min(allowed + (now - began) * FLIGHTS_READ_PER_S, reader.count + FLIGHTS_READ_PER_S / 4)
            began = now
            time.sleep(max(0.0, (reader.count - allowed) / FLIGHTS_READ_PER_S))
        reader.member.close()


def is_closed(stream: Any) -> bool:
    """Return whether the demo, which has the other end, has ended."""
    readable, _, _ = select.select([stream], [], [], 0)
    return bool(readable) and stream.read(1) == ""


if __name__ == "__main__":
    main(*sys.argv[1:])
