"""The logs of the shards on the simulated disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.core.shard import GroupShard
from headgate.log.log import Log
from headgate.runtime.group_commit import GroupCommit
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.runtime.state_log import Batches
from headgate.topics.partition import Partition

GroupRuntime = ShardRuntime[GroupShard]


class LocalLogs:
    """Tells what the logs on the simulated disk hold."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """`seconds` measures the duration of syncs."""
        self._seconds = seconds

    def connect(self, partition: Partition, commit: GroupCommit) -> LocalLog:
        """Return the log of a shard, for one life of the server."""
        log = LocalLog(partition, commit)
        log.seconds = self._seconds
        return log

    def batches(self, runtime: GroupRuntime) -> Batches:
        """Return the stored batches of a shard."""
        log = _log_of(runtime)
        return list(log.batches(log.log_start_offset))

    def keep_all(self, runtime: GroupRuntime, end_kind: str) -> bool:
        """Return whether all that the shard has decided is certainly stored after such an end of the life."""
        log = _log_of(runtime)
        if not runtime.is_active or log.failure is not None:
            return False
        assert isinstance(runtime.log, LocalLog)
        is_safe = end_kind in ("kills", "clean stops") or (
            end_kind == "power cuts" and runtime.log._is_durable
        )
        kept = log.log_end_offset if end_kind != "power cuts" else runtime._held.visible_position
        return is_safe and kept == runtime.position

    def cut_off(self, runtimes: Sequence[GroupRuntime], *, is_crash: bool) -> None:
        """Do nothing: the end of a process changes nothing that was written."""


def _log_of(runtime: GroupRuntime) -> Log:
    assert isinstance(runtime.log, LocalLog)
    return runtime.log.partition.log
