"""What the command was asked for, and which of its options go together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

OUTPUTS = ("table", "json", "csv")


class UsageProblem(Exception):
    """Something on the command line that cannot be meant; the message says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options by their names; what was not given has the default."""

    bootstrap_server: str
    timeout: int
    output: str
    list: bool = False
    describe: bool = False
    reset_offsets: bool = False
    delete_offsets: bool = False
    delete: bool = False
    history: bool = False
    offsets_as_of: str | None = None
    undo: bool = False
    group: tuple[str, ...] = ()
    all_groups: bool = False
    topic: tuple[str, ...] = ()
    all_topics: bool = False
    offsets: bool = False
    members: bool = False
    state: str | None = None
    type: str | None = None
    verbose: bool = False
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_datetime: str | None = None
    by_duration: str | None = None
    from_file: Path | None = None
    to_offsets_as_of: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None
    dry_run: bool = False
    execute: bool = False
    export: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the options that were given, of those that have no value otherwise."""
        names = (field.name for field in fields(self) if field.name not in _ALWAYS)
        return tuple(name for name in names if getattr(self, name) not in (None, False, ()))


_ALWAYS = ("bootstrap_server", "timeout", "output")
_GROUPS = ("group", "all_groups")
_PARTITIONS = ("topic", "all_topics", "from_file")
TARGETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
    "to_offsets_as_of",
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an action takes: options it may have, and sets of which it must have just one, or one at most."""

    may_have: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    one_at_most: tuple[tuple[str, ...], ...] = ()


ACTIONS = {
    "list": Usage(may_have=("state", "type")),
    "describe": Usage(
        may_have=("verbose",), one_of=(_GROUPS,), one_at_most=(("offsets", "members", "state"),)
    ),
    "reset_offsets": Usage(
        may_have=("export", *_PARTITIONS), one_of=(_GROUPS, TARGETS), one_at_most=(("dry_run", "execute"),)
    ),
    "delete_offsets": Usage(one_of=(("group",), ("topic",))),
    "delete": Usage(one_of=(_GROUPS,)),
    "history": Usage(
        may_have=("since", "until", "limit"), one_of=(_GROUPS,), one_at_most=(("topic", "all_topics"),)
    ),
    "offsets_as_of": Usage(one_of=(_GROUPS,), one_at_most=(("topic", "all_topics"),)),
    "undo": Usage(one_of=(_GROUPS, ("topic", "all_topics")), one_at_most=(("dry_run", "execute"),)),
}


def action_of(options: Options) -> str:
    """The one action that was asked for, all its options in order. Raises `UsageProblem`."""
    if options.output not in OUTPUTS:
        raise UsageProblem(f"--output {options.output}: {_either(OUTPUTS)} is expected")
    (action,) = _one(options, tuple(ACTIONS), "; `headgate consumer-groups --help` says what each does")
    usage = ACTIONS[action]
    for names in usage.one_of:
        _one(options, names, f" with {_option(action)}")
    for names in usage.one_at_most:
        if len(_given(options, names)) > 1:
            raise UsageProblem(f"{_all(_given(options, names))}: one of them is expected")
    known = {action, *usage.may_have, *(name for names in usage.one_of + usage.one_at_most for name in names)}
    for name in options.given:
        if name not in known:
            raise UsageProblem(f"{_option(name)} does not go with {_option(action)}")
    if action == "reset_offsets":
        _check_partitions(options)
    return action


def _check_partitions(options: Options) -> None:
    """A reset must say of which partitions; a file of offsets says it itself."""
    given = _given(options, _PARTITIONS)
    if len(given) > 1:
        raise UsageProblem(f"{_all(given)}: one of them is expected")
    if not given:
        raise UsageProblem(
            "which partitions? --topic TOPIC, --topic TOPIC:0,1 or --all-topics is expected with "
            "--reset-offsets"
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
