"""`headgate health`: whether a cluster answers, whether its partitions can be read and written, and whether
its disks have space.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from headgate.cli.connecting import ConnectingAndPrinting, check_output, run_with_admin
from headgate.cli.option_classes import takes_options

if TYPE_CHECKING:
    from headgate.admin import Admin, PartitionDescription, TopicDescription
    from headgate.cli.printing import Row
    from headgate.client.log_dirs import LogDir

OK, WARNING, FAILED = "ok", "warning", "failed"
_COLUMNS = ("check", "status", "detail")
_MOST_NAMED = 3
_FULL_SHARE, _LOW_SHARE = 0.01, 0.1
"""Free shares of a disk below which the check fails, or warns."""
_PROBE = "headgate-health"
"""The group whose coordinator is looked up. It is not created."""

Result = tuple[str, str]
"""Status and detail of a check."""


@dataclass(frozen=True, kw_only=True)
class Options(ConnectingAndPrinting):
    """The options of `headgate health`."""


@takes_options(Options)
def health(options: Options) -> None:
    """Check a cluster: brokers, disks, partitions, coordinators.

    The command works with Headgate and Kafka, and changes nothing. The exit code is 1 if a check failed, else
    0, also with warnings.

    headgate health --bootstrap-server kafka-1:9092 --output json
    """
    raise typer.Exit(run_with_admin(options, lambda admin: _check_all(admin, options)))


def _check_all(admin: Admin, options: Options) -> int:
    from headgate.cli.printing import print_rows

    check_output(options.output)
    rows: list[Row] = []
    for name, check in _CHECKS:
        status, detail = _result(check, admin)
        rows.append({"check": name, "status": status, "detail": detail})
        if status == FAILED and name == _CHECKS[0][0]:
            break  # nothing else can be asked
    print_rows(rows, _COLUMNS, "checks", options.output)
    return 1 if any(row["status"] == FAILED for row in rows) else 0


def _result(check: Callable[[Admin], Result], admin: Admin) -> Result:
    from headgate.cli.advice import in_words
    from headgate.client.errors import ClientError, RequestRefused
    from headgate.domain.errors import ErrorCode

    no_right = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        return check(admin)
    except ClientError as error:
        if isinstance(error, RequestRefused) and error.error in no_right:
            return WARNING, f"not known: {error}"
        return FAILED, in_words(error)


def _connection(admin: Admin) -> Result:
    begun = time.monotonic()
    found = admin.cluster.metadata([])
    took_ms = (time.monotonic() - begun) * 1000
    where = admin.cluster.any_node().address
    return OK, f"{where} answers in {took_ms:.0f} ms; cluster {found.cluster_id}"


def _brokers(admin: Admin) -> Result:
    """Connect to every broker that the cluster names. One that is away is named as a replica only."""
    from headgate.client.errors import ClientError

    metadata = admin.cluster.metadata()
    found = metadata.brokers
    with_replicas = {
        node_id for topic in metadata.topics for one in topic.partitions for node_id in one.replica_nodes
    }
    gone = sorted(with_replicas.difference(broker.node_id for broker in found))
    away = [f"broker {node_id} has replicas, but is not in the cluster" for node_id in gone]
    for broker in found:
        try:
            admin.cluster.node_at((broker.host, broker.port))
        except ClientError as error:
            away.append(f"broker {broker.node_id}: {error}")
    if away:
        return FAILED, "; ".join(_some(away))
    return OK, f"{_count(len(found), 'broker')} reachable"


def _disks(admin: Admin) -> Result:
    from headgate.client.log_dirs import log_dirs

    brokers = admin.cluster.metadata([]).brokers
    return space_of(
        (broker.node_id, one)
        for broker in brokers
        for one in log_dirs(admin.cluster, (broker.host, broker.port))
    )


def space_of(log_dirs: Iterable[tuple[int, LogDir]]) -> Result:
    """Return the result for the directories of brokers, with their node ids: the fullest disk decides."""
    broken, shares = [], []
    for node_id, one in log_dirs:
        if one.error:
            broken.append(f"{one.path} of broker {node_id}")
        elif one.total_bytes and one.usable_bytes is not None:
            free = _free(one.usable_bytes, one.total_bytes)
            shares.append((one.usable_bytes / one.total_bytes, f"{free} for {one.path} of broker {node_id}"))
    if broken:
        return FAILED, f"the broker cannot use {', '.join(_some(broken))}"
    if not shares:
        return OK, "the brokers do not tell their free space"
    share, detail = min(shares)
    return FAILED if share < _FULL_SHARE else WARNING if share < _LOW_SHARE else OK, detail


def _partitions(admin: Admin) -> Result:
    topics = [one for one in admin.describe_topics().values() if one is not None]
    parts = [(topic, one) for topic in topics for one in topic.partitions]
    leaderless = list(_named(parts, lambda one: one.leader is None))
    if leaderless:
        return FAILED, f"without a leader: {', '.join(_some(leaderless))}"
    if refused := _without_end(admin, parts):
        return FAILED, refused
    lacking = list(_named(parts, lambda one: len(one.isr) < len(one.replicas)))
    if lacking:
        return WARNING, f"under-replicated: {', '.join(_some(lacking))}"
    return OK, f"{_count(len(parts), 'partition')} of {_count(len(topics), 'topic')}"


def _without_end(admin: Admin, parts: Sequence[tuple[TopicDescription, PartitionDescription]]) -> str | None:
    """Ask every leader for the ends of its logs; return which it cannot tell, and why. None: it tells all."""
    from headgate.cli.advice import in_words
    from headgate.client.errors import ClientError
    from headgate.client.survey import Survey
    from headgate.domain.ids import TopicName, TopicPartition

    found = Survey(admin.cluster).end_offsets(
        TopicPartition(TopicName(topic.name), one.partition) for topic, one in parts
    )
    errors = {str(where): end for where, end in found.items() if isinstance(end, ClientError)}
    if not errors:
        return None
    return f"no end offset of {', '.join(_some(list(errors)))}: {in_words(next(iter(errors.values())))}"


def _coordinators(admin: Admin) -> Result:
    from headgate.domain.ids import GroupId

    node = admin.cluster.coordinator(GroupId(_PROBE))
    admin.committed_offsets(_PROBE)
    return OK, f"{node.address} answers for groups"


def _groups(admin: Admin) -> Result:
    from headgate.admin.survey import Surveyor
    from headgate.cli.incomplete import gaps

    surveyor = Surveyor(admin.cluster)
    groups = surveyor.all_listings()
    if missing := list(gaps(surveyor)):
        return FAILED, "; ".join(missing)
    if loading := [one.group_id for one in groups if one.state in ("Dead", "Unknown")]:
        return WARNING, f"in an unexpected state: {', '.join(_some(loading))}"
    return OK, _count(len(groups), "group")


_CHECKS: tuple[tuple[str, Callable[[Admin], Result]], ...] = (
    ("connection", _connection),
    ("brokers", _brokers),
    ("disks", _disks),
    ("partitions", _partitions),
    ("coordinators", _coordinators),
    ("groups", _groups),
)


def _named(
    parts: list[tuple[TopicDescription, PartitionDescription]], test: Callable[[PartitionDescription], bool]
) -> Iterator[str]:
    return (f"{topic.name}-{one.partition}" for topic, one in parts if test(one))


def _some(names: Sequence[str]) -> list[str]:
    rest = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])]


def _free(usable_bytes: int, total_bytes: int) -> str:
    """Return both sizes in GiB, or in MiB or KiB if less than a tenth of the larger unit is free."""
    unit, name = 1 << 10, "KiB"
    if usable_bytes >= (1 << 30) // 10:
        unit, name = 1 << 30, "GiB"
    elif usable_bytes >= (1 << 20) // 10:
        unit, name = 1 << 20, "MiB"
    return f"{usable_bytes / unit:,.1f} of {total_bytes / unit:,.1f} {name} free"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
