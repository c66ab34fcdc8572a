"""A coordinator: all shards of one kind on this node, one runtime for each partition of the kind's topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from headgate.api.shard_replies import gather
from headgate.core.contract import Shard
from headgate.runtime.local_log import LocalLog
from headgate.runtime.quarantine import Quarantine
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.topics.partition import Partition

logger = logging.getLogger(__name__)

_KEYS_A_STEP: Final = 256

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class Coordinator(Generic[ShardT]):
    """Routes a command to the shard of its key, or to every shard."""

    def __init__(self, kind: ShardKind[ShardT], runtimes: Sequence[ShardRuntime[ShardT]]) -> None:
        """`runtimes`: one for each partition, in the order of the partitions."""
        self._runtimes = runtimes
        self._partition_of = kind.partition_of
        self._quarantine = Quarantine(asyncio.get_running_loop().time)
        self._keys_of = kind.keys_of
        for index, runtime in enumerate(runtimes):
            runtime.quarantine = self._quarantine
            runtime.check_loaded = partial(self._check_keys, index)

    @property
    def runtimes(self) -> Sequence[ShardRuntime[ShardT]]:
        """One runtime for each partition, in the order of the partitions."""
        return self._runtimes

    def submit(self, key: str, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Pass a command to the shard of a key; see `headgate.api.contract.ShardOwner`."""
        self._runtimes[self.partition_of(key)].submit(command, on_reply, key)

    @property
    def is_wary(self) -> bool:
        """Whether a command made a shard fail recently. Commands are then handled one by one."""
        return self._quarantine.over_at != 0 and not self._quarantine.is_empty()

    def submit_to_all(self, command: Any, on_replies: Callable[[list[Any]], None]) -> None:
        """Pass one command to every shard. `on_replies` gets one reply per shard, in their order."""
        take_at = gather(len(self._runtimes), on_replies)
        for index, runtime in enumerate(self._runtimes):
            runtime.submit(command, take_at(index))

    @property
    def shard_count(self) -> int:
        """Number of shards; see `headgate.api.contract.Coordinator`."""
        return len(self._runtimes)

    def submit_to(self, shard: int, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Pass a command to one shard; see `headgate.api.contract.Coordinator`."""
        self._runtimes[shard].submit(command, on_reply)

    def partition_of(self, key: str) -> int:
        """Return the partition of the topic to which a key belongs."""
        count = len(self._runtimes)
        return 0 if count == 1 else self._partition_of(key, count)

    def _check_keys(self, index: int, shard: ShardT) -> Iterator[None]:
        """Report the keys of a loaded shard that belong to other ones: nobody asks this shard for them."""
        strangers: list[str] = []
        for count, key in enumerate(self._keys_of(shard), 1):
            if self.partition_of(key) != index:
                strangers.append(key)
            if not count % _KEYS_A_STEP:
                yield
        if strangers:
            logger.error(
                "a log has keys of other partitions",
                extra={
                    "log": self._runtimes[index].log.name,
                    "keys": len(strangers),
                    "first": strangers[0],
                    "belongs_to": self.partition_of(strangers[0]),
                    "then": "they are not served; if files were swapped or renamed, restore a backup",
                },
            )

    def look_at_log(self, partition: Partition) -> None:
        """Make the shard whose log is this partition, if any, check whether the log has failed."""
        for runtime in self._runtimes:
            if isinstance(runtime.log, LocalLog) and runtime.log.partition is partition:
                runtime.log.look()

    def shards(self) -> list[ShardT]:
        """Return the loaded shards, for the metrics."""
        return [runtime.shard for runtime in self._runtimes if runtime.is_active]

    async def load(self) -> None:
        """Load every shard from its log. A damaged log makes only its own shard unavailable."""
        for runtime in self._runtimes:
            await runtime.load_if_possible()

    def close(self) -> None:
        """Write the records that are decided and not yet written, and stop every timer."""
        for runtime in self._runtimes:
            runtime.close()
