"""The process in Spark's driver that a stream's reader lives in."""

from __future__ import annotations

import signal
import subprocess
import sys

READER = """
import time
from headgate.spark.stream.member import stop_on_sigterm

stop_on_sigterm()
try:
    print("reads", flush=True)
    time.sleep(60)
finally:
    print("leaves", flush=True)
    time.sleep(0.5)
    print("has left", flush=True)
"""


def test_a_second_sigterm_does_not_interrupt_the_leaving_of_the_group() -> None:
    """Spark sends one to end the call of a stopped query, and one to end the process."""
    process = subprocess.Popen([sys.executable, "-c", READER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "reads\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "leaves\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "has left\n"
    assert process.returncode == 128 + signal.SIGTERM
