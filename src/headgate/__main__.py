"""`headgate`, and `python -m headgate`: the command line.

Nothing is imported before `main`, so that Ctrl-C ends a command without a traceback while its libraries are
loaded, too.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process."""
    try:
        from headgate.cli import main as run

        run()
    except KeyboardInterrupt:
        leave(INTERRUPTED)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            leave(end.code or 0)
        raise


def leave(code: int) -> None:
    """End the process with this exit code.

    Threads of Arrow can outlive the command. One that asks for the interpreter at its end aborts the
    process (SIGABRT) after everything is done. So with Arrow the interpreter is not finalized.
    """
    if "pyarrow" not in sys.modules:
        sys.exit(code)
    import atexit
    import os
    from contextlib import suppress

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or its reader is gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
