"""Long work of requests: on the loop in slices, and in threads where it would block the loop.

Rules:

1. The work is a generator. It yields None where a slice may end, a function to run it in a thread, and a
   future to wait for it. An exception of that function or future is raised at the yield.
2. `run` takes the first slice at once. So short work is done when `run` returns, and needs no loop iteration.
3. After that, each iteration of the loop runs one slice of one piece of work; the pieces alternate.
4. At most `THREADS` functions run in threads at a time, in the order of their arrival.
5. An exception of `on_done` or `on_failed` is the caller's in the first slice, and then the event loop's. It
   stops no other piece of work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from headgate.api.contract import RequestSteps
from headgate.runtime.asking import NOW, Asker
from headgate.runtime.loop_watch import Job, LoopWatch, Step

if TYPE_CHECKING:
    from headgate.server.calls import PendingCall
    from headgate.wire.message import Message
from headgate.wire.pieces import Frames

ResultT = TypeVar("ResultT")
Answer = Callable[[], None]

FIRST_SLICE_SECONDS = 0.001
SLICE_SECONDS = 0.005
MOST_WRITTEN_AT_ONCE = 100
"""Steps above which the response is encoded in a thread: it has about as many parts as there were steps."""
THREADS = 2
"""The threads share the interpreter with the loop: each of them delays the loop by some milliseconds."""


def reading(call: PendingCall, frame: bytes) -> RequestSteps[Any]:
    """Decode a large request in a thread. Return the request. Raises `WireError`."""
    route, read = call.route, []
    yield lambda: read.append(route.read(frame, route.body_at))
    return read[0]


def making(call: PendingCall, make: Callable[[], Message]) -> RequestSteps[Frames]:
    """Make and encode a response in a thread. Return its frame."""
    frames: list[Frames] = []
    yield lambda: frames.append(call.frame_of(make()))
    return frames[0]


def answering(call: PendingCall, steps: RequestSteps[Message]) -> RequestSteps[Answer]:
    """Run the steps to a response. Return a function that sends it, encoded if there were many."""
    count = 0
    problem: Exception | None = None
    try:
        while True:
            waits_for = next(steps) if problem is None else steps.throw(problem)
            problem = None
            count += 1
            try:
                yield waits_for
            except Exception as raised:
                problem = raised
    except StopIteration as stop:
        response: Message = stop.value
    if count <= MOST_WRITTEN_AT_ONCE:
        return partial(call.answer, response)
    frames: list[Frames] = []
    yield lambda: frames.append(call.frame_of(response))
    return partial(call.answer_frame, frames[0])


class _Piece(NamedTuple):
    steps: RequestSteps[Any]
    step: Step
    on_done: Callable[[Any], None]
    on_failed: Callable[[Exception], None]


class RequestWork:
    """Runs the work of all requests of a node."""

    seconds: Callable[[], float] = staticmethod(perf_counter)
    """Monotonic clock, in seconds."""

    def __init__(self, watch: LoopWatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._watch = watch
        self._executor = ThreadPoolExecutor(THREADS, "headgate-requests")
        self._queue: deque[_Piece] = deque()
        self._is_turn_due = False
        self._is_closed = False

    def run(
        self,
        steps: RequestSteps[ResultT],
        step: Step,
        on_done: Callable[[ResultT], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Run work to its end and pass its result to `on_done`. `step` names the request it belongs to."""
        self._go_on(_Piece(steps, step, on_done, on_failed), FIRST_SLICE_SECONDS)

    def close(self) -> None:
        """Stop, and drop all work that is not done."""
        self._is_closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)
        pieces, self._queue = self._queue, deque()
        for piece in pieces:
            piece.steps.close()

    def _enqueue(self, piece: _Piece) -> None:
        if self._is_closed:
            piece.steps.close()
            return
        self._queue.append(piece)
        self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if self._queue and not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        try:
            if self._queue:
                self._go_on(self._queue.popleft(), SLICE_SECONDS)
        finally:
            self._ask_for_turn()

    def _go_on(self, piece: _Piece, slice_seconds: float, problem: Exception | None = None) -> None:
        """Run one slice, with the request as the current asker. A job has no client that is given up."""
        outer, asker_before = self._watch.begin(piece.step), NOW.asker
        NOW.asker = None if isinstance(piece.step, Job) else cast(Asker, piece.step)
        try:
            self._slice(piece, slice_seconds, problem)
        finally:
            NOW.asker = asker_before
            self._watch.end(outer)

    def _slice(self, piece: _Piece, slice_seconds: float, problem: Exception | None) -> None:
        steps, end = piece.steps, self.seconds() + slice_seconds
        try:
            waits_for = next(steps) if problem is None else steps.throw(problem)
            while waits_for is None:
                if self.seconds() > end:
                    self._enqueue(piece)
                    return
                waits_for = next(steps)
        except StopIteration as stop:
            result = stop.value
        except Exception as failure:
            piece.on_failed(failure)
            return
        else:
            self._wait(piece, waits_for)
            return
        piece.on_done(result)

    def _wait(self, piece: _Piece, waits_for: Callable[[], None] | Future[Any]) -> None:
        if isinstance(waits_for, Future):
            waiting: asyncio.Future[Any] = asyncio.wrap_future(waits_for, loop=self._loop)
        elif self._is_closed:
            piece.steps.close()
            return
        else:
            waiting = self._loop.run_in_executor(self._executor, waits_for)
        waiting.add_done_callback(partial(self._waited, piece))

    def _waited(self, piece: _Piece, waiting: asyncio.Future[Any]) -> None:
        """Continue a piece of work whose future is done."""
        if waiting.cancelled() or (problem := waiting.exception()) is None:
            self._enqueue(piece)
        elif isinstance(problem, Exception):
            self._go_on(piece, SLICE_SECONDS, problem)
        else:
            raise problem
