"""Headgate's own commands, run as a user would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rich.console import Console

from demo.broker import DemoBroker
from demo.story import DemoFailed

COMMAND_TIMEOUT_S = 30.0


def show_consumer_groups(console: Console, broker: DemoBroker, words: list[str]) -> str:
    """Run `headgate consumer-groups`, print its output, and return its rows."""
    return show(console, broker, "consumer-groups", words)


def show(console: Console, broker: DemoBroker, name: str, words: list[str]) -> str:
    """Run one of Headgate's commands, print its output, and return its rows."""
    executable = Path(sys.executable).with_name("headgate")
    command = [str(executable), name, "--bootstrap-server", broker.address, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    console.print(f"\n  $ headgate {name} {' '.join(words)}", markup=False, highlight=False)
    for line in (ended.stderr + ended.stdout).splitlines():
        console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
    if ended.returncode:
        raise DemoFailed(f"headgate {name} ended with exit code {ended.returncode}")
    return ended.stdout
