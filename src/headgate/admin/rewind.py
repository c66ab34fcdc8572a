"""Rewinding partitions of a group that runs: pause, wait for the release, set, resume.

A rewind ends in one of three ways, and says in which:

1. It is done: the offsets are set and the partitions are resumed.
2. It failed, of a refusal, a time that was over, or the caller's own interruption (also Ctrl-C): the offsets
   are what they were and the partitions are resumed. What failed is raised.
3. It failed, and could not clean up either, because nothing answers: `RewindUnfinished`, from what failed.
   The partitions are paused, which nothing but people ends. The same call made again finds what was left:
   partitions that were paused by a rewind (`headgate.domain.pauses`) are its own to set and resume.

What was paused by anybody else, before or meanwhile, stays paused. Offsets are set on condition that they are
what they were when the plan was made, so that nothing anybody else sets meanwhile is lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headgate.admin.errors import NothingToReset, RewindUnfinished
from headgate.admin.pausing import Waiting, wait_until_released
from headgate.admin.reset import PlannedOffset, ShiftBy, Target, ToOffset, plan
from headgate.client import offsets, pauses
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError, OffsetsMoved, OutcomeUnknown
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName, TopicPartition, topic_id_of
from headgate.domain.pauses import is_of_rewind, reason_of_rewind

_ATTEMPTS: Final = 5


class RewindStep(StrEnum):
    """What a rewind does now."""

    PAUSING = "pausing"
    WAITING = "waiting for the release"
    SETTING = "setting offsets"
    RESUMING = "resuming"
    RESTORING = "restoring offsets"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindProgress:
    """How far a rewind is."""

    step: RewindStep
    waiting_for: tuple[PausedPartition, ...] = ()
    """Partitions that their owners have not released."""
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundPartition:
    """What a rewind did to one partition."""

    partition: TopicPartition
    before: CommittedOffset | None
    """What was committed when it was released; None: nothing. To undo the rewind, rewind to it."""
    offset: int
    """What is committed now."""
    asked_for: int
    """The requested offset. It differs from the new offset if it lies outside of the log."""
    is_after_last_record: bool = False
    """Whether a time was asked for that is later than every record: the new offset is the end of the log."""
    was_left: bool
    """Whether an earlier, unfinished rewind left the partition paused."""
    stays_paused: bool
    """Whether another client paused the partition, before or meanwhile, so that it is not resumed."""


Where = int | Target
"""An offset, or any other target of a reset."""
OnProgress = Callable[[RewindProgress], None]


@dataclass(slots=True, kw_only=True)
class Rewind:
    """One rewind of a group."""

    cluster: Cluster
    group_id: GroupId
    targets: Mapping[TopicPartition, Where]
    now: Millis
    """System time in ms, the base of relative times."""
    reason: str = ""
    caller: str = ""
    timeout_s: float = 300.0
    """How long to wait for the release."""
    on_progress: OnProgress = lambda progress: None
    topic_ids: dict[TopicName, TopicId] = field(default_factory=dict)
    """The ids of the paused topics, so that the rewind fails if one is deleted."""

    # --- planning ---

    def plan(self) -> list[PlannedOffset]:
        """Return what would be set, from what is committed now. Raises `NothingToReset`."""
        wanted = sorted(self.targets)
        if not wanted:
            raise NothingToReset(f"no partitions of group {self.group_id} to rewind")
        committed = offsets.fetch_offsets(self.cluster, self.group_id, wanted)
        by_target: dict[int, list[TopicPartition]] = {}
        known = {id(where): where for where in self.targets.values()}
        for partition in wanted:
            by_target.setdefault(id(self.targets[partition]), []).append(partition)
        planned: list[PlannedOffset] = []
        for key, partitions in by_target.items():
            planned += self._plan(known[key], partitions, committed)
        return sorted(planned, key=lambda each: each.partition)

    def _plan(
        self,
        where: Where,
        partitions: list[TopicPartition],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> list[PlannedOffset]:
        target = ToOffset(where) if isinstance(where, int) else where

        def offsets_at(timestamp: int) -> Mapping[TopicPartition, int]:
            return self.cluster.list_offsets(dict.fromkeys(partitions, timestamp))

        return plan(target, partitions, committed, offsets_at, self.now)

    # --- doing ---

    def run(self) -> list[RewoundPartition]:
        """Do it. Raises what stopped it, when all is as it was; `RewindUnfinished` when it is not."""
        self.plan()  # what cannot be planned pauses nothing
        before = pauses.list_paused(self.cluster, self.group_id)
        with self._waiting_for_nodes():
            return self._run(before)

    @contextlib.contextmanager
    def _waiting_for_nodes(self) -> Iterator[None]:
        """Wait for a server that restarts: partitions that are paused must be resumed."""
        waited, self.cluster.waits_for_nodes = self.cluster.waits_for_nodes, True
        try:
            yield
        finally:
            self.cluster.waits_for_nodes = waited

    def _run(self, before: Mapping[TopicPartition, PausedPartition]) -> list[RewoundPartition]:
        left = {one for one in self.targets if one in before and is_of_rewind(before[one].reason)}
        self._refuse_shifts(left)
        own = [one for one in sorted(self.targets) if one not in before or one in left]
        done: list[PlannedOffset] = []
        try:
            self._tell(RewindStep.PAUSING)
            pauses.pause(self.cluster, self.group_id, own, reason_of_rewind(self.reason), self.caller)
            paused = self._wait()
            self._tell(RewindStep.SETTING)
            planned = self.plan()
            self.topic_ids = {one.partition.topic: topic_id_of(one.topic_id) for one in paused.values()}
            self._set(planned, done)
            self._tell(RewindStep.RESUMING)
        except BaseException as failure:
            self._clean_up(failure, done, own)
            raise
        try:
            resumed = self._resume(own, "the offsets are set")
            self._tell(RewindStep.DONE)
        except RewindUnfinished:
            raise
        except BaseException as failure:
            self._resume(own, "the offsets are set", failure)
            failure.add_note("the rewind was done all the same")
            raise
        return [
            RewoundPartition(
                partition=each.partition,
                before=each.committed,
                offset=each.offset,
                asked_for=each.asked_for,
                is_after_last_record=each.is_after_last_record,
                was_left=each.partition in left,
                stays_paused=each.partition not in resumed,
            )
            for each in planned
        ]

    def _refuse_shifts(self, left: Iterable[TopicPartition]) -> None:
        """An earlier rewind may have shifted these already: to shift them again would be once too often."""
        shifted = [str(one) for one in sorted(left) if isinstance(self.targets[one], ShiftBy)]
        if shifted:
            raise NothingToReset(
                f"an earlier rewind of group {self.group_id} left {', '.join(shifted)} paused, and may have "
                "shifted them already: rewind to an offset or a time instead, or resume them"
            )

    def _wait(self) -> Mapping[TopicPartition, PausedPartition]:
        def on_progress(waiting: Waiting) -> None:
            self._tell(RewindStep.WAITING, waiting.waiting_for, waiting.elapsed_s)

        return wait_until_released(self.cluster, self.group_id, self.targets, self.timeout_s, on_progress)

    def _set(self, planned: list[PlannedOffset], done: list[PlannedOffset]) -> None:
        """Set what differs; `done` has it from when it may be set."""
        changed = [each for each in planned if each.committed is None or each.committed.offset != each.offset]
        if changed:
            done += changed
            try:
                wanted = {each.partition: each.offset for each in changed}
                self._commit_surely(wanted, _old_offsets(changed))
            except OffsetsMoved:
                done.clear()
                raise

    def _commit_surely(
        self,
        wanted: offsets.Offsets,
        expected: offsets.Expected,
    ) -> None:
        """Commit on condition, also when an answer is lost: then the first attempt may have done it."""
        for attempt in range(_ATTEMPTS):
            try:
                offsets.commit_offsets(self.cluster, self.group_id, wanted, expected, self.topic_ids)
                return
            except OutcomeUnknown:
                if attempt == _ATTEMPTS - 1:
                    raise
            except OffsetsMoved as moved:
                if attempt and all(moved.current.get(one) == _offset(value) for one, value in wanted.items()):
                    return
                raise

    # --- cleaning up ---

    def _clean_up(self, failure: BaseException, done: list[PlannedOffset], own: list[TopicPartition]) -> None:
        """Put the offsets back, and resume. Raises `RewindUnfinished` where that fails too."""
        if done:
            self._tell_safely(RewindStep.RESTORING)
            try:
                self._restore(done)
            except (ClientError, KeyboardInterrupt) as problem:
                failure.add_note(f"the offsets could not be put back: {problem}")
                raise RewindUnfinished(self.group_id, own, "offsets may be set") from failure
        self._tell_safely(RewindStep.RESUMING)
        self._resume(own, "no offset is changed", failure)
        failure.add_note("the partitions are resumed, and no offset is changed")

    def _restore(self, done: list[PlannedOffset]) -> None:
        committed = offsets.fetch_offsets(self.cluster, self.group_id, [each.partition for each in done])
        changed = [each for each in done if each.partition in committed]
        changed = [each for each in changed if committed[each.partition].offset == each.offset]
        if changed:
            old = {each.partition: each.committed for each in changed}
            self._commit_surely(old, {each.partition: each.offset for each in changed})

    def _resume(
        self, own: list[TopicPartition], state: str, failure: BaseException | None = None
    ) -> set[TopicPartition]:
        """Resume; return what is. After a `failure` an interruption ends it too: the caller must learn what
        was left.
        """
        expected = ClientError if failure is None else (ClientError, KeyboardInterrupt)
        try:
            return pauses.resume_of_rewinds(self.cluster, self.group_id, own)
        except expected as problem:
            raise RewindUnfinished(self.group_id, own, state) from (failure or problem)

    def _tell(
        self, step: RewindStep, waiting_for: tuple[PausedPartition, ...] = (), elapsed_s: float = 0.0
    ) -> None:
        self.on_progress(RewindProgress(step=step, waiting_for=waiting_for, elapsed_s=elapsed_s))

    def _tell_safely(self, step: RewindStep) -> None:
        """A display that fails, or is interrupted once more, must not keep partitions paused."""
        with contextlib.suppress(BaseException):  # the first failure is the one to raise
            self._tell(step)


def _old_offsets(planned: Iterable[PlannedOffset]) -> dict[TopicPartition, int | None]:
    return {each.partition: None if each.committed is None else each.committed.offset for each in planned}


def _offset(value: int | CommittedOffset | None) -> int | None:
    return value.offset if isinstance(value, CommittedOffset) else value


def system_time() -> Millis:
    """Return the system's time in ms."""
    return Millis(time.time_ns() // 1_000_000)
