"""Run the requested action and return its exit code."""

from __future__ import annotations

from collections.abc import Callable

from headgate.admin import Admin
from headgate.cli.connecting import run_with_admin
from headgate.cli.consumer_groups.changes import delete_groups, delete_offsets, reset_offsets
from headgate.cli.consumer_groups.expiring import list_expiring
from headgate.cli.consumer_groups.history import list_history, offsets_as_of, restore_offsets, undo
from headgate.cli.consumer_groups.options import Options
from headgate.cli.consumer_groups.pausing import list_paused, pause, resume
from headgate.cli.consumer_groups.regex import validate_regex
from headgate.cli.consumer_groups.reports import describe_groups, list_groups
from headgate.cli.consumer_groups.rewinding import rewind
from headgate.cli.consumer_groups.usage import action_of
from headgate.cli.printing import say
from headgate.cli.usage_problem import UsageProblem

_ACTIONS: dict[str, Callable[[Admin, Options], int]] = {
    "list": list_groups,
    "describe": describe_groups,
    "reset_offsets": reset_offsets,
    "delete_offsets": delete_offsets,
    "delete": delete_groups,
    "history": list_history,
    "offsets_as_of": offsets_as_of,
    "expiring_within": list_expiring,
    "undo": undo,
    "pause": pause,
    "resume": resume,
    "paused_partitions": list_paused,
    "rewind": rewind,
}


def run(options: Options) -> int:
    """Run the requested action, print its result and return the exit code."""
    if options.validate_regex is None:
        return run_with_admin(options, lambda admin: _act(admin, options))
    try:
        action_of(options)
        return validate_regex(options.validate_regex)
    except UsageProblem as problem:
        say(str(problem))
        return 2


def _act(admin: Admin, options: Options) -> int:
    action = action_of(options)
    if options.to_offsets_as_of is not None:
        return restore_offsets(admin, options)
    return _ACTIONS[action](admin, options)
