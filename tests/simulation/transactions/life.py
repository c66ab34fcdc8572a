"""One life of a whole node, from its start to its end. Only the disk remains afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.life import DATA_DIR
from tests.simulation.loop import NoEnd, NothingLeft, SimulatedLoop
from tests.simulation.requests import Violation
from tests.simulation.transactions.link import Link
from tests.simulation.transactions.worker import topic_id

from headgate.core.transactions.states import PREPARED
from headgate.log.memory_filesystem import PowerCut
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.topics.refusal import Refusal
from headgate.topics.topics import NewTopic

if TYPE_CHECKING:
    from tests.simulation.transactions.world import TransactionWorld


LONGEST_START_SECONDS = 300


class TransactionLife:
    """A node, and what its clients do meanwhile."""

    def __init__(self, world: TransactionWorld) -> None:
        self.world = world
        self.end_kind = "failed starts"
        self.is_over = False
        self.is_ending = False
        self.links: list[Link] = []
        plan = world.plan
        self._loop = SimulatedLoop(
            world.time, plan.turn_seconds, world.random, max(plan.slowest_sync_seconds, 0.001)
        )
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self.node: BrokerNode
        self.listener: Listener

    def run(self) -> None:
        """Run the life."""
        self.world.disk.on_power_cut = lambda: self.end("power cuts")
        self._loop.set_exception_handler(self._on_exception)
        try:
            self._loop.run_until_complete(self._loop.create_task(self._main()))
        except NothingLeft:
            self.world.journal.report("nothing is left to happen, and somebody waits")
        except NoEnd:
            self.world.journal.report("there is no end to what happens, and somebody waits")
        except Violation as violation:
            self.world.journal.report(str(violation))
        except (PowerCut, OSError):
            pass  # the process ends, and the next one tries again
        finally:
            self.is_over = self.is_ending = True
            if self.end_kind != "clean stops":
                self.world.disk.cut_power_after(0)
            self._loop.forget_tasks()
            self._loop.close()

    async def _main(self) -> None:
        world = self.world
        self.began_at = world.time.seconds
        self.node = BrokerNode(world.disk, DATA_DIR, world.plan.settings(), world.time)
        self.node.topics._shared.seconds = lambda: world.time.seconds
        if not await self._starts():
            return
        self._create_topics()
        self.listener = Listener(self.node)
        starting = self._loop.create_task(world.started(self))
        starting.add_done_callback(self._task_ended)
        self._tasks.append(starting)
        await self._ended
        if self.end_kind == "clean stops":
            for link in self.links:
                link.lose()
            self._loop.finish_works()
            self.node.close()

    async def _starts(self) -> bool:
        """Start the node; return False if the life ends before. Raises what the start raises."""
        stuck = self._loop.call_later(LONGEST_START_SECONDS, self._report_stuck_start)
        start = self._loop.create_task(self.node.start())
        await asyncio.wait((start, self._ended), return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        if not start.done():
            return False
        start.result()
        return True

    def _report_stuck_start(self) -> None:
        """Report a start that waits for ever, and the transactions that are not carried through."""
        prepared = [
            f"{one.transactional_id} is {one.state.title}"
            for shard in self.node.transactions.shards()
            for one in shard.by_id.values()
            if one.state in PREPARED
        ]
        self.world.journal.report(f"the server has not started after {LONGEST_START_SECONDS} s: {prepared}")

    def _create_topics(self) -> None:
        for name, settings in self.world.topics.items():
            if self.node.topics.by_name(name) is None:
                wanted = NewTopic(name, topic_id(name), self.world.plan.partitions, settings)
                created = self.node.topics.create(wanted, self.node.system_time())
                if isinstance(created, Refusal):
                    raise OSError(created.message)

    def begin(self, work: Any) -> None:
        """Run what a client does, beside others."""
        task = self._loop.create_task(work)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)

    async def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if isinstance(failure, Violation):
            self.world.journal.report(str(failure))
        else:
            self._judge(failure, "a client failed:")

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if failure is None:
            self.world.journal.report(context["message"])
        else:
            self._judge(failure, context["message"])

    def _judge(self, failure: BaseException, message: str) -> None:
        if not isinstance(failure, PowerCut) and not self.is_over:
            self.world.journal.report(f"{message} {failure!r}")

    def end(self, kind: str) -> None:
        """End this life soon; from now on the disk is unchanged, unless it is a clean end."""
        if self.is_ending or self._ended.done():
            return
        self.end_kind = kind
        self.is_ending = True
        if kind != "clean stops":
            self.is_over = True
            self.world.disk.cut_power_after(0)
        self._ended.set_result(None)

    def later(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Run an action later in this life."""
        self._loop.call_later(delay_seconds, lambda: None if self.is_ending else action())
