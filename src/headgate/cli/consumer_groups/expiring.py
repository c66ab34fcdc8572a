"""`--expiring-within`, and what `--describe` says about expiry."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.admin import Admin, GroupDescription, GroupExpiry, GroupExpiryListing
from headgate.admin.errors import moment
from headgate.cli.consumer_groups.arguments import parse_span
from headgate.cli.consumer_groups.options import Options
from headgate.cli.printing import Row, print_rows, say

_COLUMNS = ("group", "empty_since", "retention", "offset_count", "first_expiry", "last_expiry", "expires_in")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_OWN = "the group's own offsets.retention.ms"
_OF_BROKER = "offsets.retention.minutes"


def list_expiring(admin: Admin, options: Options) -> int:
    """Print the groups without members whose offsets will expire soon, the first to expire first."""
    text = options.expiring_within or ""
    within_ms = parse_span("--expiring-within", text)
    found = admin.expiring_groups(within_ms)
    print_rows([_listed_row(group) for group in found], _COLUMNS, "groups", options.output)
    if not found:
        say(f"no offset of a group without members expires within {text}")
    return 0


def _listed_row(group: GroupExpiryListing) -> Row:
    return {
        "group": group.group_id,
        "empty_since": None if group.empty_since is None else moment(group.empty_since),
        "retention": None if group.retention_ms is None else span(group.retention_ms),
        "offset_count": group.offset_count,
        "first_expiry": moment(group.first_expiry),
        "last_expiry": None if group.last_expiry is None else moment(group.last_expiry),
        "expires_in": span(max(0, group.first_expiry - group.now)),
    }


def remarks_on_expiry(group: GroupDescription, expiry: GroupExpiry | None) -> Iterator[str]:
    """Yield the sentence that tells when the offsets of a group without members expire."""
    if expiry is None or not expiry.offsets:
        return
    times = [at for at in expiry.offsets.values() if at is not None]
    name, of = f"group {group.group_id}", _OWN if expiry.is_own_retention else _OF_BROKER
    if not times:
        why = f" ({of} is -1)" if expiry.retention_ms is None else " as long as nothing changes"
        yield f"{name}: its offsets do not expire{why}"
        return
    since = "" if expiry.empty_since is None else f"empty since {moment(expiry.empty_since)}; "
    kept = "" if expiry.retention_ms is None else f": they are kept for {span(expiry.retention_ms)} ({of})"
    first = min(times)
    left = f"in {span(first - expiry.now)}" if first > expiry.now else "with the next check"
    yield f"{name}: {since}offsets expire from {moment(first)} on, {left}{kept}"


def span(duration_ms: int) -> str:
    """Return a duration in its two largest units: `6d 23h`, `45s`, `0s`."""
    parts = []
    for unit, size in _UNITS:
        count, duration_ms = divmod(duration_ms, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"
