"""Errors of the command line as one plain line, which names the culprit and the next step."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperGroup
from typer.exceptions import Abort, TyperException

from headgate.domain.wording import did_you_mean

_HELP_ITSELF = "NoArgsIsHelpError"
"""The class of what is raised for a command without arguments, after its help was printed."""


class PlainErrors(TyperGroup):
    """The outermost command. It has the errors of all commands below it."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **more: Any) -> Any:  # type: ignore[override]
        """Run the command line. With `standalone_mode` it ends the process, with 2 for an error."""
        for command in _with_those_below(self):
            _take_each_once(command)
            _write_help_whole(command)
        try:
            code = super().main(args, standalone_mode=False, **more)
        except TyperException as problem:
            if not standalone_mode:
                raise
            _show(problem)
            code = problem.exit_code
        except Abort:
            if not standalone_mode:
                raise
            code = 1
        if standalone_mode:
            sys.exit(code)
        return code


def _with_those_below(command: Any) -> Iterator[Any]:
    """Yield a command and all below it."""
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _with_those_below(below)


def _take_each_once(command: Any) -> None:
    """Have a command refuse an option with one value that is given twice."""
    make_parser = command.make_parser

    def make_strict_parser(context: Any) -> Any:
        parser = make_parser(context)
        parse_args = parser.parse_args

        def parse_each_once(args: list[str]) -> Any:
            options, rest, order = parse_args(args=args)
            if not context.resilient_parsing:
                _check_each_once(context, order)
            return options, rest, order

        parser.parse_args = parse_each_once
        return parser

    command.make_parser = make_strict_parser


def _write_help_whole(command: Any) -> None:
    """Have a command write its help with whole names."""

    def format_help(context: Any, formatter: Any) -> None:
        from headgate.cli.help_layout import write_help

        write_help(command, context, formatter)

    command.format_help = format_help


def _check_each_once(context: Any, given: list[Any]) -> None:
    """Raise a usage error for an option with one value that is given twice: the first would be ignored."""
    seen = set()
    for one in given:
        takes_one = one.param_type_name == "option" and not (one.multiple or one.is_flag or one.count)
        if takes_one and one.name in seen:
            context.fail(f"{max(one.opts, key=len)} is given more than once")
        seen.add(one.name)


def _show(problem: TyperException) -> None:
    from headgate.cli.printing import say

    if type(problem).__name__ != _HELP_ITSELF:
        say(in_one_line(problem))


def in_one_line(problem: TyperException) -> str:
    """Return what is wrong, and the nearest option or command, or which help to read."""
    context = getattr(problem, "ctx", None)
    text = " ".join(problem.message.split()).rstrip(".")
    name: str | None = getattr(problem, "option_name", None)
    if name is not None and text.startswith("No such option"):
        options = list(_options_of(context))
        text = f"No such option {name}"
        if (ours := _OF_KAFKA.get(name)) and (there := [one for one in ours if one in options]):
            return f"{text}; use {' or '.join(there)}"
        if hint := did_you_mean(name, options):
            return f"{text}; {hint}"
    elif "Did you mean" in text:
        return text.replace(". Did you mean", "; did you mean")
    else:
        text = " ".join(problem.format_message().split()).rstrip(".")
    return f"{text}; see `{context.command_path} --help`" if context is not None else f"{text}; see --help"


_OF_KAFKA = {
    "--broker-list": ("--bootstrap-server",),
    "--zookeeper": ("--bootstrap-server",),
    "--command-property": ("--command-config",),
    "--consumer-property": ("--group", "--isolation-level", "--command-config"),
    "--consumer.config": ("--command-config",),
    "--producer-property": ("--request-required-acks", "--compression-codec", "--command-config"),
    "--producer.config": ("--command-config",),
}
"""Options of Kafka's tools, now or once, and what says the same here: the most similar names do not."""


def _options_of(context: Any) -> Iterable[str]:
    """Return the long options of a command."""
    if context is None:
        return []
    return [name for one in context.command.get_params(context) for name in one.opts if name.startswith("--")]
