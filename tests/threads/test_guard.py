"""The guard sees the calls of threads, here and in server processes; its list equals the documented one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.threads.guard import OF_THE_SERVER, REPORT_VARIABLE, Guard, is_allowed
from tests.threads.plugin import SITE

from headgate.domain.settings import Settings
from headgate.server.metrics import Histogram
from headgate.topics.names import is_always_compacted

DOCUMENT = Path(__file__).parents[2] / "docs" / "threads.md"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Collect the findings of a guard for the threads of one test, in place of that of all tests."""
    told: list[str] = []
    before = threading.getprofile()
    Guard(told.append).install()
    yield told
    threading.setprofile(before)


@pytest.mark.interpreted
def test_a_thread_that_touches_state_is_reported_once(lines: list[str]) -> None:
    """The line has its name, the function and the caller; any thread may read values."""

    def touch() -> None:
        for _ in range(3):
            Histogram().observe(1.0)
        Settings({})

    thread = threading.Thread(target=touch, name="trespasser")
    thread.start()
    thread.join()
    (line,) = [line for line in lines if "observe" in line]
    assert line.startswith("trespasser called server.metrics:Histogram.observe from ")
    assert "test_guard.py" in line
    assert not any("domain" in line for line in lines)


def test_what_a_thread_may_do_is_not_reported(lines: list[str]) -> None:
    """The name of the thread decides, and the main thread may call everything."""
    with ThreadPoolExecutor(1, "headgate-compaction") as executor:
        executor.submit(is_always_compacted, "letters").result()
    Histogram().observe(1.0)
    assert lines == []
    assert not is_allowed("headgate-sync", "topics.names:is_always_compacted")
    assert is_allowed("headgate-sync", "runtime.syncing:ThreadSyncer._work")


@pytest.mark.interpreted
def test_a_server_process_is_watched(tmp_path: Path) -> None:
    """A server process has the guard from its start; other processes do not have it."""
    script = tmp_path / "server.py"
    script.write_text(
        "import threading\n"
        "from headgate.server.metrics import Histogram\n"
        "thread = threading.Thread(target=Histogram().observe, args=[1.0], name='trespasser')\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    report = tmp_path / "report"
    for arguments, is_watched in (["serve"], True), (["groups"], False):
        report.write_text("")
        environment = {**os.environ, REPORT_VARIABLE: str(report)}
        assert str(SITE) in environment["PYTHONPATH"]
        subprocess.run([sys.executable, str(script), *arguments], env=environment, check=True, timeout=60)
        assert ("trespasser called server.metrics:Histogram.observe" in report.read_text()) == is_watched


def test_the_document_lists_the_threads_that_the_guard_knows() -> None:
    """The document and the guard list the same names."""
    documented = set(re.findall(r"^\| `(headgate-[a-z-]+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == {name.rstrip("*") for name in OF_THE_SERVER if name.startswith("headgate-")}
