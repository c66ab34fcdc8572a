"""The shell around one coordinator shard: it owns the log, the clock, the timer and the waiting requests.

It knows no kind of shard (`shard_kind`) and no log (`state_log`) by name. Its rules:

1. Records are encoded and applied the moment they are decided, and written at the end of the turn of the
   loop, all of that turn together: one write and one sync, mostly of one batch, serve every command of the
   turn. Where a turn decides much, its beginning is written ahead, so that the disk works beside the loop.
2. A reply leaves when the log is durable up to the position it was computed at. That holds for reads too, so
   nobody ever sees what could still be lost, and nothing ever has to be undone.
3. If a write or a sync fails, the shard's memory is dropped, everyone who waits gets a retriable error, and
   the shard is loaded from its log again: the way back up is the way up. A shard that is fenced, because
   another writer has its log, is dropped as well, and stays so until it is loaded by whoever owns it.
4. A command whose decision or encoding fails is refused alone (UNKNOWN_SERVER_ERROR), before anything of it
   is applied. Requests that it would have answered besides get a retriable error.
5. If its records cannot be applied or written for a reason nothing provides for, rule 3 holds, and the key of
   the command, its group, is refused for a while (`quarantine`): the shard is there for all others.
6. A Tick that fails is counted, and the next one comes after a pause: other timers go on.
7. Where the loop was held, what clients sent meanwhile is read before timers that are late are served: who
   spoke in time stays a member. Timers wait for that once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum, auto
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Effects, Producer, Shard, Token, TransactionEnd
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.batch import CorruptBatch
from headgate.runtime.asking import NOW, Asker, give_up
from headgate.runtime.clock import Clock
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.loop_watch import Job, LoopWatch
from headgate.runtime.quarantine import Quarantine
from headgate.runtime.record_batches import RecordTooLarge
from headgate.runtime.shard_kind import ShardKind
from headgate.runtime.shard_loading import LogLoading
from headgate.runtime.shard_reloading import Reloading
from headgate.runtime.shard_start import ShardStart
from headgate.runtime.state_log import Batches, Lost, StateLog
from headgate.topics.trouble import Trouble

logger = logging.getLogger(__name__)

OnReply = Callable[[Any], None]
Waiting = tuple[OnReply, Asker | None]
"""Who gets a reply, and the request that is given up if that fails."""

TICK_SLICE_SECONDS: Final = 0.005
"""For how long timers that are due are served before others have their turn."""
TICK_PAUSE_SECONDS = 0.1
"""How long timers wait after one that failed: one that fails for ever does not keep the loop busy."""
RELEASED_AT_ONCE = 256
"""After so many replies others have their turn: a rebalance answers every member of a group."""
LATE_MS: Final = 100
"""A timer that comes so late does so because the loop was held: what clients sent meanwhile waits unread."""
LATE_PAUSE_SECONDS: Final = 0.05
"""How long timers wait then for that to be read."""
EARLY_RECORDS = 500
"""A turn that has decided so much does not let a quick disk wait for its end."""
EARLY_SYNC_FACTOR = 4
"""How many times as long as deciding so much a sync may take: such a turn will go on for some time."""


class State(Enum):
    """Loading -> Active -> Failed -> Loading; from any to Fenced, until the owner loads the shard again."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    FENCED = auto()


_ERRORS = {
    State.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    State.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    State.FENCED: ErrorCode.NOT_COORDINATOR,
}


WRITING = Job("shard write")
TIMERS = Job("shard timers")

_NOTHING: Effects[Any] = Effects()
_NOBODY: Waiting = (lambda result: None, None)
"""Gets the replies to requests that were refused already."""

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class ShardRuntime(Generic[ShardT]):
    """Runs one shard over its log."""

    def __init__(self, kind: ShardKind[ShardT], log: StateLog, clock: Clock) -> None:
        self._kind = kind
        self._new_shard = kind.new_shard
        self._record_count = kind.records.record_count
        self.log = log
        log.on_durable = self._on_durable
        log.on_others = self._on_others
        log.on_lost = self._on_lost
        self.seconds: Callable[[], float] = perf_counter
        """For how long something takes."""
        self.on_loading: Callable[[], None] = lambda: None
        """Called before the shard is loaded from its log, at start and after a failure."""
        self.on_loaded: Callable[[], None] = lambda: None
        """Called when it is, before anybody else asks it."""
        self.on_released: Callable[[], None] = lambda: None
        """Called when replies were handed out that waited for the log."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._batches = kind.batches_for(log)
        self.quarantine = Quarantine(self._loop.time)
        """Whose commands are refused: one for all runtimes of a coordinator."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline: Millis | None = None
        self._timer_due = Millis(0)
        """When the timer is to come, by steady time."""
        self._has_waited = False
        """Whether timers that are late have waited for what is unread."""
        self._compared_at = Millis(-1)
        """When, by steady time, the system's time was last compared with it."""
        self._told_ahead_ms = 0
        """How far the system's time is ahead of steady time, as the shard knows it."""
        self._trouble = Trouble(logger, log.name)
        self.watch = LoopWatch()
        """What is told of the steps of this runtime."""
        self._reloading = Reloading(self._reload, self._trouble)
        self.shard = self._new_shard()
        self._forget()

    def _forget(self) -> None:
        """Drop what the runtime knows beside the shard."""
        self._state = State.LOADING
        self._last_token: Token = 0
        self._position = 0
        """The log offset after the last record decided."""
        self._written_position = 0
        """The log offset after the last record written."""
        self._visible_position = 0
        """The log offset up to which replies may leave."""
        self._waiting: dict[Token, Waiting] = {}
        self._batches.drop()
        self._held: deque[tuple[int, Waiting, Any]] = deque()
        self._is_flush_due = False
        self._turn_began = 0.0
        self._turn_time = Millis(0)
        """When the first records of this turn were decided, by the system's clock."""
        self._no_tick_before = 0.0
        """By the loop's clock: until then timers wait, for one that failed or for unread requests."""
        self._others: list[Batches] = []
        """Batches of others that came while the shard was loaded."""
        self._torn: list[Any] = []
        """Records at the log's end that belong to a commit which a crash cut short."""
        self.checkpoint_position = 0
        """From where on the log has to be read over the last checkpoint; 0 without one."""

    @property
    def is_active(self) -> bool:
        """Whether the shard is loaded and answers."""
        return self._state is State.ACTIVE

    @property
    def is_fenced(self) -> bool:
        """Whether another writer has the shard's log."""
        return self._state is State.FENCED

    # --- for checkpoints ---

    @property
    def position(self) -> int:
        """The log offset after the last record that the shard has applied."""
        return self._position

    @property
    def written_position(self) -> int:
        """The log offset after the last record that is written; between two commands, and two batches."""
        return self._written_position

    # --- commands ---

    def submit(self, command: Any, on_reply: OnReply, key: Hashable = None) -> None:
        """Hand the shard a command; `on_reply` gets its result once it may be seen, or an ErrorCode.

        `key`: whose commands are refused for a while if this one fails the shard; None: nobody's.
        """
        if self._state is not State.ACTIVE:
            on_reply(_ERRORS[self._state])
            return
        if self.quarantine.over_at and self.quarantine.holds(key):
            on_reply(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._last_token = token = self._last_token + 1
        self._waiting[token] = on_reply, NOW.asker
        self._run(command, token, key)

    def _run(self, command: Any, token: Token, key: Hashable = None) -> bool:
        """Decide, encode and apply a command; whether it was decided and encoded."""
        effects = _NOTHING
        count = 0
        try:
            now = self._now()
            effects = self.shard.handle(command, now, token)
            if effects.records or effects.transaction is not None:
                count = self._encode(effects)
        except Exception as failure:
            self._refuse(command, token, effects, failure)
            return False
        try:
            self._take(effects, count)
        except Exception as failure:
            self._blame(key, command, failure)
        return True

    def _encode(self, effects: Effects[Any]) -> int:
        """Encode what was decided; returns how many offsets of the log it takes."""
        if self._position == self._written_position:
            self._turn_time = Millis(self._clock.steady_time() + self._told_ahead_ms)
        transaction = effects.transaction
        if transaction is None:
            return self._batches.add(effects.records, self._position, self._turn_time)
        if isinstance(transaction, TransactionEnd):
            assert not effects.records, "a transaction is over before its end is decided"
            return self._batches.add_end(transaction, self._turn_time)
        return self._batches.add_transactional(effects.records, transaction, self._turn_time)

    def _refuse(self, command: Any, token: Token, effects: Effects[Any], failure: Exception) -> None:
        """Refuse a command that cannot be decided or encoded. Nothing of it was applied."""
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
        _answer((refused,), ErrorCode.UNKNOWN_SERVER_ERROR)
        _answer(others, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _blame(self, key: Hashable, command: Any, failure: Exception) -> None:
        """Fail over: records were decided and cannot be applied."""
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
        """Apply what was encoded, which takes so many offsets of the log."""
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
        shard: Any = self.shard  # one that `TakesTransactions`, or it decides none
        if isinstance(transaction, TransactionEnd):
            shard.end_transaction(transaction, self._position)
            self._position += 1
            return
        for record in records:
            shard.apply(record, self._position, transaction)
            self._position += 1

    def _take(self, effects: Effects[Any], count: int) -> None:
        """Apply what was decided and encoded, and keep the replies until they may leave."""
        if count:
            self._apply(effects, count)
        waiting = self._waiting
        if self._position <= self._visible_position and len(effects.replies) <= RELEASED_AT_ONCE:
            # Nothing is outstanding: what was read can be told.
            self._arm_timer()
            for reply in effects.replies:
                self._answer_one(waiting.pop(reply.token, _NOBODY), reply.result)
            return
        for reply in effects.replies:
            self._held.append((self._position, waiting.pop(reply.token, _NOBODY), reply.result))
        if not self._is_flush_due:
            self._is_flush_due = True
            self._turn_began = self.seconds()
            self._loop.call_soon(self._flush)
        if self._position - self._written_position >= EARLY_RECORDS:
            self._write_early()

    @staticmethod
    def _answer_one(waiting: Waiting, result: Any) -> None:
        on_reply, asker = waiting
        before, NOW.asker = NOW.asker, asker
        try:
            on_reply(result)
        except Exception as failure:  # one reply that cannot be made must not hold up the others
            give_up(asker, failure)
        finally:
            NOW.asker = before

    def _write_early(self) -> None:
        """Write in the midst of a turn if the disk has nothing to do: it syncs while the turn goes on.

        Two syncs for a turn pay only where a sync takes no longer than the turn.
        """
        within_seconds = EARLY_SYNC_FACTOR * (self.seconds() - self._turn_began)
        if self.log.is_ready(within_seconds) and self._write():
            self.log.flush()

    def _flush(self) -> None:
        """The end of a turn: write what was decided, release what may be seen, arm the timer."""
        if self._state is not State.ACTIVE:
            return
        self._is_flush_due = False
        if self._position > self._written_position and not self._write():
            return
        self._release()
        if self._state is State.ACTIVE:
            self._arm_timer()

    def _write(self) -> bool:
        """Write what was decided; False: the shard failed."""
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
        end = self.log.append(self._batches.take())
        if end != self._position:
            self._jump(end)
        self._written_position = end
        self._visible_position = visible = self.log.durable_position
        if visible >= end and self._trouble.is_failing:
            self._trouble.ended()

    def _jump(self, end: int) -> None:
        """The log has others' batches before ours: what waits for ours waits for where they end."""
        assert end > self._position, "a log goes forward"
        self._position = end
        held = self._held
        for index in range(len(held) - 1, -1, -1):
            position, waiting, result = held[index]
            if position <= self._written_position:
                break
            held[index] = end, waiting, result

    # --- what the log tells ---

    def _on_durable(self, position: int) -> None:
        if self._state is State.ACTIVE:
            self._visible_position = position
            if self._trouble.is_failing:
                self._trouble.ended()
            self._release()

    def _on_others(self, batches: Batches) -> None:
        """Apply what others wrote into the log, markers above all."""
        if self._state is State.LOADING:
            self._others.append(batches)
        if self._state is not State.ACTIVE:
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
        elif self._state is State.ACTIVE:
            self._fail("log failed", failure)

    def _release(self) -> None:
        held, visible = self._held, self._visible_position
        if not held or held[0][0] > visible:
            return
        before = NOW.asker
        left = RELEASED_AT_ONCE
        while held and held[0][0] <= visible:
            if not left:
                self._loop.call_soon(self._release_more, held)
                break
            left -= 1
            _, (on_reply, NOW.asker), result = held.popleft()
            try:
                on_reply(result)
            except Exception as failure:  # one reply that cannot be made must not hold up the others
                give_up(NOW.asker, failure)
        NOW.asker = before
        self.on_released()

    def _release_more(self, held: deque[tuple[int, Waiting, Any]]) -> None:
        """Go on with what was too much for one step, unless the shard failed meanwhile."""
        if held is self._held and self._state is State.ACTIVE:
            self._release()

    # --- time ---

    def _now(self) -> Millis:
        """The time for deadlines. If the system's clock was set meanwhile, the shard has been told.

        What is written together is of one clock: a record is older than the commit in it by a turn at most.
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
        deadline = self.shard.next_deadline()
        if deadline == self._timer_deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_deadline = deadline
        if deadline is not None:
            now = self._clock.steady_time()
            delay_seconds = max(0, deadline - now) / 1000
            delay_seconds = max(delay_seconds, self._no_tick_before - self._loop.time())
            self._timer_due = Millis(now + int(1000 * delay_seconds))
            self._timer = self._loop.call_later(delay_seconds, self._on_timer)

    def _on_timer(self) -> None:
        """Serve the timers that are due, one Tick after the other, for the length of a slice."""
        self._timer = None
        deadline, self._timer_deadline = self._timer_deadline, None
        if self._state is not State.ACTIVE or deadline is None:
            return
        if self._clock.steady_time() - self._timer_due >= LATE_MS and not self._has_waited:
            self._has_waited = True
            self._no_tick_before = max(self._no_tick_before, self._loop.time() + LATE_PAUSE_SECONDS)
            self._arm_timer()
            return
        self._has_waited = False
        outer = self.watch.begin(TIMERS)
        try:
            self._tick(deadline)
        finally:
            self.watch.end(outer)
        if self._state is State.ACTIVE:
            self._arm_timer()  # also where the loop's clock ran a little ahead of ours

    def _tick(self, due: Millis) -> None:
        """Serve what is due, the first of it at `due`."""
        deadline: Millis | None = due
        now = self._now()
        slice_end = self.seconds() + TICK_SLICE_SECONDS
        while self._state is State.ACTIVE and deadline is not None and deadline <= now:
            if not self._run(Tick(), 0):
                self._no_tick_before = self._loop.time() + TICK_PAUSE_SECONDS
                break
            if self.seconds() > slice_end:
                break
            deadline = self.shard.next_deadline()

    # --- up and down ---

    async def load_if_possible(self) -> None:
        """Load the shard at the start: one whose log cannot be read is refused alone, and tried again."""
        try:
            await self.load()
        except OSError as failure:
            self._fail("log cannot be loaded", failure)

    async def load(self) -> None:
        """Claim the log, and apply checkpoint and log; the loop goes on with other work between slices.

        Raises OSError. A shard that was fenced meanwhile stays so.
        """
        self.on_loading()
        self._state = State.LOADING
        start = ShardStart(self.shard, self._new_shard, self._kind.records, self.log, self.watch)
        await start.run()
        if self.is_fenced:
            return
        self.shard = start.shard
        self._position = self._written_position = self._visible_position = start.position
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
            self._commit_standing_values()
        self.on_loaded()

    def _commit_standing_values(self) -> None:
        """Write again, behind a commit that a crash cut short, what stands for its keys (R3.13)."""
        logger.warning(
            "a commit was cut short by a crash and is undone",
            extra={"log": self.log.name, "records": len(self._torn)},
        )
        standing = [self.shard.standing(record) for record in self._torn]
        effects = Effects([record for record in standing if record is not None])
        self._torn = []
        if effects.records:
            self._take(effects, self._encode(effects))

    def _fail(self, event: str, failure: Exception | None) -> None:
        """Fail over to recovery: drop the memory, refuse who waits, and load the log again."""
        self._trouble.failed(
            event, failure, "requests to this shard get retriable errors until its log can be written again"
        )
        self._reloading.begin()
        self._drop(State.FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _drop(self, state: State, error: ErrorCode) -> None:
        """Drop the memory, and refuse who waits."""
        orphans = [waiting for _, waiting, _ in self._held] + list(self._waiting.values())
        self._forget()
        self._state = state
        _answer(orphans, error)

    async def _reload(self) -> None:
        if not self.is_fenced:
            await self.load_again()

    async def load_again(self) -> None:
        """Load a shard that failed, or one that was fenced and is to be this node's again. Raises OSError."""
        try:
            self.shard = self._new_shard()  # what it knows of its surroundings is of now, not of the failure
            await self.load()
        except Exception:
            self._forget()
            self._state = State.FAILED
            raise

    def close(self) -> None:
        """Write what is left, and stop the timer and what loads the shard."""
        if self._position > self._written_position and self._state is State.ACTIVE:
            self._write()
        self.log.release()
        self._reloading.close()
        if self._timer is not None:
            self._timer.cancel()


def _answer(waiting: Iterable[Waiting | None], error: ErrorCode) -> None:
    """Tell those who wait that they get no result."""
    for one in waiting:
        if one is not None:
            ShardRuntime._answer_one(one, error)
