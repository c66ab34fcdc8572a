"""The runtime of one coordinator shard: it owns the log, the clock, the timer and the waiting requests.

It names no kind of shard (`shard_kind`) and no log (`state_log`). Its rules:

1. Records are encoded and applied when they are decided, and written at the end of the loop iteration, all of
   them together: one write and one sync, mostly of one batch, serve every command of the iteration. If an
   iteration decides many records, the first ones are written early, so that the disk works beside the loop.
2. A reply is sent when the log is durable up to the position at which the reply was computed. This holds for
   reads too. So no client sees data that can still be lost, and nothing is ever undone.
3. If a write or a sync fails, the shard's memory is dropped, all waiting requests get a retriable error, and
   the shard is loaded from its log again. Recovery reuses the start-up path. A fenced shard, whose log
   has another writer, is dropped too, and remains so until its owner loads it.
4. A command whose decision or encoding fails is refused alone (UNKNOWN_SERVER_ERROR), before any of its
   records is applied. Other requests that it would have answered get a retriable error. Only a fault makes it
   fail, and what the decision changed beside the records stays changed: a shard refuses what has no room in a
   record before it decides anything.
5. If records cannot be applied or written because of an unexpected exception, rule 3 applies, and the
   command's key, a group id, is refused for a while (`quarantine`), so that other groups are served.
6. A Tick that fails is counted, and the next one follows after a pause. Other timers continue.
7. What takes long to encode or to apply is encoded and applied in slices. Meanwhile the shard is FINISHING:
   commands wait in their order, and due timers wait among them, so that long records without end cannot hold
   the timers up.
8. A write has at most some megabytes. If there is more, the next iterations write it, and commands go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum, auto
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import (
    Effects,
    FinishesLater,
    Producer,
    Shard,
    Token,
    TransactionEnd,
    finish,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import CorruptBatch
from headgate.runtime.asking import NOW
from headgate.runtime.clock import Clock
from headgate.runtime.dropped_states import DROPPED
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.held_replies import (
    NOBODY,
    HeldReplies,
    OnReply,
    Waiting,
    answer_one,
    refuse,
)
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.quarantine import Quarantine
from headgate.runtime.record_batches import RecordTooLarge
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_loading import LogLoading
from headgate.runtime.shard_reloading import Reloading
from headgate.runtime.shard_start import ShardStart
from headgate.runtime.shard_timer import ShardTimer
from headgate.runtime.state_log import Batches, Lost, StateLog
from headgate.topics.trouble import Trouble

logger = logging.getLogger(__name__)

TICK_SLICE_SECONDS: Final = 0.005
"""Time for which due timers run in one slice."""
FIRST_SLICE_SECONDS: Final = 0.001
"""Time for which a record is applied beside the command that decided it."""
FINISH_SLICE_SECONDS: Final = 0.005
TICK_PAUSE_SECONDS = 0.1
"""Pause after a failed timer, so that one that fails repeatedly does not keep the loop busy."""
MOST_WRITTEN_BYTES = 2 << 20
"""Bytes of a write, and at least one batch; the next iterations write the rest."""
EARLY_RECORDS = 500
"""Records of a loop iteration after which an idle disk starts to write them."""
EARLY_SYNC_FACTOR = 4
"""Limit of the last sync's duration for an early write, as a multiple of the iteration's time so far."""


class State(Enum):
    """Loading -> Active -> Failed -> Loading; from any to Fenced, until the owner loads the shard again.

    Active and Finishing alternate: see rule 7.
    """

    LOADING = auto()
    ACTIVE = auto()
    FINISHING = auto()
    FAILED = auto()
    FENCED = auto()


_ERRORS = {
    State.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    State.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    State.FENCED: ErrorCode.NOT_COORDINATOR,
}


_SERVING = State.ACTIVE, State.FINISHING

WRITING = Job("shard write")
FINISHING = Job("shard records")
TIMERS = Job("shard timers")

_NOTHING: Effects[Any] = Effects()
ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class _Later(NamedTuple):
    """A command, or a Tick for the due timers, that waits until the shard has applied a long record."""

    command: Any
    waiting: Waiting
    key: Hashable


class ShardRuntime(Generic[ShardT]):
    """Runs one shard on its log."""

    def __init__(self, kind: ShardKind[ShardT], log: StateLog, clock: Clock) -> None:
        self._kind = kind
        self._new_shard = kind.new_shard
        self._record_count = kind.records.record_count
        self._are_long = kind.records.are_long
        self.log = log
        log.on_durable = self._on_durable
        log.on_others = self._on_others
        log.on_lost = self._on_lost
        self.seconds: Callable[[], float] = perf_counter
        """Monotonic clock, in seconds."""
        self.on_loading: Callable[[], None] = lambda: None
        """Called before the shard is loaded from its log, at the start and after a failure."""
        self.check_loaded: Callable[[ShardT], Iterator[None]] = lambda shard: iter(())
        """Looks at what was loaded, in steps, and reports what does not belong here."""
        self.on_loaded: Callable[[], None] = lambda: None
        """Called when the shard is loaded, before other commands."""
        self.on_released: Callable[[], None] = lambda: None
        """Called after replies that waited for the log were released."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._batches = kind.batches_for(log)
        self._held = HeldReplies(self._loop, lambda: self.on_released())
        self._timer = ShardTimer(self._loop, clock, self._on_timer)
        self.quarantine = Quarantine(self._loop.time)
        """Refused keys, shared by all runtimes of a coordinator."""
        self._compared_at = Millis(-1)
        """Steady time of the last comparison with the system time."""
        self._told_ahead_ms = 0
        """Difference of system time and steady time, as passed to the shard."""
        self._trouble = Trouble(logger, log.name)
        self.watch = LoopWatch()
        """Measures the steps of this runtime."""
        self._reloading = Reloading(self._reload, log.try_append, self._trouble)
        self._start: ShardStart[ShardT] | None = None
        """The last load that began."""
        self._is_closed = False
        self.shard = self._new_shard()
        self._forget()

    def _forget(self) -> None:
        """Reset the runtime's state beside the shard."""
        self._state = State.LOADING
        self._last_token: Token = 0
        self._position = 0
        """Log offset after the last decided record."""
        self._written_position = 0
        """Log offset after the last written record."""
        self._waiting: dict[Token, Waiting] = {}
        self._unfinished: deque[Iterator[None]] = deque()
        """What is left of the application of records; see `FinishesLater`, and `_take_in_steps`."""
        self._later: deque[_Later] = deque()
        self._is_tick_waiting = False
        """Whether the due timers wait among the commands."""
        self._batches.drop()
        self._held.drop()
        self._is_flush_due = False
        self._is_partly_written = False
        """Whether a write ended between two batches of a command."""
        self._turn_began = 0.0
        self._turn_time = Millis(0)
        """System time of the first record decided since the last write."""
        self._timer.reset()
        self._others: list[Batches] = []
        """Batches of other writers that arrived during the load."""
        self._torn: list[Any] = []
        """Records of an incomplete commit at the end of the log, cut short by a crash."""
        self.checkpoint_position = 0
        """Offset of the last checkpoint, at which a start begins to read the log; 0 without one."""

    @property
    def is_failing(self) -> bool:
        """Whether the log cannot be read or written, although the shard may be loaded."""
        return self._trouble.is_failing

    @property
    def is_active(self) -> bool:
        """Whether the shard is loaded and answers commands."""
        return self._state in _SERVING

    @property
    def is_finishing(self) -> bool:
        """Whether a long command is being encoded, applied or written: no checkpoint can begin now."""
        return bool(self._unfinished) or self._is_partly_written

    @property
    def _is_taking_steps(self) -> bool:
        return self._state is State.FINISHING

    @property
    def is_fenced(self) -> bool:
        """Whether another writer has claimed the shard's log."""
        return self._state is State.FENCED

    # --- for checkpoints ---

    @property
    def position(self) -> int:
        """Log offset after the last applied record."""
        return self._position

    @property
    def written_position(self) -> int:
        """Log offset after the last written record; between two commands, unless `is_finishing`."""
        return self._written_position

    # --- commands ---

    def submit(self, command: Any, on_reply: OnReply, key: Hashable = None) -> None:
        """Pass a command to the shard. `on_reply` gets its result once it is durable, or an ErrorCode.

        `key`: refuse its commands for a while if this command makes the shard fail; None for no key.
        """
        if self._state is not State.ACTIVE:
            if self._state is State.FINISHING:
                self._later.append(_Later(command, (on_reply, NOW.asker), key))
            else:
                on_reply(_ERRORS[self._state])
            return
        self._submit(command, on_reply, key)

    def _submit(self, command: Any, on_reply: OnReply, key: Hashable) -> None:
        if self._is_closed:
            on_reply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if self.quarantine.over_at and self.quarantine.holds(key):
            on_reply(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._last_token = token = self._last_token + 1
        self._waiting[token] = on_reply, NOW.asker
        self._run(command, token, key)

    def _run(self, command: Any, token: Token, key: Hashable = None) -> bool:
        """Decide, encode and apply a command. Return whether it was decided and encoded."""
        effects = _NOTHING
        count = 0
        is_long = False
        try:
            now = self._now()
            effects = self.shard.handle(command, now, token)
            is_long = self._are_long and len(effects.records) > 1 and effects.transaction is None
            if not is_long and (effects.records or effects.transaction is not None):
                count = self._encode(effects)
        except Exception as failure:
            self._refuse(command, token, effects, failure)
            return False
        try:
            if is_long:
                self._unfinished.append(self._take_in_steps(effects, command, token, key))
                self._finish_at_once()
            else:
                self._take(effects, count)
        except Exception as failure:
            self._blame(key, command, failure)
        return True

    def _begin_turn(self) -> None:
        """Set the timestamp of the records of this turn."""
        if self._position == self._written_position:
            self._turn_time = Millis(self._clock.steady_time() + self._told_ahead_ms)

    def _encode(self, effects: Effects[Any]) -> int:
        """Encode decided records. Return how many log offsets they take."""
        self._begin_turn()
        transaction = effects.transaction
        if transaction is None:
            return self._batches.add(effects.records, self._position, self._turn_time)
        if isinstance(transaction, TransactionEnd):
            assert not effects.records, "a transaction is over before its end is decided"
            return self._batches.add_end(transaction, self._turn_time)
        return self._batches.add_transactional(effects.records, transaction, self._turn_time)

    def _refuse(self, command: Any, token: Token, effects: Effects[Any], failure: Exception) -> None:
        """Refuse a command whose decision or encoding failed. None of its records was applied."""
        name = type(command).__name__
        if isinstance(failure, RecordTooLarge):
            logger.warning("a request was refused", extra={"command": name, "reason": str(failure)})
        else:
            where = Where.TICK if type(command) is Tick else Where.REQUEST
            unexpected(where, f"{name} failed", failure, log=self.log.name)
        waiting = self._waiting
        refused = waiting.pop(token, None)
        if refused is not None and refused[1] is not None and refused[1].is_many:
            self.quarantine.blame(None)
            refused[1].ask_each()
            return
        others = [waiting.pop(reply.token, None) for reply in effects.replies if reply.token != token]
        refuse((refused,), ErrorCode.UNKNOWN_SERVER_ERROR)
        refuse(others, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _blame(self, key: Hashable, command: Any, failure: Exception) -> None:
        """Fail over to recovery, because decided records cannot be applied."""
        if NOW.asker is not None and NOW.asker.is_many:
            key = None
        seconds = self.quarantine.blame(key)
        unexpected(
            Where.SHARD,
            f"what {type(command).__name__} decided cannot be applied",
            failure,
            key=str(key),
            refused_for_seconds=seconds,
        )
        self._fail("the shard failed", failure)

    def _apply(self, effects: Effects[Any], count: int) -> None:
        """Apply encoded records, which take `count` log offsets."""
        records, apply, transaction = effects.records, self.shard.apply, effects.transaction
        if transaction is not None:
            self._apply_transactional(records, transaction)
        elif count == len(records):
            for record in records:
                apply(record, self._position)
                self._position += 1
        else:
            for record in records:
                apply(record, self._position)
                self._position += self._record_count(record)

    def _apply_transactional(self, records: Sequence[Any], transaction: Producer | TransactionEnd) -> None:
        shard: Any = self.shard  # it implements `TakesTransactions` if it decides transactions
        if isinstance(transaction, TransactionEnd):
            shard.end_transaction(transaction, self._position)
            self._position += 1
            return
        for record in records:
            shard.apply(record, self._position, transaction)
            self._position += self._record_count(record)

    def _take(self, effects: Effects[Any], count: int) -> None:
        """Apply decided and encoded records, and hold the replies until they are durable."""
        if count:
            self._apply(effects, count)
            if self._unfinished:
                self._finish_at_once()
        self._answer(effects)

    def _answer(self, effects: Effects[Any]) -> None:
        """Hold the replies until all applied records are durable, and have these written."""
        waiting, held = self._waiting, self._held
        if held.are_due(self._position, len(effects.replies)):
            # All that the replies depend on is durable.
            self._arm_timer()
            for reply in effects.replies:
                answer_one(waiting.pop(reply.token, NOBODY), reply.result)
            return
        for reply in effects.replies:
            held.hold(self._position, waiting.pop(reply.token, NOBODY), reply.result)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._turn_began = self.seconds()
            self._loop.call_soon(self._flush)
        if self._position - self._written_position >= EARLY_RECORDS:
            self._write_early()

    # --- long records ---

    def _take_in_steps(
        self, effects: Effects[Any], command: Any, token: Token, key: Hashable
    ) -> Iterator[None]:
        """Encode decided records in steps, then apply them at once, and hold the replies."""
        self._begin_turn()
        try:
            count = yield from self._batches.adding(effects.records, self._position, self._turn_time)
        except Exception as failure:
            self._refuse(command, token, effects, failure)
            return
        try:
            self._apply(effects, count)
        except Exception as failure:
            self._blame(key, command, failure)
        else:
            self._answer(effects)

    def _finish_at_once(self) -> None:
        """Encode and apply the rest of what was decided, now if that is short."""
        if not self._finish_some(FIRST_SLICE_SECONDS) and self._state is not State.FINISHING:
            self._state = State.FINISHING
            self._loop.call_soon(self._go_on_finishing, self.shard)

    def _finish_some(self, seconds: float) -> bool:
        """Encode and apply for some time; return whether nothing is left."""
        end = self.seconds() + seconds
        return all(self.seconds() <= end for _ in finish(self._unfinished))

    def _go_on_finishing(self, shard: ShardT) -> None:
        """Encode and apply more, then handle the commands that waited for that."""
        if self._state is not State.FINISHING or self.shard is not shard:
            return
        outer = self.watch.begin(FINISHING)
        try:
            is_done = self._finish_some(FINISH_SLICE_SECONDS) and self._handle_later()
        except Exception as failure:
            self._finishing_failed(failure)
            return
        finally:
            self.watch.end(outer)
        if not self._is_taking_steps:
            return
        if is_done:
            self._state = State.ACTIVE
            self._arm_timer()
        else:
            self._loop.call_soon(self._go_on_finishing, shard)

    def _finish_all(self) -> None:
        """Take all steps now: the shard is being closed, and a checkpoint may follow."""
        try:
            for _ in finish(self._unfinished):
                pass
        except Exception as failure:
            self._finishing_failed(failure)

    def _finishing_failed(self, failure: Exception) -> None:
        unexpected(Where.SHARD, "what was decided cannot be applied", failure, log=self.log.name)
        self._fail("the shard failed", failure)

    def _handle_later(self) -> bool:
        """Handle the commands that wait, for some time; return whether none is left."""
        end = self.seconds() + FINISH_SLICE_SECONDS
        before = NOW.asker
        while self._later and self._state is State.FINISHING and not self._unfinished:
            command, (on_reply, asker), key = self._later.popleft()
            if type(command) is Tick:
                self._is_tick_waiting = False
                self._run_timers(self.shard.next_deadline())
            else:
                NOW.asker = asker
                try:
                    self._submit(command, on_reply, key)
                finally:
                    NOW.asker = before
            if self.seconds() > end:
                break
        return not self._later and not self._unfinished

    def _write_early(self) -> None:
        """Write before the end of the iteration if the disk is idle, so that it syncs meanwhile.

        A second sync pays only if it takes no longer than the rest of the iteration.
        """
        within_seconds = EARLY_SYNC_FACTOR * (self.seconds() - self._turn_began)
        if self.log.is_ready(within_seconds) and self._write():
            self.log.flush()

    def _flush(self) -> None:
        """End a loop iteration: write decided records, release durable replies, arm the timer."""
        if self._state not in _SERVING:
            return
        self._is_flush_due = False
        if self._position > self._written_position and not self._write():
            return
        if self._is_partly_written:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        self._held.release()
        if self._state in _SERVING:
            self._arm_timer()

    def _write(self) -> bool:
        """Write decided records. Return False if the shard failed."""
        outer = self.watch.begin(WRITING)
        try:
            self._append()
        except (OSError, CorruptBatch) as failure:
            self._fail("write failed", failure)
            return False
        except Exception as fault:
            unexpected(Where.SHARD, "what was decided cannot be written", fault)
            self._fail("write failed", fault)
            return False
        finally:
            self.watch.end(outer)
        return True

    def _append(self) -> None:
        end = self.log.append(self._batches.take(MOST_WRITTEN_BYTES))
        left = self._batches.record_count
        if end != self._position - left:
            self._jump(end + left)
        self._written_position = end
        self._is_partly_written = left > 0
        self._held.visible_position = visible = self.log.durable_position
        if visible >= end and self._trouble.is_failing:
            self._trouble.ended()

    def _jump(self, end: int) -> None:
        """Move the replies that are not written to the actual end, after batches of other writers."""
        assert end > self._position, "a log goes forward"
        self._position = end
        self._held.move(self._written_position, end)

    # --- callbacks of the log ---

    def _on_durable(self, position: int) -> None:
        if self._state in _SERVING:
            self._held.visible_position = position
            if self._trouble.is_failing:
                self._trouble.ended()
            self._held.release()

    def _on_others(self, batches: Batches) -> None:
        """Apply batches of other writers, mostly markers."""
        if self._state is State.LOADING:
            self._others.append(batches)
        if self._state not in _SERVING:
            return
        try:
            for _ in LogLoading(self.shard, self._kind.records).steps(batches):
                pass
        except Exception as failure:
            unexpected(Where.SHARD, "what others wrote cannot be applied", failure, log=self.log.name)
            self._fail("the shard failed", failure)
            return
        self._arm_timer()

    def _on_lost(self, lost: Lost, failure: Exception | None) -> None:
        if lost is Lost.FENCED:
            self._drop(State.FENCED, ErrorCode.NOT_COORDINATOR)
        elif self._state in _SERVING:
            self._fail("log failed", failure)

    # --- time ---

    def _now(self) -> Millis:
        """Return the time for deadlines. If the system clock was set, pass the change to the shard first.

        Records that are written together use one clock: a batch's timestamp is older than its newest commit
        by at most one loop iteration.
        """
        now = self._clock.steady_time()
        if now != self._compared_at and self._position == self._written_position:
            self._compared_at = now
            ahead_ms = self._clock.system_time() - now
            if ahead_ms != self._told_ahead_ms:
                self._tell_system_time(ahead_ms, now)
        return now

    def _tell_system_time(self, ahead_ms: int, now: Millis) -> None:
        self._told_ahead_ms = ahead_ms
        self.shard.handle(SystemTimeMoved(ahead_ms), now)

    def _arm_timer(self) -> None:
        if not self._is_closed and not self._is_tick_waiting:
            self._timer.arm(self.shard.next_deadline())

    def _on_timer(self, deadline: Millis) -> None:
        if self._state is State.ACTIVE:
            self._run_timers(deadline)
        elif self._state is State.FINISHING:
            self._is_tick_waiting = True
            self._later.append(_Later(Tick(), NOBODY, None))

    def _run_timers(self, deadline: Millis | None) -> None:
        """Run the due timers, one Tick after the other, for the length of a slice."""
        if self._is_closed:
            return
        outer = self.watch.begin(TIMERS)
        try:
            self._tick(deadline)
        finally:
            self.watch.end(outer)
        if self._state in _SERVING:
            self._arm_timer()  # also if the loop's clock was slightly ahead

    def _tick(self, due: Millis | None) -> None:
        """Run the timers that are due, the first of them at `due`."""
        deadline = due
        now = self._now()
        slice_end = self.seconds() + TICK_SLICE_SECONDS
        while self._state in _SERVING and not self._unfinished and deadline is not None and deadline <= now:
            if not self._run(Tick(), 0):
                self._timer.pause(TICK_PAUSE_SECONDS)
                break
            if self.seconds() > slice_end:
                break
            deadline = self.shard.next_deadline()

    # --- loading and closing ---

    async def load_if_possible(self) -> None:
        """Load the shard at the start. If its log cannot be read, only this shard fails, and is retried."""
        try:
            await self.load()
        except OSError as failure:
            self._fail("log cannot be loaded", failure)

    async def load(self) -> None:
        """Claim the log, and apply its checkpoint and its records, in slices on the loop.

        Raises OSError. A shard that was fenced meanwhile remains fenced. If another load has begun meanwhile,
        because the owner of a fenced shard loads it, this one has no effect: others wrote since its claim.
        """
        self.on_loading()
        self._state = State.LOADING
        self._others = []
        start = self._start = ShardStart(
            self.shard, self._new_shard, self._kind.records, self.log, self.watch, self.check_loaded
        )
        try:
            await start.run()
        except Exception:
            if self._start is start:
                raise
        if self._start is not start or self.is_fenced or self._is_closed:
            return
        self.shard = start.shard
        shard: Any = self.shard
        if isinstance(shard, FinishesLater):
            shard.finishes_later = True
            self._unfinished = shard.unfinished
        self._position = self._written_position = self._held.visible_position = start.position
        self.checkpoint_position = start.checkpoint_position
        self._torn = start.torn
        self._state = State.ACTIVE
        now = self._clock.steady_time()
        self._tell_system_time(self._clock.system_time() - now, now)
        self.shard.loaded(now)
        others, self._others = self._others, []
        for batches in others:
            self._on_others(batches)
        for command in self._kind.first_commands():
            self.submit(command, lambda result: None)
        self._arm_timer()
        if self._torn:
            self._commit_current_values()
        self.on_loaded()

    def _commit_current_values(self) -> None:
        """Append the current values of the keys of a commit that a crash cut short (R3.13)."""
        logger.warning(
            "a commit was cut short by a crash and is undone",
            extra={"log": self.log.name, "records": len(self._torn)},
        )
        standing = [self.shard.current_record(record) for record in self._torn]
        effects = Effects([record for record in standing if record is not None])
        self._torn = []
        if effects.records:
            self._take(effects, self._encode(effects))

    def _fail(self, event: str, failure: Exception | None) -> None:
        """Fail over to recovery: drop the memory, refuse waiting requests, load the log again."""
        self._trouble.failed(
            event, failure, "requests to this shard get retriable errors until its log can be written again"
        )
        self._reloading.begin()
        self._drop(State.FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop(self, state: State, error: ErrorCode) -> None:
        """Drop the memory, and answer all waiting requests with `error`."""
        orphans = self._held.drop() + list(self._waiting.values()) + [one.waiting for one in self._later]
        self._forget()
        self._state = state
        refuse(orphans, error)

    async def _reload(self) -> None:
        if not self.is_fenced:
            await self.load_again()

    async def load_again(self) -> None:
        """Load a shard that failed, or a fenced one that this node owns again. Raises OSError."""
        try:
            self.shard = self._new_shard()  # with the current settings, not those at the failure
            with self.watch.step("free dropped state"):
                DROPPED.free()
            await self.load()
        except Exception:
            self._forget()
            self._state = State.FAILED
            raise

    def close(self) -> None:
        """Write the decided records, and stop the timer and repeated loading. Later commands are refused: a
        record written after the stop would be torn in a log that is marked as closed cleanly.
        """
        self._is_closed = True
        if self._is_taking_steps:
            self._finish_all()
        while self._position > self._written_position and self._state in _SERVING:
            if not self._write():
                break
        self.log.release()
        self._reloading.close()
        self._timer.reset()
