"""`--expiring-within`, and the expiry in `--describe`."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer
from tests.cli.support import Command, rows

from headgate.admin import Admin
from headgate.cli.consumer_groups.arguments import parse_span
from headgate.cli.consumer_groups.expiring import span
from headgate.cli.usage_problem import UsageProblem

pytestmark = pytest.mark.timeout(60)
HOUR_MS = 3_600_000


def test_a_group_without_members_shows_when_its_offsets_expire(
    command: Command, group: str, bootstrap_servers: str
) -> None:
    """By the broker's retention, or by the group's own."""
    described = command("--describe", "--group", group)
    heading, *lines = rows(described)
    assert heading[-1] == "EXPIRES"
    assert [line[-1][-1] for line in lines] == ["Z", "Z"]
    assert "offsets expire from " in described.stderr
    assert "they are kept for 7d (offsets.retention.minutes)" in described.stderr
    with Admin(bootstrap_servers) as admin:
        admin.set_offsets_retention(group, 5 * HOUR_MS)
        expiry = admin.offset_expiry(group)
        assert expiry.is_own_retention and expiry.retention_ms == 5 * HOUR_MS
        assert all(0 < at - expiry.now <= 5 * HOUR_MS for at in expiry.offsets.values() if at is not None)
        own = command("--describe", "--group", group).stderr
        assert "they are kept for 5h (the group's own offsets.retention.ms)" in own
        admin.set_offsets_retention(group, -1)
        kept = command("--describe", "--group", group)
        assert "its offsets do not expire (the group's own offsets.retention.ms is -1)" in kept.stderr
        assert "EXPIRES" not in kept.stdout
        admin.set_offsets_retention(group, None)
        assert not admin.offset_expiry(group).is_own_retention


def test_a_group_with_members_shows_no_expiry(command: Command, group: str, member: Consumer) -> None:
    """As long as somebody uses its offsets, people need not care."""
    described = command("--describe", "--group", group)
    assert "EXPIRES" not in described.stdout
    assert "expire" not in described.stderr


def test_groups_that_expire_soon_are_listed(command: Command, group: str, bootstrap_servers: str) -> None:
    """The first to expire first; none is no error."""
    assert group not in command("--expiring-within", "6d").stdout
    with Admin(bootstrap_servers) as admin:
        admin.set_offsets_retention(group, 2 * HOUR_MS)
    heading, *lines = rows(command("--expiring-within", "3h"))
    assert heading == [
        "GROUP",
        "EMPTY-SINCE",
        "RETENTION",
        "OFFSET-COUNT",
        "FIRST-EXPIRY",
        "LAST-EXPIRY",
        "EXPIRES-IN",
    ]
    (line,) = [line for line in lines if line[0] == group]
    assert line[1:4] == ["-", "2h", "2"]
    document = json.loads(command("--expiring-within", "P8D", "--output", "json").stdout)
    assert document["groups"][0]["group"] == group
    nothing = command("--expiring-within", "1s")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no offset of a group without members expires within 1s" in nothing.stderr


@pytest.mark.parametrize("text", ["", "soon", "24", "-1h", "1 h", "P1M"])
def test_a_time_that_is_none_is_refused(command: Command, text: str) -> None:
    """With an example."""
    refused = command("--expiring-within", text)
    assert (refused.exit_code, "a duration is expected, as 24h, 7d or P1DT2H" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90s", 90_000), ("90m", 5_400_000), ("2H", 7_200_000), ("7d", 604_800_000), ("P1D", 86_400_000)],
)
def test_times_have_units(text: str, ms: int) -> None:
    """Seconds to days, or ISO 8601."""
    assert parse_span("--expiring-within", text) == ms
    with pytest.raises(UsageProblem):
        parse_span("--expiring-within", text + "x")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (999, "0s"), (61_000, "1m 1s"), (3_600_000, "1h"), (3_601_000, "1h"), (90_061_000, "1d 1h")],
)
def test_durations_are_shown_in_two_units(ms: int, text: str) -> None:
    """The largest, and the next one if there is any of it."""
    assert span(ms) == text
