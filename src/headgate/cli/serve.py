"""`headgate serve`: run the broker in the foreground."""

from __future__ import annotations

import errno
import os
import re
import socket
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from headgate import __version__
from headgate.cli.option_classes import directory
from headgate.compiled import is_compiled
from headgate.domain.settings import BROKER_SETTINGS, InvalidSetting, Settings, contradictions, find
from headgate.server.log_lines import AREAS

ADDRESS_HELP = "HOST:PORT; port 0 means any free port."


def serve(
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir",
            parser=directory,
            metavar="DIR",
            help="Directory of the logs; created if it does not exist.",
            show_default=False,
        ),
    ],
    listen: Annotated[str, typer.Option(help=f"Address for clients. {ADDRESS_HELP}")] = "127.0.0.1:9092",
    advertise: Annotated[
        str | None, typer.Option(help="HOST:PORT advertised to clients, if it differs from --listen.")
    ] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(help=f"Address for Prometheus metrics. {ADDRESS_HELP}")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings: dotted names or tables.", show_default=False)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting as name=value; overrides --config. `headgate settings` lists them."
        ),
    ] = None,
    with_parent: Annotated[
        bool,
        typer.Option(
            "--with-parent",
            help="Stop when standard input is closed, for example when the parent process ends.",
        ),
    ] = False,
    log_level: Annotated[
        str,
        typer.Option(
            help="debug, info, warning or error, also by area: info,groups=warning. The areas are "
            f"{', '.join(AREAS)}."
        ),
    ] = "info",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run a broker on a data directory. SIGTERM, Ctrl-C and the end of its terminal stop it cleanly.

    When the broker is ready, it prints one line: [bold]headgate is listening on HOST:PORT[/bold]

    It logs to standard error.

    Example: headgate serve --data-dir ./data --set offsets.retention.minutes=1440
    """
    from headgate.cli.output import OutputLost
    from headgate.server.log_lines import InvalidLevel, LogLevels
    from headgate.server.process import DirectoryGone, ServeOptions, run_server
    from headgate.server.process_gauges import Build

    try:
        log_levels = LogLevels.parse(log_level)
    except InvalidLevel as problem:
        _refuse(f"--log-level {log_level}: {problem}")
    if log_format not in ("text", "json"):
        _refuse(f"--log-format {log_format}: text or json is expected")
    try:
        if metrics_listen == listen and not listen.endswith(":0"):
            raise UsageProblem(
                f"--metrics-listen {metrics_listen}: another address than --listen is expected"
            )
        settings = _settings(config, set_ or [])
        options = ServeOptions(
            data_dir=data_dir,
            listen=_own_address("--listen", listen),
            advertise=_advertised(advertise) if advertise else None,
            metrics_listen=_own_address("--metrics-listen", metrics_listen) if metrics_listen else None,
            settings=settings,
            with_parent=with_parent,
            log_levels=log_levels,
            log_as_json=log_format == "json",
            build=Build(__version__, is_compiled()),
        )
        run_server(options)
    except (InvalidSetting, UsageProblem) as problem:
        _refuse(str(problem))
    except InvalidSettings as several:
        _refuse(*several.problems)
    except OutputLost as problem:  # also if its reader has gone: whoever waits for the line would wait on
        _refuse(f"cannot start: {problem}", exit_code=1)
    except DirectoryGone as problem:
        _refuse(f"stopped: {problem}", exit_code=1)
    except OSError as problem:
        _refuse(f"cannot start: {_in_words(problem, data_dir)}", exit_code=1)


class UsageProblem(Exception):
    """An invalid command line. The message says what is expected."""


class InvalidSettings(Exception):
    """All problems of the settings, so that one look corrects the file."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _refuse(*messages: str, exit_code: int = 2) -> NoReturn:
    for message in messages:
        typer.echo(f"headgate: {message}", err=True)
    raise typer.Exit(exit_code)


def _in_words(problem: OSError, data_dir: Path) -> str:
    """Return the path and the reason, without numbers and quotes. A full disk has no path of its own."""
    if problem.errno == errno.EMFILE:
        return (
            f"{problem.strerror}: raise the limit of open files of this process (`ulimit -n`, LimitNOFILE=)"
        )
    if problem.errno == errno.ENFILE:
        return f"{problem.strerror}: the whole system has no more (sysctl fs.file-max)"
    path = problem.filename or (data_dir if problem.errno == errno.ENOSPC else None)
    if problem.errno == errno.EACCES and path is not None:
        return f"{path}: {problem.strerror}{_whose(Path(path))}"
    return str(problem) if path is None else f"{path}: {problem.strerror}"


def _whose(path: Path) -> str:
    """Return who runs the server and who owns the path, or its directory if it does not exist; nothing if
    neither can be looked at. If both are the same user, the mode is at fault.
    """
    user = os.geteuid()
    for one in (path, path.parent):
        try:
            owner = one.stat().st_uid
        except OSError:
            continue
        if owner != user:
            return f" (the server runs as user {user}; {one} belongs to user {owner})"
        modes = f"look at its mode, and at that of {one.parent}"
        return f" (the server runs as user {user}, to whom {one} belongs: {modes})"
    return ""


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal():
        raise UsageProblem(f"{option} {text}: HOST:PORT is expected, as in 127.0.0.1:9092")
    if int(port) > 65535:
        raise UsageProblem(f"{option} {text}: a port from 0 to 65535 is expected")
    return host, int(port)


def _advertised(text: str) -> tuple[str, int]:
    """Return the address for clients. Raises UsageProblem for one that is no place, as Kafka does."""
    host, port = _address("--advertise", text)
    with suppress(ValueError):
        if ip_address(host).is_unspecified:
            raise UsageProblem(f"--advertise {text}: clients cannot connect to {host}; give the host's name")
    return host, port


def _own_address(option: str, text: str) -> tuple[str, int]:
    """Return an address to listen on. Raises UsageProblem if its host does not exist, OSError if no name
    server answers: a later start may succeed.
    """
    host, port = _address(option, text)
    try:
        socket.getaddrinfo(host, port)
    except OSError as problem:
        if problem.errno == socket.EAI_AGAIN:
            raise OSError(f"{option} {text}: {host}: {problem.strerror}") from None
        raise UsageProblem(f"{option} {text}: {host}: {problem.strerror}") from None
    except UnicodeError:
        raise UsageProblem(f"{option} {text}: no host has such a name") from None
    return host, port


def _settings(file: Path | None, pairs: list[str]) -> Settings:
    """Return the settings of file and options. Raises UsageProblem, or InvalidSettings with all problems."""
    from_file, (from_options, problems_of_options) = _from_file(file), _from_options(pairs)
    problems = [
        *(f"--config {file}: {one}" for one in _problems(from_file)),
        *problems_of_options,
        *_problems(from_options),
    ]
    if problems:
        raise InvalidSettings(problems)
    settings = Settings(from_file | from_options)
    if problems := contradictions(settings):
        raise InvalidSettings(problems)
    return settings


def _problems(given: dict[str, str]) -> Iterator[str]:
    for name, text in given.items():
        try:
            find(BROKER_SETTINGS, name).parse(text)
        except InvalidSetting as problem:
            yield str(problem)


def _from_options(pairs: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings of `--set`, and a problem for each that has no value."""
    settings: dict[str, str] = {}
    problems: list[str] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"--set {pair}: name=value is expected")
        else:
            settings[name.strip()] = value
    return settings, problems


_DOTTED_NAME = re.compile(r"^([ \t]*)([\w-]+(?:\.[\w-]+)+)([ \t]*=)", re.MULTILINE)


def _from_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return _flat(_parsed(path.read_bytes().decode()))
    except OSError as problem:
        raise UsageProblem(f"--config {path}: {problem.strerror}") from problem
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        is_twice = "Cannot overwrite" in str(problem)
        hint = "a name is given twice" if is_twice else "a text needs quotes there, unlike in Kafka's files"
        raise UsageProblem(f"--config {path}: not TOML: {problem}; {hint}") from problem


def _parsed(text: str) -> dict[str, Any]:
    """Parse TOML. In it `max.connections` and `max.connections.per.ip` exclude each other, as a value is no
    table; so the names are tried as quoted ones, too.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(_DOTTED_NAME.sub(r'\1"\2"\3', text))
        raise


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested tables as dotted names, with values as texts for the parser of settings."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, f"{name}.")
        elif isinstance(value, list):
            flat[name] = ",".join(map(str, value))
        else:
            flat[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
