"""How long the event loop is held by one step, and by what.

A step is whatever runs on the loop without a pause: a request, the requests of a turn, a timer, a slice of
background work. While one runs nobody else is served. Rules:

1. Who begins a step says what it is (`begin`, `end`); a step within a step belongs to the outer one. That is
   all the loop pays for.
2. A thread asks the loop every `SAMPLE_SECONDS` to come round. So steps that nobody named are measured as
   well, by at most that much too short.
3. When a step lasts longer than `STALL_SECONDS` the thread notes where the loop's thread is. The warning that
   follows when the step ends names what was served and that place. Modules that are compiled have no place.
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
from time import perf_counter
from typing import Final, NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from headgate.runtime.gauges import gauge

logger = logging.getLogger(__name__)

STALL_SECONDS: Final = 0.1
SAMPLE_SECONDS: Final = 0.05
WINDOW_SECONDS: Final = 60.0
"""The longest stall is that of the current window and the one before it: of the last one to two minutes."""
UNKNOWN = "unknown"
_FRAMES_TOLD: Final = 3
_PACKAGE = Path(__file__).parents[1]


class Step(Protocol):
    """What is served in a step."""

    @property
    def step_name(self) -> str:
        """The name of the API or of the job."""
        ...

    @property
    def step_client(self) -> str | None:
        """Who asked for it, if anybody did."""
        ...


class Job(NamedTuple):
    """A step that no client asked for."""

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
        """When the loop was asked to come round; None when it has."""
        self._told_at = 0.0
        """When a stall was told last."""
        self._place: str | None = None
        """Where the loop's thread was seen in a stall that is not over."""
        self.stalls: Counter[str] = Counter()
        """How many steps lasted longer than `STALL_SECONDS`, by the name of what was served."""

    # --- on the loop ---

    def begin(self, step: Step) -> Step | None:
        """A step begins; what is returned is to be given to `end`."""
        outer = self._step
        if outer is None:
            self._step = step
            self._began = self._seconds()
        return outer

    def end(self, outer: Step | None) -> None:
        """The step that began last ends."""
        if outer is not None:
            return
        step, self._step = self._step, None
        now = self._seconds()
        seconds = now - self._began
        if seconds > self._longest or now >= self._window_began + WINDOW_SECONDS:
            self._measured(seconds)
        if seconds > STALL_SECONDS and step is not None:
            self._tell(step, seconds)

    def step(self, name: str) -> AbstractContextManager[None]:
        """A step of that name, for as long as the block lasts."""
        return _NamedStep(self, name)

    def _came_round(self) -> None:
        """The loop has finished what it did when it was asked."""
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is None:
            return
        seconds = self._seconds() - asked_at
        if self._told_at < asked_at:  # otherwise most of it was one step, which was measured
            self._measured(seconds)
            if seconds > STALL_SECONDS:
                self._tell(Job(UNKNOWN), seconds)
        self._place = None

    def _measured(self, seconds: float) -> None:
        self._longest = max(self._longest_seconds_now(), seconds)

    def _longest_seconds_now(self) -> float:
        """The longest of the current window, which is a new one when its time is over."""
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
        """The longest that one step held the loop in the last one to two minutes."""
        return max(self._longest_seconds_now(), self._longest_before)

    def gauges(self) -> Iterator[Metric]:
        """What was measured, for the metrics."""
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

    # --- in the watching thread ---

    def watching(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        """Have a thread look after the loop of the calling thread, for as long as the block lasts."""
        return _Watching(self, loop)

    def sample(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        """Ask the loop to come round; where it does not, see where its thread is."""
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at = self._seconds()
            loop.call_soon_threadsafe(self._came_round)
        elif self._seconds() - asked_at >= STALL_SECONDS - SAMPLE_SECONDS:
            self._place = _place_of(loop_thread) or self._place


class _NamedStep:
    """A step that no client asked for, as a block."""

    def __init__(self, watch: LoopWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._outer: Step | None = None

    def __enter__(self) -> None:
        self._outer = self._watch.begin(Job(self._name))

    def __exit__(self, *failure: object) -> None:
        self._watch.end(self._outer)


class _Watching:
    """The thread that looks after a loop, for as long as the block lasts."""

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
        while not self._stop.wait(SAMPLE_SECONDS):
            self._watch.sample(self._loop, self._loop_thread)


def _place_of(thread: int) -> str | None:
    """The innermost functions a thread is in, the innermost first."""
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
