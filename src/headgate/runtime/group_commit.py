"""Group commit: one sync of a log serves every request that was written before the sync began.

A sync runs beside the event loop (`headgate.runtime.syncing`). Meanwhile the next loop iterations append to
the same log. The next sync, which starts when this one ends, serves them. There is no delay by a timer: an
idle server syncs at once, a busy one as often as the disk can. Each log has its own queue, and none waits for
the sync of another.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter

from headgate.log.log import Log
from headgate.log.sync import SyncRequest
from headgate.runtime.failures import Where, unexpected
from headgate.runtime.syncing import Syncer, syncer_for

logger = logging.getLogger(__name__)

OnDone = Callable[[bool], None]


class _Line:
    """The callbacks that wait for one log, and those that the running sync serves."""

    __slots__ = ("is_begun", "request", "served", "started", "waiting")

    def __init__(self) -> None:
        self.waiting: list[OnDone] = []
        self.served: list[OnDone] = []
        self.is_begun = False
        """Whether a sync runs, or will begin at the end of this loop iteration."""
        self.request: SyncRequest | None = None
        self.started = 0.0


class GroupCommit:
    """Calls back when the contents of a log at the time of the call are durable."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        observe_sync: Callable[[float], None],
        syncer: Syncer | None = None,
    ) -> None:
        """`observe_sync` gets the duration of each sync in seconds."""
        self._loop = loop
        self._observe_sync = observe_sync
        self._syncer = syncer or syncer_for(loop)
        self._lines: dict[Log, _Line] = {}
        self._is_closed = False

    def when_durable(self, log: Log, on_done: OnDone) -> None:
        """Call `on_done(True)` when all that `log` holds now is durable, or `on_done(False)` if a sync fails.

        After a failure `log.failure` holds the error. The caller logs it, because one failed sync serves many
        requests.

        The sync begins at the end of this loop iteration, so that it serves all appends of the iteration.
        """
        if self._is_closed:
            self._loop.call_soon(on_done, False)
            return
        line = self._lines.get(log)
        if line is None:
            line = self._lines[log] = _Line()
        line.waiting.append(on_done)
        if not line.is_begun:
            line.is_begun = True
            self._loop.call_soon(self._begin, log, line)

    def begin(self, log: Log) -> None:
        """Begin a requested sync now, if none runs, and not at the end of the loop iteration."""
        line = self._lines.get(log)
        if line is not None:
            self._begin(log, line)

    def close(self) -> None:
        """Wait for the running syncs, then sync the rest, blocking, so that their replies can be sent.

        Later requests get `on_done(False)`.
        """
        self._is_closed = True
        self._syncer.close()
        lines, self._lines = self._lines, {}
        for log, line in lines.items():
            if line.request is not None:
                served, line.served = line.served, []
                _call_all(served, _complete(log, line.request))
            if line.waiting:
                _call_all(line.waiting, _sync_here(log))

    def _begin(self, log: Log, line: _Line) -> None:
        if self._lines.get(log) is not line:
            return  # closed
        if line.request is not None:
            return  # `begin` was called
        line.served, line.waiting = line.waiting, []
        line.started = perf_counter()
        try:
            request = log.begin_sync()
        except OSError:  # a file cannot be opened again; the log has failed
            self._end(log, line, is_durable=False)
            return
        line.request = request
        try:
            self._syncer.run(request, lambda: self._on_run(log, line, request))
        except Exception as problem:  # for example, no thread can be started
            request.end(OSError(errno.EIO, f"nothing runs the sync: {problem!r}"))
            self._end(log, line, is_durable=_complete(log, request))

    def _on_run(self, log: Log, line: _Line, request: SyncRequest) -> None:
        if self._lines.get(log) is not line:
            return
        self._observe_sync(perf_counter() - line.started)
        self._end(log, line, is_durable=_complete(log, request))

    def _end(self, log: Log, line: _Line, *, is_durable: bool) -> None:
        served, line.served, line.request = line.served, [], None
        if line.waiting:
            self._loop.call_soon(self._begin, log, line)  # also serves the requests that arrive until then
        else:
            line.is_begun = False
            del self._lines[log]
        _call_all(served, is_durable)


def _sync_here(log: Log) -> bool:
    try:
        request = log.begin_sync()
    except OSError:
        return False
    with suppress(OSError):  # the request keeps the error, and _complete reports it
        request.run()
    return _complete(log, request)


def _complete(log: Log, request: SyncRequest) -> bool:
    try:
        log.complete_sync(request)
    except OSError:
        return False
    return True


def _call_all(callbacks: Iterable[OnDone], is_durable: bool) -> None:
    for callback in callbacks:
        try:
            callback(is_durable)
        except Exception as failure:
            unexpected(Where.SYNC, "what waited for a sync failed", failure)
