"""One member of a share group with confluent-kafka, run as a process; see `share_members.py`."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from confluent_kafka import AcknowledgeType, ShareConsumer

asked: dict[str, Any] = json.loads(sys.argv[1])
closing = threading.Event()


def say(event: str, **more: Any) -> None:
    """One line for whoever started this."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def await_the_end() -> None:
    """Set `closing` on the line `close`; end with the process that started this one."""
    for line in sys.stdin:
        if line.strip() == "close":
            closing.set()
    if not closing.is_set():
        os._exit(1)


def word_for(value: str, count: int) -> AcknowledgeType:
    """Return what the value of a record asks for."""
    if value.startswith("reject"):
        return AcknowledgeType.REJECT
    if value.startswith("poison") or (value.startswith("release") and count == 1):
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def main() -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": asked["bootstrap"],
            "group.id": asked["group"],
            "share.acknowledgement.mode": "explicit" if asked["explicit"] else "implicit",
            "max.poll.records": asked["most"],
        }
    )
    consumer.subscribe([asked["topic"]])
    while not closing.is_set():
        batch: list[Any] = [one for one in consumer.poll(0.1) if one.error() is None]
        if not batch:
            continue
        if asked["explicit"] and not asked["holds"]:
            for one in batch:
                consumer.acknowledge(one, word_for(one.value().decode(), one.delivery_count()))
        say(
            "records",
            records=[
                [one.partition(), one.offset(), one.value().decode(), one.delivery_count()] for one in batch
            ],
        )
        while asked["holds"]:
            time.sleep(1)
        refusals = [str(error) for error in consumer.commit_sync(10.0).values() if error is not None]
        say("acknowledged", refusals=refusals)
    consumer.close()
    say("closed")


threading.Thread(target=await_the_end, daemon=True).start()
main()
