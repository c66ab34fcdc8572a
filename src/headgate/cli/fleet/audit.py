"""`headgate fleet audit`: which groups lose offsets soon, lag, are stuck or dead, or were set back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.admin.errors import moment
from headgate.cli.connecting import INTERRUPTED, CommandConfig, Output, check_output, spark_options
from headgate.cli.consumer_groups.arguments import parse_span
from headgate.cli.fleet.common import failed, told_unknown_ends
from headgate.cli.option_classes import takes_options
from headgate.cli.printing import Row, print_rows, say
from headgate.cli.progress import progress_bar
from headgate.cli.spark import interruption_without_stack, session
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import Millis
from headgate.domain.setting import INT_MAX
from headgate.domain.wording import counted

if TYPE_CHECKING:
    from headgate.fleet import Audited, Finding, Rules
    from headgate.fleet.audit import PartitionFacts, Run

FOUND = 3
"""Exit code of an audit with findings."""

_COLUMNS = ("group", "type", "state", "offsets", "lag", "last_commit", "empty_since", "expires", "findings")


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The options of the audit, with their help."""

    source: Annotated[str, typer.Argument(help="HOST:PORT[,HOST:PORT...], or a data directory (no lags).")]
    expiring_within: Annotated[
        str, typer.Option(metavar="24h", help="Find groups with an offset that expires so soon.")
    ] = "P1D"
    stuck_after: Annotated[
        str,
        typer.Option(metavar="1h", help="Find groups with members and lag that commit nothing so long."),
    ] = "PT1H"
    dead_after: Annotated[
        str, typer.Option(metavar="24h", help="Find groups without members for so long.")
    ] = "P1D"
    backwards_within: Annotated[
        str, typer.Option(metavar="24h", help="Find groups whose offset was set back so recently.")
    ] = "P1D"
    lag_above: Annotated[
        int | None, typer.Option(metavar="N", help="Find groups with a larger lag.", min=0)
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="FINDING", help="Print only groups with this finding. Can be repeated."),
    ] = None
    all_groups: Annotated[bool, typer.Option("--all", help="Print groups without findings too.")] = False
    retention_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Retention of offsets; by default the cluster's, or 7 days.", min=1, max=INT_MAX
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(help="Read the log by this Spark: local[*], spark://... By default without it."),
    ] = None
    command_config: CommandConfig = None
    output: Output = "table"


@takes_options(AuditOptions)
def audit(options: AuditOptions) -> None:
    """Tell which groups lose offsets soon, lag, are stuck or dead, or were set back.

    The coordinator's log is read and replayed by the coordinator's own rules. Nothing is changed. The exit
    code is 3 if anything was found, 0 if nothing was, and 1 if the end of a partition is not known, so that
    nothing is found of its lag.
    """
    try:
        from headgate.client.errors import ClientError as Unreachable
        from headgate.fleet import AuditFailed
        from headgate.spark.options import OptionError
        from headgate.spark.plan import MissingData
    except ModuleNotFoundError as problem:
        raise failed(f"{problem}: pip install 'headgate[spark]'") from problem
    try:
        check_output(options.output)
        wanted = {_finding(each) for each in options.only or ()}
        with interruption_without_stack():
            audited, unreadable = _audited(options, _rules(options))
    except (UsageProblem, OptionError) as problem:
        raise failed(str(problem), 2) from problem
    except KeyboardInterrupt as interruption:
        raise failed("interrupted", INTERRUPTED) from interruption
    except (AuditFailed, Unreachable, MissingData, OSError) as problem:
        raise failed(str(problem)) from problem
    found = [each for each in audited if wanted.intersection(each.findings) or (not wanted and each.findings)]
    rows = [_audited_row(each) for each in (audited if options.all_groups else found)]
    print_rows(rows, _COLUMNS, "groups", options.output)
    counts = Counter(finding for each in audited for finding in each.findings)
    words = ", ".join(f"{count} {finding}" for finding, count in counts.items())
    say(f"{counted(len(audited), 'group')}: {words or 'nothing found'}")
    if unreadable:
        were = "was" if unreadable == 1 else "were"
        say(f"{counted(unreadable, 'record')} of the log could not be decoded and {were} left out")
    is_incomplete = told_unknown_ends(audited)
    raise typer.Exit(FOUND if found else 1 if is_incomplete else 0)


def _rules(options: AuditOptions) -> Rules:
    from headgate.fleet import Rules

    return Rules(
        expiring_within_ms=parse_span("--expiring-within", options.expiring_within),
        stuck_after_ms=parse_span("--stuck-after", options.stuck_after),
        dead_after_ms=parse_span("--dead-after", options.dead_after),
        backwards_within_ms=parse_span("--backwards-within", options.backwards_within),
        lag_above=options.lag_above,
    )


def _audited(options: AuditOptions, rules: Rules) -> tuple[list[Audited], int]:
    """Return all groups, and the number of records that could not be decoded."""
    from headgate.fleet import audit as audit_all
    from headgate.fleet.audit import look_at, run_here, run_on_spark

    run: Run = run_here
    if options.master is not None:
        run = run_on_spark(session(options.master, "headgate fleet audit"))
    known = look_at(options.source, spark_options(options.command_config))
    if known.ends is None and options.lag_above is not None:
        raise UsageProblem("--lag-above: a data directory does not tell lags; name a server, HOST:PORT")
    unreadable = 0
    with progress_bar("reading the log", len(known.partitions)) as advance:

        def on_progress(facts: PartitionFacts) -> None:
            nonlocal unreadable
            unreadable += facts.unreadable
            advance()

        retention = options.retention_minutes
        audited = audit_all(known, rules, retention_minutes=retention, run=run, on_progress=on_progress)
    return audited, unreadable


def _finding(text: str) -> Finding:
    from headgate.fleet import Finding

    try:
        return Finding(text)
    except ValueError:
        raise UsageProblem(f"--only {text}: one of {', '.join(Finding)} is expected") from None


def _audited_row(each: Audited) -> Row:
    facts = each.facts
    return {
        "group": facts.group_id,
        "type": facts.group_type,
        "state": facts.state,
        "offsets": facts.offset_count,
        "lag": facts.lag,
        "unknown": len(facts.unknown_ends),
        "last_commit": _time(facts.last_commit_at),
        "empty_since": _time(facts.empty_since),
        "expires": _time(facts.first_expiry_at),
        "findings": ",".join(each.findings),
    }


def _time(time: int | None) -> str | None:
    return None if time is None else moment(Millis(time))
