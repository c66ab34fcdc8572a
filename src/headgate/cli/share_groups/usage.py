"""The valid combinations of options for each action, and the error messages for other combinations."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.cli.connecting import check_output
from headgate.cli.share_groups.options import ACTIONS, SHOWN, TARGETS, Options
from headgate.cli.usage_problem import UsageProblem

_ANYWHERE = ("bootstrap_server", "output", "timeout", "command_config")
CHANGES_OF_RECORDS = ("release", "archive", "redeliver_dead_letters")
_MAY_HAVE = {
    "list": ("state",),
    "describe": ("group", "all_groups", "verbose", *SHOWN),
    "records": ("group", "topic", "offset", "limit"),
    **dict.fromkeys(CHANGES_OF_RECORDS, ("group", "topic", "offset", "dry_run", "execute")),
    "pause": ("group", "topic", "all_topics", "reason", "no_wait", "release_timeout"),
    "resume": ("group", "topic", "all_topics"),
    "paused_partitions": ("group", "all_groups"),
    "rewind": (
        *("group", "topic", "all_topics", "dry_run", "execute", "reason", "release_timeout"),
        *TARGETS,
    ),
    "reset_offsets": ("group", "create", "topic", "all_topics", "dry_run", "execute", *TARGETS),
    "delete": ("group", "all_groups"),
    "delete_offsets": ("group", "topic"),
}
_ONE_OF = {
    "list": (),
    "describe": (("group", "all_groups"),),
    "records": (("group",), ("topic",)),
    **dict.fromkeys(CHANGES_OF_RECORDS, (("group",), ("topic",), ("offset",))),
    **dict.fromkeys(("pause", "resume"), (("group",), ("topic", "all_topics"))),
    "paused_partitions": (("group", "all_groups"),),
    **dict.fromkeys(("rewind", "reset_offsets"), (("group",), ("topic", "all_topics"), TARGETS)),
    "delete": (("group", "all_groups"),),
    "delete_offsets": (("group",), ("topic",)),
}
_ONE_AT_MOST = (SHOWN, ("dry_run", "execute"))


def action_of(options: Options) -> str:
    """Return the requested action, after checking its options. Raises `UsageProblem`."""
    check_output(options.output)
    action = _one(options, ACTIONS, "; see `headgate share-groups --help`")
    for names in _ONE_OF[action]:
        _one(options, names, f" with {_option(action)}")
    for names in _ONE_AT_MOST:
        if len(given := [name for name in names if name in options.given]) > 1:
            raise UsageProblem(f"{' and '.join(map(_option, given))}: one of them is expected")
    for name in options.given:
        if name not in (action, *_MAY_HAVE[action], *_ANYWHERE):
            raise UsageProblem(f"{_option(name)} cannot be combined with {_option(action)}")
    return action


def _one(options: Options, names: Iterable[str], hint: str) -> str:
    given = [name for name in names if name in options.given]
    if len(given) > 1:
        raise UsageProblem(f"{' and '.join(map(_option, given))}: one of them is expected")
    if not given:
        raise UsageProblem(f"{' or '.join(map(_option, names))} is expected{hint}")
    return given[0]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
