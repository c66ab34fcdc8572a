"""What a measurement counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from bench.pipeline.figures import Figure, processor_s, timed, timed_here

WORK = "import time\nwhile time.process_time() < 0.3: pass"
WORK_OF_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORK!r}])"


@pytest.mark.parametrize("program", [WORK, WORK_OF_A_CHILD], ids=["child", "its child"])
def test_processor_time_is_that_of_all_processes(program: str) -> None:
    """Of Spark's JVM and of its workers, which are children of this process and of the JVM."""

    def work() -> int:
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
        return 7

    before = processor_s()
    figure = timed("work", work)
    assert figure.rows == 7
    assert 0.25 < figure.cpu_seconds <= processor_s() - before


def test_work_of_this_process_is_not_shortened_by_others_that_end() -> None:
    """Workers of Spark end in the middle of a later measurement, and their processor time is then gone."""
    worker = f"{WORK}\nprint('worked', flush=True)\ntime.sleep(60)"
    begin = f"print(subprocess.Popen([sys.executable, '-c', {worker!r}]).pid, flush=True)"
    daemon = f"import subprocess, sys, time\n{begin}\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", daemon], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        worker_pid = int(other.stdout.readline())
        assert other.stdout.readline() == b"worked\n"

        def work() -> int:
            other.kill()  # the worker then has another parent, so its time does not count any more
            return other.wait()

        before = processor_s()
        assert 0 <= timed_here("work", work).cpu_seconds < 0.2
        assert processor_s() < before - 0.2
        os.kill(worker_pid, signal.SIGKILL)


def test_a_row_of_the_table_has_a_rate_or_memory_or_connections() -> None:
    """Each kind of figure has cells of its own."""
    assert Figure("a", 3_000_000, 2.0, cpu_seconds=1.5).cells() == ("a", "2.00", "1.5", "1.50")
    assert Figure("b", 1, memory_bytes=5 << 20).cells() == ("b", "", "5 MiB", "")
    assert Figure("c", 1, connections=3).cells() == ("c", "", "3 connections", "")
