"""Flights as a work queue: three desks share them, and one flight is more than they can handle.

The desks are members of a share group: they share its partitions, and acknowledge each flight. A desk
computes the delay of a flight. One flight of the queue was cancelled and has no delay: each desk that gets it
fails, and releases it. After the last delivery that is allowed it is set aside, with a dead letter. Then the
desks are mended, and get it again.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from rich.console import Console

from demo.broker import DemoBroker
from demo.flights import Flight, flight_id
from demo.report import Check
from demo.shell import show
from demo.story import DemoFailed
from headgate.admin import Admin

QUEUE = "late-flights"
DEAD_LETTERS = f"dlq.{QUEUE}"
DESKS = "desks"
DESK_COUNT, PARTITION_COUNT = 3, 2
FLIGHT_COUNT = 3_000
"""Number of flights in the queue that the desks can handle; one more was cancelled."""
DELIVERIES = 3
"""Limit of the deliveries of a flight."""
_CANCELLED = b'"dep_delay":null'
_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES),
    "errors.deadletterqueue.topic.name": DEAD_LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}
_TIMEOUT_S = 10.0
_WITHIN_S = 30.0


class Delivery(NamedTuple):
    """One delivery of a flight to a desk."""

    flight: int
    number: int
    """The number of this delivery, as the broker counts."""
    is_handled: bool


class Letter(NamedTuple):
    """A dead letter: the flight, and what the headers say of it."""

    flight: int
    headers: dict[str, str]


class Desk(threading.Thread):
    """A member of the share group: it accepts the flights that it can handle, and releases others."""

    def __init__(self, address: str, name: str, *, is_mended: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.is_mended = is_mended
        self.seen: list[Delivery] = []
        self.problem: Exception | None = None
        self._is_leaving = threading.Event()
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": address,
                "group.id": DESKS,
                "client.id": name,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 50,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Work until `leave`."""
        try:
            self._consumer.subscribe([QUEUE])
            while not self._is_leaving.is_set():
                messages = [one for one in self._consumer.poll(0.1) if one.error() is None]
                deliveries = [self._handle(one) for one in messages]
                if deliveries:
                    self._consumer.commit_sync(_TIMEOUT_S)
                self.seen += deliveries  # when they are durable
        except Exception as problem:  # reported to the main thread, which ends the demo
            self.problem = problem
        finally:
            self._consumer.close()

    def _handle(self, message: Any) -> Delivery:
        value: bytes = message.value()
        try:
            delay_of(value, is_mended=self.is_mended)
            word = AcknowledgeType.ACCEPT
        except TypeError:
            word = AcknowledgeType.RELEASE
        self._consumer.acknowledge(message, word)
        return Delivery(flight_id(value), message.delivery_count(), word == AcknowledgeType.ACCEPT)

    def leave(self) -> None:
        """Leave the group, and wait until the thread has ended."""
        self._is_leaving.set()
        self.join()


def delay_of(value: bytes, *, is_mended: bool) -> float:
    """Return the delay of a flight in minutes. A desk that is not mended fails at a cancelled flight."""
    delay = json.loads(value)["dep_delay"]
    return 0.0 if is_mended and delay is None else max(0.0, delay)


def queue_of(flights: Iterable[Flight]) -> tuple[list[bytes], int]:
    """Return the queue, and the id of the cancelled flight in the middle of it."""
    departed, cancelled = [], b""
    for _, value in flights:
        if _CANCELLED not in value:
            departed.append(value)
        elif not cancelled:
            cancelled = value
        if cancelled and len(departed) >= FLIGHT_COUNT:
            break
    middle = FLIGHT_COUNT // 2
    return [*departed[:middle], cancelled, *departed[middle:FLIGHT_COUNT]], flight_id(cancelled)


def work_through_a_queue(console: Console, broker: DemoBroker, flights: list[Flight]) -> list[Check]:
    """Work until one flight is set aside, show it, mend the desks, and deliver it again."""
    queue, poison = queue_of(flights)
    _prepare(broker.address)
    place = _produce(broker.address, queue, poison)
    where = ["--group", DESKS, "--topic", f"{QUEUE}:{place.partition}", "--offset", str(place.offset)]
    desks = _open_desks(broker.address, is_mended=False)
    with console.status("three desks work through the queue"):
        _wait(desks, lambda: len(_handled(desks)) == FLIGHT_COUNT, "all other flights are handled")
        _wait(desks, lambda: _lag(broker.address) == 0, "one flight is set aside")
    _show(console, broker, ["--records", *where])
    before, letters = _close(desks), _dead_letters(broker.address)
    desks = _open_desks(broker.address, is_mended=True)
    _show(console, broker, ["--redeliver-dead-letters", *where, "--execute"])
    with console.status("the mended desks get it"):
        _wait(desks, lambda: poison in _handled(desks), "the flight is handled")
        _wait(desks, lambda: _lag(broker.address) == 0, "nothing is left")
    after = _close(desks)
    _show(console, broker, ["--describe", "--group", DESKS])
    return judge(before, after, letters, {flight_id(value) for value in queue}, poison)


def judge(
    before: list[Delivery], after: list[Delivery], letters: list[Letter], flights: set[int], poison: int
) -> list[Check]:
    """Check what came before and after the desks were mended, against the flights of the queue."""
    handled = Counter(one.flight for one in before if one.is_handled)
    failed = [one.number for one in before if one.flight == poison]
    again = [(one.flight, one.is_handled) for one in after]
    (letter,) = letters if len(letters) == 1 else (None,)
    return [
        Check(
            set(handled) == flights - {poison} and set(handled.values()) == {1},
            f"{len(handled):,} flights of the queue were handled, each once",
        ),
        Check(
            sorted(failed) == list(range(1, DELIVERIES + 1)),
            f"the cancelled one came {len(failed)} times and was then set aside; it held up no other",
        ),
        Check(
            letter is not None
            and letter.flight == poison
            and letter.headers["__dlq.errors.group"] == DESKS
            and letter.headers["__dlq.errors.delivery.count"] == str(DELIVERIES),
            f"{DEAD_LETTERS} has one dead letter: this flight",
        ),
        Check(again == [(poison, True)], "the mended desks got this flight alone, once, and handled it"),
    ]


def _prepare(address: str) -> None:
    """Create the queue and the topic of dead letters, and set the settings of the group."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
    topics = [
        NewTopic(QUEUE, PARTITION_COUNT, 1),
        NewTopic(DEAD_LETTERS, 1, 1, config={"errors.deadletterqueue.group.enable": "true"}),
    ]
    for created in admin.create_topics(topics).values():
        created.result(timeout=_TIMEOUT_S)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in _SETTINGS.items()
    ]
    group = ConfigResource(ConfigResource.Type.GROUP, DESKS, incremental_configs=entries)
    for changed in admin.incremental_alter_configs([group]).values():
        changed.result(timeout=_TIMEOUT_S)


def _produce(address: str, queue: list[bytes], poison: int) -> TopicPartition:
    """Produce the queue, and return the place of the poison."""
    places: list[TopicPartition] = []

    def delivered(problem: Any, message: Any) -> None:
        if problem is None and flight_id(message.value()) == poison:
            places.append(TopicPartition(QUEUE, message.partition(), message.offset()))

    producer = Producer({"bootstrap.servers": address, "log_level": 2})
    for number, value in enumerate(queue):
        producer.produce(QUEUE, value, partition=number % PARTITION_COUNT, on_delivery=delivered)
    if producer.flush(_TIMEOUT_S) or not places:
        raise DemoFailed("the queue was not acknowledged")
    return places[0]


def _open_desks(address: str, *, is_mended: bool) -> list[Desk]:
    kind = "mended" if is_mended else "desk"
    desks = [Desk(address, f"{kind}-{number}", is_mended=is_mended) for number in range(1, DESK_COUNT + 1)]
    for desk in desks:
        desk.start()
    return desks


def _close(desks: list[Desk]) -> list[Delivery]:
    """Have the desks leave, and return what they got."""
    for desk in desks:
        desk.leave()
    return [one for desk in desks for one in desk.seen]


def _handled(desks: list[Desk]) -> set[int]:
    return {one.flight for desk in desks for one in list(desk.seen) if one.is_handled}


def _lag(address: str) -> int:
    """Return how many flights are neither handled nor set aside."""
    with Admin(address) as admin:
        lags = [one.lag for one in admin.share_offsets(DESKS)]
    return FLIGHT_COUNT if None in lags else sum(lag or 0 for lag in lags)


def _dead_letters(address: str) -> list[Letter]:
    """Return all dead letters."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "letters", "enable.partition.eof": True, "log_level": 2}
    )
    try:
        consumer.assign([TopicPartition(DEAD_LETTERS, 0, OFFSET_BEGINNING)])
        letters: list[Letter] = []
        while (message := consumer.poll(_TIMEOUT_S)) is not None and message.error() is None:
            given: Any = message.headers() or ()  # a list of names and bytes here; the type allows more
            headers = {name: value.decode() for name, value in given}
            letters.append(Letter(flight_id(message.value() or b""), headers))
        return letters
    finally:
        consumer.close()


def _show(console: Console, broker: DemoBroker, words: list[str]) -> None:
    show(console, broker, "share-groups", words)


def _wait(desks: list[Desk], so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not so():
        for desk in desks:
            if desk.problem is not None:
                raise DemoFailed(f"{desk.name} ended: {desk.problem}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"not within {_WITHIN_S:.0f} s: {what}")
        time.sleep(0.1)
