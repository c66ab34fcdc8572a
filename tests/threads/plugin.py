"""Makes a test fail if a thread uses state of the event loop, in this process or in a server process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.threads.guard import REPORT_VARIABLE, Guard, appender

SITE = Path(__file__).parent / "site"


@pytest.fixture(scope="session", autouse=True)
def thread_report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make the report of the guards; server processes find its path and the guard in their environment."""
    report = tmp_path_factory.mktemp("threads") / "report"
    report.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(REPORT_VARIABLE, str(report))
        patch.setenv("PYTHONPATH", str(SITE), prepend=os.pathsep)
        Guard(appender(report)).install()
        yield report
        check(report)  # for calls at the end of a server that several tests shared


@pytest.fixture(autouse=True)
def no_state_in_other_threads(thread_report: Path) -> Iterator[None]:
    yield
    check(thread_report)


def check(report: Path) -> None:
    found = report.read_text()
    if found:
        report.write_text("")
        pytest.fail(f"see docs/threads.md, and ALLOWED in tests/threads/guard.py:\n{found}")
