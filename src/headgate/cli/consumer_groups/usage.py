"""The valid combinations of options for each action, and the error messages for other combinations."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.cli.connecting import check_output
from headgate.cli.consumer_groups.options import (
    Actions,
    Groups,
    Options,
    Partitions,
    Targets,
    names_of,
)
from headgate.cli.usage_problem import UsageProblem, check_at_most_one, one_of, option

_GROUPS = names_of(Groups)
_PARTITIONS = (*names_of(Partitions), "from_file")
_TARGETS = names_of(Targets)
_TARGETS_OF_REWIND = tuple(name for name in _TARGETS if name != "to_offsets_as_of")
_CHANGE_PARTITIONS = ("reset_offsets", "rewind")


@dataclass(frozen=True, slots=True)
class Usage:
    """The options of an action: optional ones, sets of which one is required, and sets with at most one."""

    may_have: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    one_at_most: tuple[tuple[str, ...], ...] = ()


ACTIONS = {
    "list": Usage(may_have=("state", "type")),
    "describe": Usage(
        may_have=("verbose",), one_of=(_GROUPS,), one_at_most=(("offsets", "members", "state"),)
    ),
    "reset_offsets": Usage(
        may_have=("export", "create", *_PARTITIONS),
        one_of=(_GROUPS, _TARGETS),
        one_at_most=(("dry_run", "execute"),),
    ),
    "delete_offsets": Usage(one_of=(("group",), ("topic",))),
    "delete": Usage(one_of=(_GROUPS,)),
    "history": Usage(
        may_have=("since", "until", "limit"), one_of=(_GROUPS,), one_at_most=(("topic", "all_topics"),)
    ),
    "offsets_as_of": Usage(one_of=(_GROUPS,), one_at_most=(("topic", "all_topics"),)),
    "expiring_within": Usage(),
    "undo": Usage(
        may_have=("redo",), one_of=(_GROUPS, ("topic", "all_topics")), one_at_most=(("dry_run", "execute"),)
    ),
    "pause": Usage(
        may_have=("reason",),
        one_of=(("group",), ("topic", "all_topics")),
        one_at_most=(("release_timeout", "no_wait"),),
    ),
    "resume": Usage(one_of=(("group",), ("topic", "all_topics"))),
    "paused_partitions": Usage(one_of=(_GROUPS,)),
    "validate_regex": Usage(),
    "rewind": Usage(
        may_have=("reason", "release_timeout", *_PARTITIONS),
        one_of=(("group",), _TARGETS_OF_REWIND),
        one_at_most=(("dry_run", "execute"),),
    ),
}


def action_of(options: Options) -> str:
    """Return the requested action, after checking its options. Raises `UsageProblem`."""
    check_output(options.output)
    actions = names_of(Actions)
    if "redo" in options.given and not set(options.given).intersection(actions):
        raise UsageProblem("--redo goes with --undo: it undoes an undo")
    action = one_of(options.given, actions, "; see `headgate consumer-groups --help`")
    usage = ACTIONS[action]
    for names in usage.one_of:
        one_of(options.given, names, f" with {option(action)}")
    for names in usage.one_at_most:
        check_at_most_one(options.given, names)
    known = {action, *usage.may_have, *(name for names in usage.one_of + usage.one_at_most for name in names)}
    for name in options.given:
        if name not in known:
            raise UsageProblem(f"{option(name)} cannot be combined with {option(action)}")
    if action in _CHANGE_PARTITIONS:
        _check_partitions(action, options)
    return action


def _check_partitions(action: str, options: Options) -> None:
    """Check that the action has partitions: from options, or from a file of offsets."""
    check_at_most_one(options.given, _PARTITIONS)
    if not set(options.given).intersection(_PARTITIONS):
        raise UsageProblem(
            "the partitions are missing: --topic TOPIC, --topic TOPIC:0,1 or --all-topics is expected with "
            + option(action)
        )
