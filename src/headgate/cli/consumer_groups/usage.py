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
from headgate.cli.usage_problem import UsageProblem

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
    (action,) = _one(options, names_of(Actions), "; see `headgate consumer-groups --help`")
    usage = ACTIONS[action]
    for names in usage.one_of:
        _one(options, names, f" with {_option(action)}")
    for names in usage.one_at_most:
        if len(_given(options, names)) > 1:
            raise UsageProblem(f"{_all(_given(options, names))}: one of them is expected")
    known = {action, *usage.may_have, *(name for names in usage.one_of + usage.one_at_most for name in names)}
    for name in options.given:
        if name not in known:
            raise UsageProblem(f"{_option(name)} cannot be combined with {_option(action)}")
    if action in _CHANGE_PARTITIONS:
        _check_partitions(action, options)
    return action


def _check_partitions(action: str, options: Options) -> None:
    """Check that the action has partitions: from options, or from a file of offsets."""
    given = _given(options, _PARTITIONS)
    if len(given) > 1:
        raise UsageProblem(f"{_all(given)}: one of them is expected")
    if not given:
        raise UsageProblem(
            "the partitions are missing: --topic TOPIC, --topic TOPIC:0,1 or --all-topics is expected with "
            + _option(action)
        )


def _one(options: Options, names: tuple[str, ...], hint: str) -> list[str]:
    given = _given(options, names)
    if len(given) > 1:
        raise UsageProblem(f"{_all(given)}: one of them is expected")
    if not given:
        raise UsageProblem(f"{_either([_option(name) for name in names])} is expected{hint}")
    return given


def _given(options: Options, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in options.given]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _all(names: list[str]) -> str:
    return " and ".join(map(_option, names))


def _either(words: list[str] | tuple[str, ...]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
