"""Log lines about a failing log: its beginning and its end, however many requests fail."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from headgate.topics import trouble
from headgate.topics.trouble import PartitionTrouble, Trouble, Unread

LOGGER = logging.getLogger("tests.topics.trouble")
LOG = Path("/data/letters-0")
FULL = OSError(errno.ENOSPC, "No space left on device")


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def warnings_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_failure_is_logged_once_with_cause_and_path(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand failing requests add nothing."""
    one = Trouble(LOGGER, LOG)
    for _ in range(1000):
        one.failed("write failed", FULL, "appends are refused")
        one.persists(FULL)
    one.ended()
    one.ended()
    assert events(caplog) == ["write failed", "log works again"]
    fields = vars(caplog.records[0])
    assert fields["log"] == LOG and "No space left" in fields["error"]
    assert fields["then"] == "appends are refused"


def test_another_cause_is_logged_once_too(caplog: pytest.LogCaptureFixture) -> None:
    """A repair may fail for another reason than the write did."""
    one = Trouble(LOGGER, LOG)
    one.failed("sync failed", OSError(errno.EIO, "Input/output error"), "")
    for _ in range(10):
        one.persists(FULL)
    assert events(caplog) == ["sync failed", "log still fails"]


def test_a_log_that_alternates_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearly full disk accepts small batches and refuses large ones; a lasting failure is logged in the
    end.
    """
    now = 1000.0
    monkeypatch.setattr("headgate.topics.trouble.time.monotonic", lambda: now)
    one = Trouble(LOGGER, LOG)
    for _ in range(100):
        one.failed("write failed", FULL, "")
        one.ended()
    assert events(caplog) == ["write failed", "log works again"]
    one.failed("write failed", FULL, "")
    now += trouble.QUIET_SECONDS
    one.failed("write failed", FULL, "")
    one.ended()
    assert events(caplog) == ["write failed", "log works again"] * 2


def test_a_durable_log_works_again_when_a_later_append_is_synced(caplog: pytest.LogCaptureFixture) -> None:
    """The sync of an append before the failure does not end it."""
    one = PartitionTrouble(LOGGER, LOG)
    one.append_failed(FULL)
    one.synced()
    assert events(caplog) == ["write failed"]
    one.appended(is_enough=False)
    one.sync_failed(FULL)
    one.synced()
    assert events(caplog) == ["write failed"]
    one.appended(is_enough=False)
    one.synced()
    assert events(caplog) == ["write failed", "log works again"]


def test_read_and_write_failures_are_independent(caplog: pytest.LogCaptureFixture) -> None:
    """A disk that accepts writes may fail to read."""
    one = PartitionTrouble(LOGGER, LOG)
    one.read_failed(OSError(errno.EIO, "Input/output error"), Unread(0))
    one.appended(is_enough=True)
    assert events(caplog) == ["read failed"]
    one.was_read(7)
    assert one.is_failing
    one.was_read(0)
    assert events(caplog) == ["read failed", "log works again"]
