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


def test_nothing_is_loaded_before_ctrl_c_is_caught() -> None:
    """The start of the command loads the package and the module with `main`, and no library."""
    program = "import sys; old = set(sys.modules); import headgate.__main__; print(*(set(sys.modules) - old))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"headgate", "headgate.__main__", "__future__"}


def test_the_package_has_the_broker() -> None:
    """It is loaded when it is used. Another name is an error, as in any module."""
    import headgate
    from headgate import Broker, BrokerFailed, run

    assert {headgate.Broker, headgate.BrokerFailed, headgate.run} == {Broker, BrokerFailed, run}
    with pytest.raises(AttributeError, match="no attribute 'Brokr'"):
        _ = headgate.Brokr  # type: ignore[attr-defined]
