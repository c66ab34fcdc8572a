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
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
