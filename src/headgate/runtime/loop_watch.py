"""Measurement of how long single steps block the event loop, and which ones.

A step is anything that runs on the loop without a pause: a request, a group of repeated requests, a timer, a
slice of background work. During a step nothing else is served. Rules:

1. The code that begins a step names it (`begin`, `end`). A step within a step belongs to the outer one. This
   is all that the loop pays for.
2. A thread schedules a callback on the loop every `SAMPLE_SECONDS`. So unnamed steps are measured too, short
   by at most this much.
3. When a step exceeds `STALL_SECONDS`, the thread records the current function of the loop's thread. The
   warning at the end of the step names the step and this function. Compiled modules have no such place.
4. When the thread itself wakes late by `STOPPED_SECONDS` and the process used hardly any processor time
   meanwhile, the process did not run: it was stopped (SIGSTOP, a debugger, a machine that was paused), or it
   waited for a page from the disk. Clients saw a server that does not answer, so it is logged.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter, process_time
from typing import Final, NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from headgate.runtime.gauges import gauge

logger = logging.getLogger(__name__)

STALL_SECONDS: Final = 0.1
SAMPLE_SECONDS: Final = 0.05
STOPPED_SECONDS: Final = 1.0
_MOST_BUSY: Final = 0.2
"""Share of its time for which a process that did not run can have used a processor, at most."""
WINDOW_SECONDS: Final = 60.0
"""Window of the longest stall, which is taken of the current window and the one before it."""
UNKNOWN = "unknown"
NOT_RUNNING = "not running"
"""What is counted as `serving` while the process did not run."""
_FRAMES_TOLD: Final = 3
_PACKAGE = Path(__file__).parents[1]


class Step(Protocol):
    """What is served in a step."""

    @property
    def step_name(self) -> str:
        """Name of the API or the job."""
        ...

    @property
    def step_client(self) -> str | None:
        """The client that asked for it, if any."""
        ...


class Job(NamedTuple):
    """A step without a client."""

    step_name: str
    step_client: str | None = None


class LoopWatch:
    """Measures the steps of one event loop."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._step: Step | None = None
        self._began = 0.0
        self._window_began = seconds()
        self._longest = 0.0
        self._longest_before = 0.0
        self._asked_at: float | None = None
        """Time at which the callback was scheduled; None after it has run."""
        self._told_at = 0.0
        """Time of the last warning."""
        self._place: str | None = None
        """Function of the loop's thread in a stall that has not ended."""
        self.stalls: Counter[str] = Counter()
        """Number of steps longer than `STALL_SECONDS`, by name."""
        self.busy_seconds: dict[str, float] = {}
        """Time on the loop in named steps, by name."""

    # --- on the loop ---

    def begin(self, step: Step) -> Step | None:
        """Begin a step. Return the outer step, to be passed to `end`."""
        outer = self._step
        if outer is None:
            self._step = step
            self._began = self._seconds()
        return outer

    def end(self, outer: Step | None) -> None:
        """End the step that began last."""
        if outer is not None:
            return
        step, self._step = self._step, None
        now = self._seconds()
        seconds = now - self._began
        if step is not None:
            name, busy = step.step_name, self.busy_seconds
            busy[name] = busy.get(name, 0.0) + seconds
        if seconds > self._longest or now >= self._window_began + WINDOW_SECONDS:
            self._measured(seconds)
        if seconds > STALL_SECONDS and step is not None:
            self._tell(step, seconds)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Make a context manager that runs its block as a step of this name."""
        return _NamedStep(self, name)

    def _came_round(self) -> None:
        """Measure the delay of the scheduled callback."""
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is None:
            return
        seconds = self._seconds() - asked_at
        if self._told_at < asked_at:  # otherwise a named step caused most of it, and was measured
            self._measured(seconds)
            if seconds > STALL_SECONDS:
                self._tell(Job(UNKNOWN), seconds)
        self._place = None

    def did_not_run(self, seconds: float) -> None:
        """Tell that the whole process did not run for this time."""
        self._measured(seconds)
        self.stalls[NOT_RUNNING] += 1
        logger.warning(
            "the process did not run",
            extra={
                "seconds": round(seconds, 3),
                "reason": "it was stopped, or the machine had no time for it",
            },
        )

    def _measured(self, seconds: float) -> None:
        self._longest = max(self._longest_seconds_now(), seconds)

    def _longest_seconds_now(self) -> float:
        """Return the longest duration of the current window; start a new window when it is over."""
        windows = (self._seconds() - self._window_began) // WINDOW_SECONDS
        if windows:
            self._longest_before = self._longest if windows == 1 else 0.0
            self._longest = 0.0
            self._window_began += windows * WINDOW_SECONDS
        return self._longest

    def _tell(self, step: Step, seconds: float) -> None:
        self._told_at = self._seconds()
        place, self._place = self._place, None
        self.stalls[step.step_name] += 1
        fields = {"serving": step.step_name, "client": step.step_client, "at": place}
        logger.warning(
            "the event loop was held up",
            extra={
                "seconds": round(seconds, 3),
                **{name: value for name, value in fields.items() if value is not None},
            },
        )

    # --- for the metrics ---

    def longest_stall_seconds(self) -> float:
        """Return the longest step of the last one to two minutes, in seconds."""
        return max(self._longest_seconds_now(), self._longest_before)

    def gauges(self) -> Iterator[Metric]:
        """Return the measurements, for the metrics."""
        yield gauge(
            "headgate_loop_longest_stall_seconds",
            "The longest that one step held the event loop, in the last one to two minutes.",
            [((), self.longest_stall_seconds())],
        )
        stalls = CounterMetricFamily(
            "headgate_loop_stalls",
            f"Steps that held the event loop for more than {STALL_SECONDS} seconds.",
            labels=["serving"],
        )
        for name, count in list(self.stalls.items()):
            stalls.add_metric([name], count)
        yield stalls
        busy = CounterMetricFamily(
            "headgate_loop_busy_seconds",
            "Time on the event loop by API or job: the work of the server, without any waiting.",
            labels=["serving"],
        )
        for name, total in sorted(self.busy_seconds.items()):
            busy.add_metric([name], total)
        yield busy

    # --- in the watching thread ---

    def watching(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        """Make a context manager that watches the loop of the calling thread from another thread."""
        return _Watching(self, loop)

    def sample(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        """Schedule the callback on the loop; if the last one has not run, record the thread's place."""
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at = self._seconds()
            loop.call_soon_threadsafe(self._came_round)
        elif self._seconds() - asked_at >= STALL_SECONDS - SAMPLE_SECONDS:
            self._place = _place_of(loop_thread) or self._place


class _NamedStep:
    """Context manager for a step without a client."""

    def __init__(self, watch: LoopWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._outer: Step | None = None

    def __enter__(self) -> None:
        self._outer = self._watch.begin(Job(self._name))

    def __exit__(self, *failure: object) -> None:
        self._watch.end(self._outer)


class _Watching:
    """Context manager for the thread that watches a loop."""

    def __init__(self, watch: LoopWatch, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = watch
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look, name="headgate-loop-watch", daemon=True)

    def __enter__(self) -> None:
        self._looking.start()

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._looking.join()

    def _look(self) -> None:
        woke, busy = perf_counter(), process_time()
        while not self._stop.wait(SAMPLE_SECONDS):
            woke_before, busy_before = woke, busy
            woke, busy = perf_counter(), process_time()
            late = woke - woke_before - SAMPLE_SECONDS
            if late > STOPPED_SECONDS and busy - busy_before < _MOST_BUSY * late:
                self._loop.call_soon_threadsafe(self._watch.did_not_run, late)
            self._watch.sample(self._loop, self._loop_thread)


def _place_of(thread: int) -> str | None:
    """Return the innermost functions of a thread's stack, the innermost first."""
    frame = sys._current_frames().get(thread)
    innermost = frame
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES_TOLD:
        path = Path(frame.f_code.co_filename)
        if frame is innermost or path.is_relative_to(_PACKAGE) or path.name.startswith("<"):
            name = path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else path.name
            places.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(places) or None
