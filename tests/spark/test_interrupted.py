"""Commands that start Spark and are interrupted, in a terminal or by a supervisor."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

import headgate
from headgate.admin import Admin, TopicPartition
from headgate.cli.spark import interruption_without_stack

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_landing_says_so_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches all processes of the terminal. The tables are not locked afterwards."""
    target = str(tmp_path / "tables")
    with headgate.run() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        is_over = threading.Event()

        def commit() -> None:
            """Commit without rest, so that the command is in a call of Spark most of the time."""
            while not is_over.wait(0.02):
                admin.alter_offsets("g", {TopicPartition("t", 0): 0})

        commits = threading.Thread(target=commit)
        commits.start()
        command = [sys.executable, "-m", "headgate", "spark", "land", broker.bootstrap_servers, target]
        command += ["--tables", "offset_commits", "--master", "local[1]"]
        try:
            with subprocess.Popen(
                [*command, "--continuously", "--every", "0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            ) as running:
                assert running.stdout is not None
                for _ in range(3):
                    assert "landed" in running.stdout.readline()
                if number == signal.SIGINT:
                    os.killpg(running.pid, number)
                else:
                    running.send_signal(number)
                _, told = running.communicate()
        finally:
            is_over.set()
            commits.join()
        assert running.returncode == 130, told
        ours = [line for line in told.splitlines() if line.startswith("headgate")]
        assert ours == ["headgate spark land: interrupted; the next run continues here"], told
        assert "Traceback" not in told, told
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_call_of_a_signal_handler_during_another_one_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark cancels its jobs while the interrupted call reads its answer, and py4j logs an error."""
    logger = logging.getLogger()

    def fail(told: str) -> None:
        try:
            try:
                raise RuntimeError(told)
            except RuntimeError as problem:
                raise Py4JNetworkError("Error while sending or receiving") from problem
        except Py4JNetworkError:
            logger.exception("Exception while sending command.")

    with interruption_without_stack():
        fail("reentrant call inside <_io.BufferedReader name=4>")
        assert caplog.records == []
        fail("another one")
    assert len(caplog.records) == 1
