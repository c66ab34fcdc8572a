"""What is told of a log that fails: its beginning and its end, however many requests meet it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from headgate.topics import trouble
from headgate.topics.trouble import PartitionTrouble, Trouble

LOGGER = logging.getLogger("tests.topics.trouble")
LOG = Path("/data/letters-0")
FULL = OSError(errno.ENOSPC, "No space left on device")


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def warnings_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_failure_is_told_once_with_its_cause_and_path(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand requests that meet it add nothing."""
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


def test_another_cause_is_told_once_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """What stands in the way of mending the log need not be what it failed of."""
    one = Trouble(LOGGER, LOG)
    one.failed("sync failed", OSError(errno.EIO, "Input/output error"), "")
    for _ in range(10):
        one.persists(FULL)
    assert events(caplog) == ["sync failed", "log still fails"]


def test_a_log_that_fails_and_works_by_turns_is_told_of_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearly full disk takes a small batch and refuses a large one; what lasts is told in the end."""
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
    """The sync of what was written before the failure tells nothing of the log now."""
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


def test_reading_and_writing_fail_each_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    """That a disk takes writes does not mean that what it has can be read."""
    one = PartitionTrouble(LOGGER, LOG)
    one.read_failed(OSError(errno.EIO, "Input/output error"))
    one.appended(is_enough=True)
    assert events(caplog) == ["read failed"]
    one.was_read()
    assert events(caplog) == ["read failed", "log works again"]
