"""Commands in a cluster that does not know all of its groups: what is missing is told, with exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.cluster.broken import AWAY, HIDDEN, KNOWN, LOST, REFUSALS, SHARED, WHY, start
from tests.cli.cluster.conftest import Headgate
from tests.client.scripted import ScriptedNode

from headgate.admin import Admin, GroupsMissing
from headgate.domain.ids import GroupId

pytestmark = pytest.mark.timeout(60)

MISSING = f"headgate: groups are missing: {WHY}\n"
RESET = "consumer-groups --reset-offsets --to-earliest"
SHARE_RESET = "share-groups --reset-offsets --to-earliest --topic flights"


@pytest.fixture
def servers() -> Iterator[str]:
    """The address of such a cluster."""
    nodes: list[ScriptedNode] = []
    node = start(nodes)
    yield f"{node.host}:{node.port}"
    for one in nodes:
        one.close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("groups --list", KNOWN),
        ("groups --list --share", SHARED),
        ("consumer-groups --list", KNOWN),
        ("consumer-groups --list --output json", KNOWN),
        ("share-groups --list", SHARED),
        ("lag", KNOWN),
        ("consumer-groups --describe --all-groups", KNOWN),
        ("share-groups --describe --all-groups --state", SHARED),
        (f"{RESET} --all-groups --all-topics", KNOWN),
        ("consumer-groups --delete --all-groups", KNOWN),
        ("share-groups --delete --all-groups", SHARED),
        ("consumer-groups --paused-partitions --all-groups", ""),
        ("fleet reset --all-groups --to-earliest --plan plan.csv", KNOWN),
        ("fleet reset --groups-matching k.* --to-earliest --plan plan.csv", KNOWN),
        ("fleet reset --groups-matching l.* --to-earliest --plan plan.csv", ""),
    ],
)
def test_all_groups_that_are_not_all_are_told(
    headgate: Headgate, servers: str, words: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups that are known are printed and changed. The exit code is not that of a whole answer."""
    monkeypatch.chdir(tmp_path)
    done = headgate(words, "--bootstrap-server", servers, "--timeout", "2000")
    assert (done.exit_code, shown in done.stdout) == (1, True), done.stderr
    assert MISSING in done.stderr


@pytest.mark.parametrize("group", [LOST, HIDDEN])
@pytest.mark.parametrize(("command", "known"), [("consumer-groups", KNOWN), ("share-groups", SHARED)])
def test_a_group_that_cannot_be_asked_does_not_keep_another_one(
    headgate: Headgate, servers: str, command: str, known: str, group: str
) -> None:
    """Each group has its row, whichever is named first."""
    for names in ((known, group), (group, known)):
        words = f"{command} --delete --group {names[0]} --group {names[1]} --output csv"
        done = headgate(words, "--bootstrap-server", servers, "--timeout", "1000")
        name = REFUSALS[group].name
        assert (done.exit_code, sorted(done.stdout.split())) == (
            1,
            sorted(["group,status", f"{known},deleted", f"{group},{name}"]),
        ), done.stderr
        assert name in done.stderr


def test_what_was_deleted_is_told_if_another_coordinator_does_not_answer(
    headgate: Headgate, servers: str
) -> None:
    """Else all would be taken for refused."""
    words = f"consumer-groups --delete --group {AWAY} --group {KNOWN} --group {HIDDEN}"
    done = headgate(words, "--bootstrap-server", servers, "--timeout", "1000")
    assert done.exit_code == 1
    assert "Connection refused" in done.stderr
    told = f"; no answer for: {AWAY}; deleted: {KNOWN}; refused: the coordinator of group {HIDDEN}: "
    assert told in done.stderr


@pytest.mark.parametrize(("command", "known"), [("consumer-groups", KNOWN), ("share-groups", SHARED)])
def test_a_group_that_an_earlier_attempt_may_have_deleted_is_told(
    headgate: Headgate, command: str, known: str
) -> None:
    """The answer to the first request was lost, and the second one finds no such group."""
    nodes: list[ScriptedNode] = []
    node = start(nodes, loses_first_deletion=True)
    words = f"{command} --delete --group {known}"
    done = headgate(words, "--bootstrap-server", f"{node.host}:{node.port}", "--timeout", "5000")
    for one in nodes:
        one.close()
    assert (done.exit_code, "GROUP_ID_NOT_FOUND" in done.stdout) == (1, True), done.stderr
    assert "an earlier attempt may have been carried out" in done.stderr


@pytest.mark.parametrize("group", [LOST, HIDDEN])
@pytest.mark.parametrize(
    "words",
    [
        "lag",
        f"{RESET} --all-topics",
        f"{RESET} --topic flights --create",
        SHARE_RESET,
        f"{SHARE_RESET} --create",
        "fleet reset --to-earliest --plan plan.csv",
        "consumer-groups --describe",
        "consumer-groups --delete",
        "share-groups --describe",
    ],
)
def test_a_group_that_nobody_answers_for_may_exist(
    headgate: Headgate, servers: str, words: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said to be missing, no similar name is offered, and it is not to be created."""
    monkeypatch.chdir(tmp_path)
    done = headgate(words, "--group", group, "--bootstrap-server", servers, "--timeout", "2000")
    assert (done.exit_code, REFUSALS[group].name in done.stderr) == (1, True), done.stderr
    for wrong in ("there is no", "does not exist", "did you mean", "--create"):
        assert wrong not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("lag --group nobody", 1, "there is no consumer group called nobody;"),
        (f"{RESET} --all-topics --group nobody", 1, "there is no group called nobody; `headgate"),
        (f"{RESET} --all-topics --group nobody", 1, "lists all groups (--create creates it)"),
        (
            f"{RESET} --all-topics --group {SHARED}",
            1,
            f"group {SHARED} is a share group: use",
        ),
        (f"{SHARE_RESET} --group nobody", 1, "there is no share group called nobody; `headgate"),
        (f"{SHARE_RESET} --group {KNOWN}", 1, f"group {KNOWN} is not a share group: use `headgate"),
        ("fleet reset --to-earliest --plan plan.csv --group nobody", 2, "group nobody does not exist"),
    ],
)
def test_a_group_whose_coordinator_does_not_know_it_does_not_exist(
    headgate: Headgate, servers: str, words: str, code: int, says: str
) -> None:
    """Its coordinator answers, so what other groups lack does not matter."""
    done = headgate(words, "--bootstrap-server", servers, "--timeout", "2000")
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(
    "words", ["lag", f"{RESET} --all-topics", "fleet reset --to-earliest --plan plan.csv"]
)
def test_a_group_that_is_named_does_not_lack_the_others(
    headgate: Headgate, servers: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer for it is whole."""
    monkeypatch.chdir(tmp_path)
    done = headgate(words, "--group", KNOWN, "--bootstrap-server", servers, "--timeout", "2000")
    assert (done.exit_code, "missing" in done.stderr) == (0, False), done.stderr
    assert KNOWN in done.stdout


def test_one_group_without_an_answer_does_not_stop_the_others(
    headgate: Headgate, servers: str, tmp_path: Path
) -> None:
    """The plan has those that are known, and the exit code tells that it is not whole."""
    groups = [word for group in (HIDDEN, KNOWN) for word in ("--group", group)]
    target = ("--to-earliest", "--plan", tmp_path / "plan.csv", "--bootstrap-server", servers)
    done = headgate("fleet reset", *groups, *target, "--timeout", "2000")
    assert (done.exit_code, f"1 group is missing ({HIDDEN}): " in done.stderr) == (1, True), done.stderr
    assert (tmp_path / "plan.csv").read_text().splitlines()[1:] == [f"{KNOWN},flights,0,10,0,"]


def test_health_tells_what_is_away_or_not_known(headgate: Headgate, servers: str) -> None:
    """A broker that is gone is known by its replicas only. What the user may not ask is no failure."""
    done = headgate("health", "--bootstrap-server", servers, "--timeout", "2000", "--output", "csv")
    found = done.stdout.splitlines()
    assert f"groups,failed,groups are missing: {WHY}" in found
    assert 'brokers,failed,"broker 2 has replicas, but is not in the cluster"' in found
    assert "disks,warning,not known: the directories of logs: CLUSTER_AUTHORIZATION_FAILED" in found
    why = "the coordinator of group headgate-health: GROUP_AUTHORIZATION_FAILED"
    assert f"coordinators,warning,not known: {why}" in found


def test_a_search_for_hanging_transactions_says_how_to_leave_a_partition_out(
    headgate: Headgate, servers: str
) -> None:
    """One without a leader would end each search of all partitions."""
    at = ("--bootstrap-server", servers, "--timeout", "500")
    done = headgate("transactions find-hanging", *at)
    says = "LEADER_NOT_AVAILABLE; --broker-id, or --topic with --partition, searches other partitions"
    assert (done.exit_code, says in done.stderr) == (1, True), done.stderr


def test_a_list_of_groups_that_lacks_some_is_an_error(servers: str) -> None:
    """It has the groups that are known."""
    with Admin(servers, timeout_s=1) as admin:
        with pytest.raises(GroupsMissing, match=WHY) as missing:
            admin.list_groups()
        assert [one.group_id for one in missing.value.listings] == [GroupId(KNOWN), GroupId(SHARED)]
        with pytest.raises(GroupsMissing) as missing:
            admin.list_share_groups()
        assert [one.group_id for one in missing.value.listings] == [GroupId(SHARED)]
        assert [str(one) for one in admin.survey_groups().unlisted] == [WHY]
