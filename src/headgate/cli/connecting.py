"""The connection of a command to a cluster: its options, and an Admin made of them.

The libraries are imported when a command runs, so that `--help` is quick.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from headgate.cli.usage_problem import UsageProblem

if TYPE_CHECKING:
    from headgate.admin import Admin
    from headgate.client.security import Security

DEFAULT_SERVER = "127.0.0.1:9092"
DEFAULT_TIMEOUT_MS = 10_000
OUTPUTS = ("table", "json", "csv")
INTERRUPTED = 130
connection_option = partial(Option, rich_help_panel="Connection and output")

CommandConfig = Annotated[
    Path | None,
    connection_option(
        "--command-config",
        metavar="FILE",
        help="Properties of a Kafka client, for TLS and SASL: security.protocol, ssl.*, sasl.*.",
    ),
]


def output_option(*formats: str, help: str = "The format of the output.", **more: Any) -> Any:
    """Return the option --output, which shells complete with these formats."""
    return connection_option(
        "--output", metavar="|".join(formats), help=help, autocompletion=lambda: list(formats), **more
    )


Timeout = Annotated[
    int, connection_option("--timeout", metavar="MS", min=1, help="Limit of each call, in ms.")
]
"""With the default `DEFAULT_TIMEOUT_MS` in every command."""
Output = Annotated[str, output_option(*OUTPUTS)]
TableOrJson = Annotated[str, output_option("table", "json")]


@dataclass(frozen=True, kw_only=True)
class Connecting:
    """The options of the connection, which every command of a cluster has."""

    bootstrap_server: Annotated[
        str,
        connection_option("--bootstrap-server", metavar="HOST:PORT,...", help="Addresses of the cluster."),
    ] = DEFAULT_SERVER
    command_config: CommandConfig = None
    timeout: Timeout = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, kw_only=True)
class ConnectingAndPrinting(Connecting):
    """The same and the format of the output."""

    output: Output = "table"


def security_of(command_config: Path | None) -> Security:
    """Return the security in a file of properties. Raises `UsageProblem`, which names the file."""
    from headgate.client.security import NOT_SECURED, Security, SecurityProblem

    if command_config is None:
        return NOT_SECURED
    try:
        return Security.read(command_config)
    except SecurityProblem as problem:
        raise UsageProblem(f"--command-config {problem}") from problem


def spark_options(command_config: Path | None) -> dict[str, str]:
    """Return the same as options of the Spark source. Raises `UsageProblem`, which names the file."""
    from headgate.client.security import is_of_security, read_properties

    security_of(command_config)
    given = {} if command_config is None else read_properties(command_config)
    return {f"kafka.{name}": value for name, value in given.items() if is_of_security(name)}


def caller() -> str:
    """Return the user who runs this command, as `user@host`; the host alone if the user has no name."""
    host = socket.gethostname()
    try:
        return f"{getpass.getuser()}@{host}"
    except (OSError, KeyError):
        return host


def open_admin(server: str, timeout_ms: int, command_config: Path | None) -> Admin:
    """Return an Admin for these options. Raises `UsageProblem`."""
    from headgate.admin import Admin

    security = security_of(command_config)
    try:
        return Admin(server, timeout_ms / 1000, f"headgate:{caller()}", security=security)
    except ValueError as problem:
        raise UsageProblem(f"--bootstrap-server {server}: {problem}") from problem


def connection_words(options: Connecting) -> list[str]:
    """Return the options of the connection, for a command that is printed to be run next."""
    words = ["--bootstrap-server", options.bootstrap_server]
    if options.command_config is not None:
        words += ["--command-config", str(options.command_config)]
    return words


def run_with_admin(options: Connecting, act: Callable[[Admin], int], command: str = "consumer-groups") -> int:
    """Do something with an Admin and return its exit code; 2 for invalid options, 1 if it is refused.

    What went wrong is told on standard error, with advice that names `command`. After Ctrl-C the exit code is
    130.
    """
    from headgate.cli.advice import in_words
    from headgate.cli.printing import say
    from headgate.client.errors import ClientError

    try:
        with open_admin(options.bootstrap_server, options.timeout, options.command_config) as admin:
            return act(admin)
    except UsageProblem as problem:
        say(str(problem))
        return 2
    except ClientError as error:
        say(in_words(error, command))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def check_output(output: str) -> None:
    """Raise `UsageProblem` if `output` is no format."""
    if output not in OUTPUTS:
        raise UsageProblem(f"--output {output}: table, json or csv is expected")
