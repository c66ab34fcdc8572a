"""A check of the threads beside the event loop: which guarded functions they call.

`threading.setprofile` reports every call in threads that begin later, and none in the main thread, whose loop
runs at full speed. Calls of guarded functions that the thread is not allowed to make are written to a report.
Compiled modules report no calls: the guard sees only Python source.

It imports nothing of the project, because a server process loads it first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPORT_VARIABLE = "HEADGATE_THREAD_REPORT"
"""Environment variable with the file for the findings of guarded processes, one per line."""

GUARDED = ("api", "core", "history", "log.log", "runtime", "server", "topics")
"""Rooms and modules with state. `records`, `wire` and `domain` hold values, and the rest of `log` belongs to
its creator."""

OPENING = (
    "log.log:Log.__init__",
    "log.log:Log._load",
    "log.log:Log.batches",
    "log.log:Log.close_files",
    "log.log:Log.files",
    "log.log:Log.header_of",
    "log.log:Log.open",
    "log.log:Log.segments",
    "log.log:Log.size_bytes",
    "topics.leader_epochs:*",
    "topics.names:*",
    "topics.log_opening:LogOpening.open_log",
    "topics.log_opening:_close_unused",
    "topics.partition_log:PartitionLog.__str__",
    "topics.partition_log:PartitionLog._load",
    "topics.partition_log:PartitionLog._truncated",
    "topics.partition_files:*",
    "topics.policy:*",
    "topics.producers:*",
    "topics.snapshot:*",
    "topics.topic:Topic.directory_of",
    "topics.topic:Topic.is_written",
    "topics.topic:Topic.load_log",
    "topics.topic:Topic.log_settings",
    "topics.topic:Topic.policy",
    "topics.transaction_loading:*",
    "topics.transactions:Transactions.*",
)
"""A log is created and read where it is opened; at that time no other thread has it."""

OF_THE_SERVER: Mapping[str, tuple[str, ...]] = {
    "headgate-sync": ("runtime.syncing:ThreadSyncer._work",),
    "headgate-stop-sync": ("log.sync:run_together.<locals>.work",),
    "headgate-checkpoint*": (),
    "headgate-compaction*": OPENING,
    "headgate-history*": (
        *OPENING,
        "api.k20004_describe_offset_history:_*",
        "core.offsets.history:*",
        "history.outcomes:Outcomes.counts*",
        "history.scan:_Reader.*",
        "history.scan:_Scan._finish",
        "history.scan:_elsewhere.<locals>.<lambda>",
    ),
    "headgate-housekeeping*": OPENING,
    "headgate-failing-logs*": OPENING,
    "headgate-requests*": (
        *OPENING,
        "api.fetch_messages:*",
        "api.k00_produce:_Produce._answer.<locals>.<lambda>",
        "api.k01_fetch:*._answer.<locals>.<lambda>",
        "api.k27_write_txn_markers:_Markers.count_down.<locals>.<lambda>",
        "api.k78_share_fetch:_response*",
        "api.k78_share_fetch:_partition_data*",
        "api.k79_share_acknowledge:_response*",
        "api.share_requests:acknowledge_message",
        "api.share_requests:by_topic",
        "api.k08_offset_commit:_commit_later.<locals>.<lambda>",
        "api.k66_list_transactions:_keep",
        "core.topic_pattern:TopicPattern.matches",
        "api.offset_topics:unknown_topic_error",
        "api.k09_offset_fetch:_answer",
        "api.k11_join_group:handle.<locals>.on_result.<locals>.<lambda>",
        "api.k11_join_group:_response",
        "api.k13_leave_group:handle.<locals>.on_result.<locals>.<lambda>",
        "api.k13_leave_group:_several",
        "api.k20003_list_paused_partitions:handle.<locals>.answer.<locals>.<lambda>",
        "api.k20005_describe_offset_expiry:handle.<locals>.*",
        "server.calls:PendingCall.frame_of",
        "server.shares.searching:_run",
        "server.shares.letters:*",
        "log.header:read_bounds",
        "topics.admission:*",
        "server.request_work:*.<lambda>",
    ),
    "headgate-batch-check*": (
        "runtime.aside:AsideThread._run",
        "topics.admission:*",
        "topics.appends:_Pending.check",
        "topics.appends:_pause",
        "topics.partition_files:save_snapshot",
        "topics.producers:ProducerCopy.to_bytes",
        "topics.snapshot:Snapshot.*",
    ),
    "headgate-loop-watch": (
        "runtime.loop_watch:LoopWatch.sample",
        "runtime.loop_watch:_Watching._look",
        "runtime.loop_watch:_place_of",
    ),
    "headgate-metrics*": (
        "server.scraping:_as_text",
        "server.scraping:_Found.*",
    ),
}
"""Allowed functions, as patterns, by thread name. docs/threads.md gives the reasons."""

ALLOWED: Mapping[str, tuple[str, ...]] = {
    **OF_THE_SERVER,
    # Tests run the same functions in their own threads.
    "Thread-* (open_log)": OPENING,
    "test*": ("log.log:Log.files", "runtime.aside:AsideThread._run"),
    "headgate-test*": ("log.log:Log.files", "runtime.aside:AsideThread._run"),
}

_PACKAGE = f"{os.sep}headgate{os.sep}"


def function_name(code: CodeType) -> str | None:
    """Return `room.module:Class.function`, or None for an unguarded function."""
    _, found, inner = code.co_filename.rpartition(_PACKAGE)
    if not found:
        return None
    module = inner.removesuffix(".py").replace(os.sep, ".")
    if not any(module == there or module.startswith(there + ".") for there in GUARDED):
        return None
    return f"{module}:{code.co_qualname}"


def is_allowed(thread_name: str, function: str) -> bool:
    """Return whether a thread of this name may call the function or a function defined in it."""
    return any(
        fnmatchcase(function, allowed) or fnmatchcase(function, allowed + ".<locals>.*")
        for name, functions in ALLOWED.items()
        if fnmatchcase(thread_name, name)
        for allowed in functions
    )


class Guard:
    """The profile function of all threads that begin after `install`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets a line for each forbidden pair of function and thread, once."""
        self._tell = tell
        self._told: set[tuple[str, CodeType]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        thread_name = threading.current_thread().name
        known = (thread_name, code)
        if known in self._told:
            return
        self._told.add(known)
        function = function_name(code)
        if function is not None and not is_allowed(thread_name, function):
            caller = frame.f_back and f"{frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno}"
            self._tell(f"{thread_name} called {function} from {caller}")

    def install(self) -> None:
        """Check all threads that begin from now on."""
        threading.setprofile(self)


def appender(report: Path) -> Callable[[str], None]:
    """Make a function that appends lines to a file, to which other processes append too."""

    def tell(line: str) -> None:
        descriptor = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (line + "\n").encode())
        finally:
            os.close(descriptor)

    return tell
