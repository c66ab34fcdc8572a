"""Standard output that cannot be written: its disk is full, or its reader has gone.

The error has a class of its own: a command that reads files would take an `OSError` for that of a file.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import Any

from headgate.cli.printing import say

EXIT_CODE = 1


class OutputLost(Exception):
    """Standard output cannot be written. The message says why."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(f"standard output cannot be written: {problem.strerror}")
        self.is_closed = problem.errno == errno.EPIPE
        """Whether its reader has gone, as `head` does after its last line: that is no fault."""


class _Output(FileIO):
    """Raises the error once. What is buffered is dropped then: the interpreter would try again at its end."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as problem:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            raise OutputLost(problem) from None


def open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller has closed, as `>&-` does.

    The next file that is opened would take its descriptor, and get what is written to the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free: this one
        if getattr(sys, name) is None:
            file = FileIO(os.devnull, "r" if name == "stdin" else "w")
            stream = BufferedReader(file) if name == "stdin" else BufferedWriter(file)
            text = TextIOWrapper(stream, encoding="utf-8")
            setattr(sys, name, text)
            setattr(sys, f"__{name}__", text)  # keeps it open when another stream takes its place


@contextmanager
def guarded_output() -> Iterator[None]:
    """Write standard output to its end; end the process with one line if that is not possible.

    What is buffered is written here, while an error can still be told.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = _guarded(sys.stdout)
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OutputLost as lost:
        if not lost.is_closed:
            say(str(lost))
        sys.exit(EXIT_CODE)


def check_reader() -> None:
    """Raise `OutputLost` if the reader of the output has gone: a command that waits has nothing to write."""
    buffer = getattr(sys.stdout, "buffer", None)
    if not isinstance(getattr(buffer, "raw", None), _Output):
        return
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are told without being asked for
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise OutputLost(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def _guarded(stream: TextIOWrapper) -> TextIOWrapper:
    """Return a stream to the same file. Names of files need not be valid in its encoding."""
    return TextIOWrapper(
        BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )
