"""The share coordinator on this node: what its shards learn of topics, and the pruning of their logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from headgate.core.share.state.commands import ReadNeededPosition
from headgate.core.share.state.shard import ShareStateShard
from headgate.domain.errors import ErrorCode
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.server.coordinator import Coordinator
from headgate.server.topic_changes import all_topics, keep_telling_topics
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

_BETWEEN_LOGS_MS = 20

CallLater = Callable[[int, Callable[[], None]], Any]


class ShareStates:
    """Tells the shards of share states the topics, and removes what they do not need from their logs."""

    def __init__(self, topics: Topics, call_later: CallLater) -> None:
        self._topics = topics
        self._call_later = call_later
        self._interval_ms: int = topics.settings["share.coordinator.state.topic.prune.interval.ms"]

    def commands(self) -> Iterator[Any]:
        """Return the commands for a shard that was loaded."""
        yield all_topics(self._topics)

    def start(self, coordinator: Coordinator[ShareStateShard]) -> None:
        """Pass every later change of topics to the shards, and prune their logs from time to time."""
        keep_telling_topics(self._topics, coordinator)
        self._later(coordinator)

    def _later(self, coordinator: Coordinator[ShareStateShard]) -> None:
        self._call_later(self._interval_ms, lambda: self._prune_next(iter(coordinator.runtimes), coordinator))

    def _prune_next(
        self, runtimes: Iterator[ShardRuntime[ShareStateShard]], coordinator: Coordinator[ShareStateShard]
    ) -> None:
        """Prune one log, and the next one after a pause."""
        runtime = next(runtimes, None)
        if runtime is None:
            self._later(coordinator)
            return
        prune(runtime)
        self._call_later(_BETWEEN_LOGS_MS, lambda: self._prune_next(runtimes, coordinator))


def prune(runtime: ShardRuntime[ShareStateShard]) -> None:
    """Delete the records before the oldest snapshot that the shard needs, when this snapshot is durable."""

    def delete(needed: int | ErrorCode) -> None:
        if isinstance(needed, ErrorCode) or not isinstance(runtime.log, LocalLog):
            return
        try:
            with runtime.watch.step("pruning of share states"):
                _delete_before(runtime.log, needed)
        except Exception as failure:
            unexpected(Where.HOUSEKEEPING, "the log of share states cannot be pruned", failure)

    runtime.submit(ReadNeededPosition(), delete)


def _delete_before(log: LocalLog, needed: int) -> None:
    if log.log is None or log.log.failure is not None:
        return
    needed = min(needed, log.partition.high_watermark)
    if needed > log.log.log_start_offset:
        error, start = log.partition.delete_records(needed)
        logger.info("share states were pruned", extra={"log": log.name, "start": start, "error": error.name})
