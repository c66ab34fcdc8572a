"""Pause the flights of one airport, reset it, and resume it, while the other two continue (KIP-1249).

A partition for each airport; two members of confluent-kafka, which do not know about pauses. A record's time
is that of the departure: a day of January takes a second of the demo.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from confluent_kafka import Consumer, Producer
from rich.console import Console

from demo.broker import DemoBroker
from demo.flights import Flight
from demo.held_chart import draw
from demo.report import Check
from demo.shell import show_consumer_groups
from demo.story import DIRECTORY, DemoFailed

AIRPORTS = ("EWR", "JFK", "LGA")
HELD = AIRPORTS.index("JFK")
DEPARTURES = "airports"
BOARDS = "departure-boards"
JANUARY = 27_004
"""Number of flights: the first month of the file."""
FLOW_S, HOLD_S = 4.0, 4.0
REWOUND_DAYS = 3
_DAY_S = 86_400
_WITHIN_S = 30.0
_LONGEST_GAP_S = 2.0
"""Maximum time between reads of the other airports; the heartbeat interval is half a second."""


class Sighting(NamedTuple):
    """A flight that a member read: the time (seconds, monotonic), and its position."""

    at: float
    partition: int
    offset: int


class Board(threading.Thread):
    """A member that displays flights: it reads and commits every fifth of a second."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.seen: list[Sighting] = []
        self.problem: Exception | None = None
        self._is_leaving = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": BOARDS,
                "group.protocol": "consumer",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Read until `leave`."""
        try:
            self._consumer.subscribe([DEPARTURES])
            while not self._is_leaving.is_set():
                for message in self._consumer.consume(500, 0.1):
                    partition, offset = message.partition(), message.offset()
                    if message.error() is None and partition is not None and offset is not None:
                        self.seen.append(Sighting(time.monotonic(), partition, offset))
        except Exception as problem:  # reported to the main thread, which ends the demo
            self.problem = problem
        finally:
            self._consumer.close()

    def leave(self) -> None:
        """Leave the group, and wait until the thread has ended."""
        self._is_leaving.set()
        self.join()


def hold_an_airport_back(console: Console, broker: DemoBroker, flights: list[Flight]) -> list[Check]:
    """Pause JFK, reset it by some days, and resume it; draw what the boards displayed meanwhile."""
    boards = [Board(broker.address, f"board-{number}") for number in (1, 2)]
    with _departing(broker.address, flights) as clock:
        for board in boards:
            board.start()
        with console.status("departures of three airports flow to two boards"):
            _wait_until_all_are_seen(boards)
            time.sleep(FLOW_S)
        back_to_s = clock.now_s - REWOUND_DAYS * _DAY_S
        place = ["--group", BOARDS, "--topic", f"{DEPARTURES}:{HELD}"]
        show_consumer_groups(console, broker, ["--pause", *place, "--reason", "the boards at JFK were wrong"])
        released_at = time.monotonic()
        time.sleep(HOLD_S)
        show_consumer_groups(console, broker, ["--describe", "--group", BOARDS])
        back_to = datetime.fromtimestamp(back_to_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        move = ["--reset-offsets", *place, "--to-datetime", back_to, "--execute"]
        new_offset = int(show_consumer_groups(console, broker, move).split()[-1])
        resumed_at = time.monotonic()
        show_consumer_groups(console, broker, ["--resume", *place])
        with console.status("JFK reads again, and catches up"):
            time.sleep(FLOW_S)
    with console.status("the boards read to the end"):
        _wait_until_read(boards, clock.produced)
        for board in boards:
            board.leave()
    seen = sorted(sighting for board in boards for sighting in board.seen)
    picture = DIRECTORY / "held.png"
    draw(seen, AIRPORTS, HELD, released_at, resumed_at, picture)
    console.print(f"\n  the picture: [bold]{picture}[/]")
    return judge(seen, clock.produced, new_offset, released_at, resumed_at)


def judge(
    seen: list[Sighting], produced: dict[int, int], new_offset: int, released_at: float, resumed_at: float
) -> list[Check]:
    """Check the sightings, in the order of time, against what was produced and what was reset."""
    gap_s = max(
        after.at - before.at
        for partition in produced
        if partition != HELD
        for before, after in itertools.pairwise(one for one in seen if one.partition == partition)
    )
    held = [one for one in seen if one.partition == HELD]
    while_held = sum(released_at < one.at < resumed_at for one in held)
    before = [one.offset for one in held if one.at < resumed_at]
    rewound = set(range(new_offset, max(before) + 1))
    twice = len(held) - len({one.offset for one in held})
    expected = {(partition, offset) for partition, count in produced.items() for offset in range(count)}
    return [
        Check(while_held == 0, "while JFK was paused no flight of it was read"),
        Check(gap_s < _LONGEST_GAP_S, f"the other two were read on, with no gap longer than {gap_s:.1f} s"),
        Check(
            twice == len(rewound) > 0 and {one[1:] for one in seen} == expected,
            f"the {len(rewound):,} flights of JFK that were set back came again, once; nothing else did, and "
            "nothing is missing",
        ),
    ]


class _Clock:
    """The time of departures, and the number of produced ones."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.produced = dict.fromkeys(range(len(AIRPORTS)), 0)


@contextmanager
def _departing(address: str, flights: list[Flight]) -> Iterator[_Clock]:
    """Produce departures in the order of their time, in a thread, until the block ends."""
    clock, is_over = _Clock(), threading.Event()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "log_level": 2})

    def produce() -> None:
        departures = _in_order(flights)
        began, first_s = time.monotonic(), departures[0][0]
        for departs_s, airport, value in departures:
            due = began + (departs_s - first_s) / _DAY_S
            while (left := due - time.monotonic()) > 0:
                producer.poll(0)
                if is_over.wait(min(left, 0.05)):
                    return
            producer.produce(DEPARTURES, value, partition=airport, timestamp=int(departs_s * 1000))
            clock.produced[airport] += 1
            clock.now_s = departs_s

    thread = threading.Thread(target=produce, name="departures", daemon=True)
    thread.start()
    try:
        yield clock
    finally:
        is_over.set()
        thread.join()
        producer.flush(10)


def _in_order(flights: list[Flight]) -> list[tuple[float, int, bytes]]:
    """Return departure time (s since the epoch), airport and flight, by time."""
    departures = []
    for _, value in flights[:JANUARY]:
        row = json.loads(value)
        moment = datetime(row["year"], row["month"], row["day"], row["hour"], row["minute"], tzinfo=UTC)
        departures.append((moment.timestamp(), AIRPORTS.index(row["origin"]), value))
    return sorted(departures)


def _wait_until_all_are_seen(boards: list[Board]) -> None:
    def partitions() -> set[int]:
        return {sighting.partition for board in boards for sighting in board.seen}

    _wait(boards, lambda: len(partitions()) == len(AIRPORTS), "flights of all airports are read")


def _wait_until_read(boards: list[Board], produced: dict[int, int]) -> None:
    def ends() -> dict[int, int]:
        latest = dict.fromkeys(produced, 0)
        for sighting in (each for board in boards for each in list(board.seen)):
            latest[sighting.partition] = max(latest[sighting.partition], sighting.offset + 1)
        return latest

    _wait(boards, lambda: ends() == produced, "everything is read")


def _wait(boards: list[Board], so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not so():
        for board in boards:
            if board.problem is not None:
                raise DemoFailed(f"{board.name} ended: {board.problem}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"not within {_WITHIN_S:.0f} s: {what}")
        time.sleep(0.1)
