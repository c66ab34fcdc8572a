"""A shard of share states under test: every command is decided, applied and replayed, and all must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.share.state.shard import ShareStateShard
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.records.share_state import decode_share, encode_share
from headgate.records.share_state_model import ShareKey, ShareRecord

START = Millis(1_000)
TOPIC = TopicName("t")
TOPIC_ID = TopicId(b"t" * 16)
KEY = ShareKey(GroupId("g"), TOPIC_ID, 0)


def durable(shard: ShareStateShard) -> list[tuple[Any, ...]]:
    """All that records make of a shard, in the order in which it is kept."""
    return [
        (state.snapshot_of(key), state.snapshot_position, state.position, state.updates)
        for key, state in shard.states.items()
    ]


class StateLife:
    """One shard with a clock and a log in memory."""

    def __init__(self, **given: str) -> None:
        self.settings = Settings({name.replace("_", "."): value for name, value in given.items()})
        self.shard = ShareStateShard(self.settings)
        self.now = START
        self.log: list[tuple[bytes, bytes | None]] = []
        self.decided: list[ShareRecord] = []
        """The records of the last command."""
        self.begin()

    def begin(self) -> None:
        """Serve: tell the shard the time and the topics."""
        self.shard.handle(SystemTimeMoved(500), self.now)
        self.shard.loaded(self.now)
        self.ask(TopicsChanged([TopicChange(TOPIC, KnownTopic(TOPIC_ID, 3))]))
        self.advance(1)

    def ask(self, command: Any) -> Any:
        """Submit a command and return the reply; a fresh shard that reads the log has the same state."""
        before = durable(self.shard)
        effects = self.shard.handle(command, self.now, 7)
        assert durable(self.shard) == before
        self.decided = list(effects.records)
        for record in effects.records:
            self.shard.apply(record, len(self.log))
            self.log.append(encode_share(record))
        assert not effects.records or durable(self.loaded_from(0)) == durable(self.shard)
        assert all(reply.token == 7 for reply in effects.replies)
        return effects.replies[0].result if effects.replies else None

    def loaded_from(self, start: int, parts: Sequence[tuple[str, bytes]] = ()) -> ShareStateShard:
        """Return a shard that reads the log from a position, over the parts of an image."""
        shard = ShareStateShard(self.settings)
        for _ in shard.restore(lambda kind: [data for name, data in parts if name == kind], {}):
            pass
        for at, (key, value) in enumerate(self.log[start:], start):
            shard.apply(decode_share(key, value, Millis(0)), at)
        shard.loaded(self.now)
        return shard

    def advance(self, duration_ms: int) -> None:
        """Let time pass, with the ticks that are due."""
        end = Millis(self.now + duration_ms)
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = Millis(max(self.now, deadline))
            self.ask(Tick())
        self.now = end
