"""The valid combinations of options for each action, and the error messages for other combinations."""

from __future__ import annotations

from headgate.cli.connecting import check_output
from headgate.cli.share_groups.options import ACTIONS, SHOWN, TARGETS, Options
from headgate.cli.usage_problem import UsageProblem, check_at_most_one, one_of, option

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
    action = one_of(options.given, ACTIONS, "; see `headgate share-groups --help`")
    for names in _ONE_OF[action]:
        one_of(options.given, names, f" with {option(action)}")
    for names in _ONE_AT_MOST:
        check_at_most_one(options.given, names)
    for name in options.given:
        if name not in (action, *_MAY_HAVE[action], *_ANYWHERE):
            raise UsageProblem(f"{option(name)} cannot be combined with {option(action)}")
    return action
