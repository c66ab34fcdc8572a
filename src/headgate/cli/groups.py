"""`headgate groups`: the groups of every kind, by the options of kafka-groups.sh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.connecting import ConnectingAndPrinting, check_output, run_with_admin
from headgate.cli.option_classes import takes_options
from headgate.cli.usage_problem import UsageProblem

if TYPE_CHECKING:
    from headgate.admin import Admin, GroupListing

TYPES = ("classic", "consumer", "share", "streams")
_FILTERS = ("group_type", "protocol", "consumer", "share", "streams")


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting):
    """The options of `headgate groups`."""

    list: Annotated[bool, typer.Option("--list", help="List the groups (the only action).")] = False
    group_type: Annotated[
        str | None, typer.Option("--group-type", metavar="TYPE", help=f"Only this type: {', '.join(TYPES)}.")
    ] = None
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="NAME", help="Only this protocol, such as consumer.")
    ] = None
    consumer: Annotated[
        bool, typer.Option("--consumer", help="Only groups of consumers, of both protocols.")
    ] = False
    share: Annotated[bool, typer.Option("--share", help="Only share groups.")] = False
    streams: Annotated[bool, typer.Option("--streams", help="Only groups of Kafka Streams.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="The state of each group, too.")] = False


@takes_options(Options)
def groups(options: Options) -> None:
    """List the groups of every kind.

    The options are those of kafka-groups.sh, and --verbose. `headgate consumer-groups` and `headgate
    share-groups` describe and change groups.

    headgate groups --list --share
    """
    raise typer.Exit(run_with_admin(options, lambda admin: _list(admin, options)))


def _list(admin: Admin, options: Options) -> int:
    from headgate.admin.survey import Surveyor
    from headgate.cli.incomplete import told_gaps
    from headgate.cli.printing import print_rows, print_table

    _check(options)
    surveyor = Surveyor(admin.cluster)
    rows = [
        {
            "group": one.group_id,
            "type": one.group_type,
            "protocol": one.protocol_type,
            "state": one.state,
        }
        for one in surveyor.all_listings()
        if _is_wanted(one, options)
    ]
    columns = ("group", "type", "protocol", "state") if options.verbose else ("group", "type", "protocol")
    if options.output == "table":
        print_table(rows, columns)
    else:
        print_rows(rows, columns, "groups", options.output)
    return 1 if told_gaps(surveyor) else 0


def _check(options: Options) -> None:
    check_output(options.output)
    if not options.list:
        raise UsageProblem("--list is expected; see `headgate groups --help`")
    given = [name for name in _FILTERS if getattr(options, name)]
    if len(given) > 1 and given != ["group_type", "protocol"]:
        named = " and ".join("--" + name.replace("_", "-") for name in given)
        raise UsageProblem(f"{named}: one of them is expected")
    if options.group_type is not None and options.group_type.lower() not in TYPES:
        raise UsageProblem(f"--group-type {options.group_type}: one of {', '.join(TYPES)} is expected")


def _is_wanted(group: GroupListing, options: Options) -> bool:
    kind, protocol = group.group_type.lower(), group.protocol_type
    if options.group_type is not None and kind != options.group_type.lower():
        return False
    if options.protocol is not None and protocol != options.protocol:
        return False
    if options.consumer:
        return kind == "consumer" or (kind in ("classic", "") and protocol in ("consumer", ""))
    if options.share or options.streams:
        return kind == ("share" if options.share else "streams")
    return True
