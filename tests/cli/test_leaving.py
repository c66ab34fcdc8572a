"""The end of the process of a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import atexit
{imports}
from headgate.__main__ import leave

class Torn:
    def __del__(self):
        print("the interpreter is finalized", flush=True)

torn = Torn()
atexit.register(print, "registered functions run")
print("printed before")
leave(3)
"""


@pytest.mark.parametrize(
    ("imports", "last"),
    [("", ["the interpreter is finalized"]), ("import pyarrow", [])],
    ids=["without Arrow", "with Arrow"],
)
def test_a_command_with_arrow_ends_without_the_end_of_the_interpreter(imports: str, last: list[str]) -> None:
    """Arrow's threads can outlive the command, and one that asks for an interpreter at its end aborts the
    process: about one command in a hundred on a busy machine ended with SIGABRT, with its whole answer.
    """
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(imports=imports)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == ["printed before", "registered functions run", *last]
