"""The group coordinator: one runtime for each partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headgate.api.group_answers import gather
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId
from headgate.domain.partitioning import partition_for
from headgate.runtime.quarantine import Quarantine
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.topics.partition import Partition


class GroupCoordinator:
    """Routes a command to the shard of its group, or to every shard."""

    def __init__(self, runtimes: list[ShardRuntime[GroupShard]]) -> None:
        """`runtimes`, one a partition, in the partitions' order."""
        self._runtimes = runtimes
        self._quarantine = Quarantine(asyncio.get_running_loop().time)
        for runtime in runtimes:
            runtime.quarantine = self._quarantine

    @property
    def runtimes(self) -> list[ShardRuntime[GroupShard]]:
        """One a partition, in the partitions' order."""
        return self._runtimes

    def submit(self, group_id: GroupId, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Hand a command to the group's shard; see `headgate.api.contract.ShardOwner`."""
        self._runtimes[self.partition_of(group_id)].submit(command, on_reply, group_id)

    @property
    def is_wary(self) -> bool:
        """Whether a command failed a shard a while ago: then commands are better not put together."""
        return self._quarantine.over_at != 0 and not self._quarantine.is_empty()

    def submit_to_all(self, command: Any, on_replies: Callable[[list[Any]], None]) -> None:
        """Hand the same command to every shard; answers come together, one a shard, in their order."""
        take_at = gather(len(self._runtimes), on_replies)
        for index, runtime in enumerate(self._runtimes):
            runtime.submit(command, take_at(index))

    @property
    def shard_count(self) -> int:
        """How many shards there are; see `headgate.api.contract.Coordinator`."""
        return len(self._runtimes)

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Hand a command to one of the shards; see `headgate.api.contract.Coordinator`."""
        self._runtimes[shard].submit(command, on_reply)

    def partition_of(self, group_id: GroupId) -> int:
        """The partition of `__consumer_offsets` that holds the group."""
        return partition_for(group_id, len(self._runtimes))

    def look_at_log(self, partition: Partition) -> None:
        """The log of a partition may have failed: if a shard's state is in it, the shard is to know."""
        for runtime in self._runtimes:
            if runtime.partition is partition:
                runtime.look_at_log()

    def shards(self) -> list[GroupShard]:
        """The shards that are loaded, for the metrics."""
        return [runtime.shard for runtime in self._runtimes if runtime.is_active]

    async def load(self) -> None:
        """Bring every shard up from its log; one whose log is damaged is refused, and no other."""
        for runtime in self._runtimes:
            await runtime.load_if_possible()

    def close(self) -> None:
        """Write what was decided and not yet written, and stop every timer."""
        for runtime in self._runtimes:
            runtime.close()
