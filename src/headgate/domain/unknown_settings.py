"""What to say of a setting that there is not: whose it is, or which one may be meant."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.domain.wording import did_you_mean

OF_CLIENTS = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "client.id",
        "client.rack",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        # of producers
        "acks",
        "batch.size",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "retries",
    }
)
"""Well-known settings of Kafka's clients. The server has some of the same or of a similar name."""

_LIKENESS, _ENDINGS_ONLY = 0.6, 1.0


def unknown_setting(name: str, known: Iterable[str]) -> str:
    """Return that `name` is none of the `known` settings, with a hint if there is one."""
    text, likeness = f"there is no setting called {name}", _LIKENESS
    if name in OF_CLIENTS:
        text, likeness = f"{name} is a setting of the client, not of the server", _ENDINGS_ONLY
    hint = did_you_mean(name, known, likeness=likeness, asks_for_endings=True)
    return f"{text}; {hint}" if hint else text
