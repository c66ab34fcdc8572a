"""The output of `headgate log verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.cli.printing import printable, styled
from headgate.domain.wording import counted
from headgate.inspect.contents import directory_as_json
from headgate.inspect.findings import Finding, Severity
from headgate.inspect.verify import Report, size_to_check, verify

_COLORS = {Severity.ERROR: typer.colors.RED, Severity.NOTE: typer.colors.BLUE}


def verify_directory(data_dir: Path, *, as_json: bool) -> bool:
    """Check a data directory and print the findings. Return True if there is no damage.

    Raises NotADataDirectory and OSError.
    """
    with reading_progress(data_dir) as on_progress:
        report = verify(data_dir, on_progress)
    if as_json:
        _print_json(report)
    else:
        _print_lines(report)
    return not report.findings.errors


@contextmanager
def reading_progress(data_dir: Path) -> Iterator[Callable[[int], None]]:
    """Show how much of a directory is read if standard error is a terminal."""
    if not sys.stderr.isatty() or not data_dir.is_dir():
        yield lambda size: None
        return
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=size_to_check(data_dir))
        yield lambda size: progress.advance(task, size)


def _print_json(report: Report) -> None:
    findings = report.findings
    print(
        json.dumps(
            {
                **directory_as_json(report.directory),
                "errors": findings.errors,
                "notes": findings.notes,
                "looked_at": asdict(findings.checked),
                "findings": [{**asdict(each), "severity": each.severity.value} for each in findings.listed],
                "not_listed": [
                    {"severity": severity.value, "file": file, "count": count}
                    for (severity, file), count in findings.not_listed.items()
                ],
            },
            indent=2,
        )
    )


def _print_lines(report: Report) -> None:
    findings = report.findings
    # Errors come last, because the end of a long output is what the user sees.
    for severity in (Severity.NOTE, Severity.ERROR):
        for finding in findings.listed:
            if finding.severity is severity:
                _print_finding(finding)
        for (kind, file), count in findings.not_listed.items():
            if kind is severity:
                typer.echo(f"{styled(f'{kind.value:5}', fg=_COLORS[kind])}  {file}: {count} more like these")
    checked = findings.checked
    typer.echo(
        f"{counted(findings.errors, 'error')}, {counted(findings.notes, 'note')} in "
        f"{counted(checked.topics, 'topic')}, {counted(checked.partitions, 'written partition')}, "
        f"{counted(checked.segments, 'segment')}, {counted(checked.batches, 'batch', 'batches')}, "
        f"{counted(checked.records, 'record')}, {checked.size_bytes:,} bytes"
    )


def _print_finding(finding: Finding) -> None:
    where = finding.file if finding.position is None else f"{finding.file}, byte {finding.position}"
    severity = styled(f"{finding.severity.value:5}", fg=_COLORS[finding.severity])
    typer.echo(f"{severity}  {printable(where)}: {printable(finding.what)}")
    typer.echo(f"       {printable(finding.next_step)}")
