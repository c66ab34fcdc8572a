"""Ctrl-C ends a command without a traceback, at any time."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from headgate.__main__ import main

class Interrupting:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path, target=None):
        if name == self.module:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting(sys.argv.pop(1)))
main()
"""
"""Sends the signal when a module is about to be loaded."""


@pytest.mark.parametrize(
    "module", ["headgate.cli", "typer", "headgate.cli.printing", "headgate.admin", "headgate.client.cluster"]
)
def test_ctrl_c_while_a_module_is_loaded(module: str) -> None:
    """The exit code is 130, and nothing is printed."""
    command = [sys.executable, "-c", PROGRAM, module, "lag", "--bootstrap-server", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
