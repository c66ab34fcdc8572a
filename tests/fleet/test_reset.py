"""`headgate fleet reset`: a plan for many groups, its execution, and what takes it back."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.consumers import reading
from tests.fleet.conftest import Command, commit
from typer.testing import CliRunner, Result

from headgate.admin import Admin, ToEarliest, ToOffsets
from headgate.broker import Broker
from headgate.cli import app
from headgate.client.offsets import commit_offsets
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.fleet import PlannedOffsets, PlanUnreadable, Step, execute, load_plan, save_plan, undo_of
from headgate.fleet.planning import plan_resets, read_targets
from headgate.log.filesystem import OsFileSystem
from headgate.spark.landing import land

Reset = Callable[..., Result]


@pytest.fixture
def reset(broker: Broker, command: Command, tmp_path: Path) -> Reset:
    """Run the command with the server and a file of the plan."""

    def invoke(*arguments: str | Path, plan: str = "plan.csv") -> Result:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        return command("reset", *servers, "--plan", tmp_path / plan, *arguments)

    return invoke


def committed(broker: Broker, group: str) -> list[int]:
    with Admin(broker.bootstrap_servers) as admin:
        return [each.offset for each in admin.committed_offsets(group).values()]


def results(result: Result) -> dict[str, str]:
    """Return the result of each group."""
    return {row["group"]: row["result"] for row in json.loads(result.stdout)["groups"]}


def test_many_groups_are_planned_then_reset_and_taken_back(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    names = [new_group(8, 9) for _ in range(3)]
    pattern = names[0].rsplit("-", 1)[0] + "-.*"
    when = "2023-11-14T22:13:23Z"  # START_MS and three seconds: the fourth record of each partition
    result = reset("--groups-matching", pattern, "--to-datetime", when)
    assert result.exit_code == 0, result.stderr
    assert "nothing was changed" in result.stderr and "--execute" in result.stderr
    assert [committed(broker, name) for name in names] == [[8, 9]] * 3
    with (tmp_path / "plan.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {
        "group": names[0],
        "topic": "flights",
        "partition": "0",
        "committed_offset": "8",
        "new_offset": "3",
        "cluster": rows[-1]["cluster"],
    }
    result = reset("--execute", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert results(result) == dict.fromkeys(names, "done")
    assert [committed(broker, name) for name in names] == [[3, 3]] * 3
    assert results(reset("--execute", "--output", "json")) == dict.fromkeys(names, "already done")
    assert "plan.undo.csv" in result.stderr
    assert reset("--execute", plan="plan.undo.csv").exit_code == 0
    assert [committed(broker, name) for name in names] == [[8, 9]] * 3


def test_a_group_that_committed_since_the_plan_is_left_alone_and_so_is_one_with_members(
    broker: Broker, reset: Reset, new_group: Callable[..., str]
) -> None:
    moved, active, calm = (new_group(8, 9) for _ in range(3))
    groups = [word for name in (moved, active, calm) for word in ("--group", name)]
    assert reset(*groups, "--to-earliest").exit_code == 0
    commit(broker, moved, 8, 10)
    with reading(broker.bootstrap_servers, active, "flights"):
        result = reset("--execute", "--output", "json")
        again = reset(*groups, "--to-earliest", plan="another.csv")
    assert result.exit_code == 1
    assert results(result) == {moved: "moved", active: "active", calm: "done"}
    messages = {row["group"]: row["message"] for row in json.loads(result.stdout)["groups"]}
    assert messages[moved] == "flights-1 is at 10, not at 9"
    assert [committed(broker, name) for name in (moved, active, calm)] == [[8, 10], [8, 9], [0, 0]]
    assert again.exit_code == 1 and f"left out: group {active} has members" in again.stderr
    assert "to take it back" in result.stderr


def test_an_execution_that_changed_nothing_names_no_undo(
    broker: Broker, reset: Reset, new_group: Callable[..., str]
) -> None:
    """There is nothing to take back."""
    moved = new_group(8, 9)
    assert reset("--group", moved, "--to-earliest").exit_code == 0
    commit(broker, moved, 8, 10)
    result = reset("--execute")
    assert result.exit_code == 1 and "1 group moved" in result.stderr
    assert "take it back" not in result.stderr


def test_a_plan_of_another_cluster_is_refused(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    """Though the offsets are the same, as those of a copy are. Without its id the plan is executed."""
    name = new_group(8)
    assert reset("--group", name, "--to-earliest").exit_code == 0
    path = tmp_path / "plan.csv"
    (planned,) = load_plan(path)
    assert planned.cluster_id
    elsewhere = replace(planned, cluster_id="elsewhere")
    save_plan([elsewhere], path)
    refused = reset("--execute")
    assert (refused.exit_code, "made for cluster elsewhere" in refused.stderr) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.csv"]
    with Admin(broker.bootstrap_servers) as admin:
        (outcome,) = execute(admin, [elsewhere])
    assert (outcome.step, "elsewhere" in outcome.message) == (Step.REFUSED, True)
    assert committed(broker, name) == [8]
    save_plan([replace(planned, cluster_id="")], path)
    assert reset("--execute").exit_code == 0
    assert committed(broker, name) == [0]


def test_an_interrupted_execution_continues(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    names = [new_group(8) for _ in range(4)]
    groups = [word for name in names for word in ("--group", name)]
    assert reset(*groups, "--shift-by", "-2").exit_code == 0
    plan = load_plan(tmp_path / "plan.csv")
    with Admin(broker.bootstrap_servers) as admin:
        interrupted = execute(admin, plan)
        assert [next(interrupted).step for _ in range(2)] == [Step.DONE, Step.DONE]
    assert list(results(reset("--execute", "--output", "json")).values()) == [
        *("already done", "already done"),
        *("done", "done"),
    ]
    assert [committed(broker, name) for name in names] == [[6]] * 4
    # The undo of a plan of which a part is done takes back that part.
    commit(broker, names[3], 8)
    assert list(results(reset("--execute", "--output", "json", plan="plan.undo.csv")).values()) == [
        *("done", "done", "done"),
        "already done",
    ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_offsets_from_a_table(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path, suffix: str
) -> None:
    one, other = new_group(8, 9), new_group(8, 9)
    path = tmp_path / f"offsets{suffix}"
    rows = [(one, "flights", 0, 5), (one, "flights", 1, 50), (other, "flights", 1, 1)]
    columns = dict(zip(("group_id", "topic", "partition", "offset"), zip(*rows, strict=True), strict=True))
    if suffix == ".csv":
        path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    else:
        parquet.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
    assert reset("--from-table", path).exit_code == 0
    assert reset("--execute").exit_code == 0
    assert (committed(broker, one), committed(broker, other)) == ([5, 10], [8, 1])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "group_id,topic,partition\ng,t,0",
            "has no column committed_offset; it has group_id, topic, partition",
        ),
        ("group,topic,partition,offset\ng,t,0,unknown\ng,t,1,4", "the offset of t-0 of group g is 'unknown'"),
        ("group,topic,partition,offset\ng,t,0,3\ng,t,0,4", "t-0 of group g occurs twice"),
        ("group,topic,partition,offset\n", "the table has no offsets"),
        ("", "table.csv: the file is empty"),
    ],
)
def test_a_table_that_has_no_offsets(reset: Reset, tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(table)
    result = reset("--from-table", path)
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.stderr


def test_offsets_of_a_time_that_were_landed(
    broker: Broker, reset: Reset, command: Command, new_group: Callable[..., str], tmp_path: Path
) -> None:
    name = new_group(8, 9)
    land(broker.bootstrap_servers, str(tmp_path / "tables"), tables=["offset_commits", "offsets_current"])
    commit(broker, name, 1, 2)
    for source in (tmp_path / "tables" / "offsets_current", tmp_path / "before.csv"):
        if source.suffix:
            printed = CliRunner().invoke(
                app, ["spark", "offsets", str(tmp_path / "tables"), "--output", "csv"]
            )
            source.write_text(printed.stdout)
        assert reset("--from-table", source, "--group", name).exit_code == 0
        assert reset("--execute").exit_code == 0
        assert committed(broker, name) == [8, 9]
        commit(broker, name, 1, 2)


def test_removed_offsets_are_committed_again_and_new_ones_removed(
    broker: Broker, new_group: Callable[..., str]
) -> None:
    name = new_group(8)
    first, second = (TopicPartition(TopicName("flights"), partition) for partition in (0, 1))
    plan = [PlannedOffsets(name, {first: 8, second: None}, {first: None, second: 4})]
    with Admin(broker.bootstrap_servers) as admin:
        assert [each.step for each in execute(admin, plan)] == [Step.DONE]
        assert list(admin.committed_offsets(name)) == [second]
        assert [each.step for each in execute(admin, undo_of(plan))] == [Step.DONE]
        assert {place: each.offset for place, each in admin.committed_offsets(name).items()} == {first: 8}


def test_a_plan_survives_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TopicPartition(TopicName("a,b"), 3)
    plan = [
        PlannedOffsets('odd "name"\n,', {place: None}, {place: 4}),
        PlannedOffsets("b", {place: 1}, {place: None}, "cluster"),
        PlannedOffsets("\rb", {place: 1}, {place: 2}),
        PlannedOffsets("c\rd", {place: 1}, {place: 2}),
    ]
    synced: list[Path] = []
    monkeypatch.setattr(OsFileSystem, "sync_directory", lambda files, path: synced.append(path))
    save_plan(plan, tmp_path / "plan.csv")
    assert synced == [tmp_path], "a power cut would lose the name of the file"
    assert load_plan(tmp_path / "plan.csv") == plan
    assert [file.name for file in tmp_path.iterdir()] == ["plan.csv"]


def test_the_undo_of_another_plan_is_not_replaced(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    first, second = new_group(8), new_group(8)
    assert reset("--group", first, "--group", second, "--to-earliest").exit_code == 0
    assert reset("--execute").exit_code == 0
    undo = (tmp_path / "plan.undo.csv").read_text()
    # The same plan without what is done, and another plan in the same file.
    rows = (tmp_path / "plan.csv").read_text().splitlines(keepends=True)
    (tmp_path / "plan.csv").write_text("".join([rows[0], rows[2]]))
    assert "plan.undo-2.csv" in reset("--execute").stderr
    assert reset("--group", first, "--to-latest").exit_code == 0
    for _ in range(2):
        assert "plan.undo-3.csv" in reset("--execute").stderr
    assert (tmp_path / "plan.undo.csv").read_text() == undo
    assert sorted(file.name for file in tmp_path.glob("*.undo*")) == [
        *("plan.undo-2.csv", "plan.undo-3.csv", "plan.undo.csv")
    ]
    for plan in ("plan.undo-3.csv", "plan.undo-2.csv", "plan.undo.csv"):
        assert reset("--execute", plan=plan).exit_code == 0
    assert (committed(broker, first), committed(broker, second)) == ([8], [8])


def test_a_group_that_cannot_be_reset_does_not_stop_the_others(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    name, strange = new_group(8), new_group(8)
    with Admin(broker.bootstrap_servers) as admin:
        place = TopicPartition(TopicName("flights"), 0)
        commit_offsets(admin.cluster, GroupId(strange), {place: -5})
    result = reset("--group", strange, "--group", name, "--to-earliest")
    assert result.exit_code == 1
    assert f"left out: group {strange}: flights-0 is at offset -5" in result.stderr
    assert [each.group_id for each in load_plan(tmp_path / "plan.csv")] == [name]
    with (tmp_path / "plan.csv").open("a") as file:
        file.write(f"{'x' * 40_000},flights,0,,1,\n")
    result = reset("--execute", "--output", "json")
    assert (result.exit_code, list(results(result).values())) == (1, ["done", "refused"])


def test_a_share_group_is_not_planned(
    broker: Broker, reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    """The plan is looked at before its execution, which refuses such a group. All groups are all others."""
    name, share, place = new_group(8), "not-planned", TopicPartition(TopicName("flights"), 0)
    told = f"group {share} is a share group: use `headgate share-groups`"
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_share_offsets(share, {place: 0})
        try:
            (tmp_path / "table.csv").write_text(
                f"group,topic,partition,offset\n{share},flights,0,0\n{name},flights,0,0\n"
            )
            targets = ("--group", share, "--group", name, "--to-earliest")
            for arguments in (("--from-table", tmp_path / "table.csv"), targets):
                result = reset(*arguments)
                assert (result.exit_code, f"left out: {told}\n" in result.stderr) == (1, True)
                assert [each.group_id for each in load_plan(tmp_path / "plan.csv")] == [name]
            result = reset("--groups-matching", f"{share}|{name}", "--to-earliest")
            assert (result.exit_code, share in result.stderr) == (0, False)
            with (tmp_path / "plan.csv").open("a") as file:
                file.write(f"{share},flights,0,,0,\n")
            result = reset("--execute")
            assert (result.exit_code, told in result.stdout) == (1, True)
        finally:
            admin.delete_groups([share])


def test_a_group_that_cannot_be_described_does_not_stop_the_others(
    broker: Broker, new_group: Callable[..., str]
) -> None:
    """Old consumers committed for the group without a name, and a landed table has it."""
    name = new_group(8)
    with Admin(broker.bootstrap_servers) as admin:
        steps = {
            each.planned.group_id: each.step
            for each in plan_resets(admin, dict.fromkeys(("", name), ToEarliest()))
        }
    assert steps == {"": Step.REFUSED, name: Step.DONE}


def test_a_plan_without_changes_replaces_an_earlier_one(
    broker: Broker, reset: Reset, new_group: Callable[..., str]
) -> None:
    """A program that executes the plan that it has made does not execute that of yesterday."""
    name = new_group(8)
    assert reset("--group", name, "--to-earliest").exit_code == 0
    result = reset("--group", name, "--shift-by", "0", "--output", "json")
    assert result.exit_code == 0 and json.loads(result.stdout) == {"offsets": []}
    result = reset("--execute")
    assert result.exit_code == 2 and "the plan is empty" in result.stderr
    assert committed(broker, name) == [8]


def test_a_named_group_that_the_table_does_not_have(reset: Reset, tmp_path: Path) -> None:
    """A typing error does not look like success."""
    path = tmp_path / "offsets.csv"
    path.write_text("group_id,topic,partition,offset\none,flights,0,1\n")
    result = reset("--from-table", path, "--group", "two")
    assert result.exit_code == 2 and "there is no group two" in result.stderr


def test_a_pattern_with_a_table_finds_groups_that_are_gone(reset: Reset, tmp_path: Path) -> None:
    """A group of the table that the cluster no longer has is planned, chosen by name or by pattern."""
    table = tmp_path / "t.csv"
    table.write_text("group_id,topic,partition,committed_offset\ngone-1,flights,0,3\nother,flights,0,3\n")
    result = reset("--from-table", table, "--groups-matching", "gone-.*")
    assert result.exit_code == 0, result.stderr
    (line,) = (tmp_path / "plan.csv").read_text().removeprefix(WITH_CLUSTER).splitlines()
    assert line.startswith("gone-1,flights,0,,3,")


def test_a_pattern_that_matches_no_group_is_told(reset: Reset, tmp_path: Path) -> None:
    """A typo in a pattern does not look like groups that need no change."""
    table = tmp_path / "t.csv"
    table.write_text("group_id,topic,partition,committed_offset\none,flights,0,3\n")
    for target, where in ((("--to-earliest",), ""), (("--from-table", table), " of the table")):
        result = reset("--groups-matching", "none-like-this", *target)
        assert result.exit_code == 0, result.stderr
        assert f"--groups-matching none-like-this matches no group{where}\n" in result.stderr


def test_a_topic_without_an_offset_of_the_groups_is_told(reset: Reset, tmp_path: Path) -> None:
    """A typo in a topic does not look like offsets that need no change; a topic with offsets is not named."""
    table = tmp_path / "t.csv"
    table.write_text("group_id,topic,partition,committed_offset\none,flights,0,3\n")
    result = reset("--from-table", table, "--all-groups", "--topic", "flihgts", "--topic", "flights")
    assert result.exit_code == 0, result.stderr
    assert "--topic flihgts: none of these groups has an offset in it" in result.stderr
    assert "--topic flights:" not in result.stderr


def test_a_plan_from_a_spreadsheet(tmp_path: Path) -> None:
    """With a byte order mark, and other line ends."""
    (tmp_path / "plan.csv").write_bytes(
        b"\xef\xbb\xbf" + (HEADING + "g,t,0,1,2\n").replace("\n", "\r\n").encode()
    )
    place = TopicPartition(TopicName("t"), 0)
    assert load_plan(tmp_path / "plan.csv") == [PlannedOffsets("g", {place: 1}, {place: 2})]


def test_an_interrupted_execution_says_how_to_go_on(
    broker: Broker, reset: Reset, new_group: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C or SIGTERM, also with JSON."""
    name = new_group(8)
    assert reset("--group", name, "--to-earliest").exit_code == 0
    for number in (signal.SIGINT, signal.SIGTERM):
        monkeypatch.setattr(Admin, "committed_offsets", lambda *_, number=number: signal.raise_signal(number))
        result = reset("--execute", "--output", "json")
        assert result.exit_code == 130
        assert "interrupted; run it again to go on" in result.stderr and not result.stdout


def test_a_table_with_a_topic_that_does_not_exist(
    reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    one, other = new_group(8), new_group(8)
    (tmp_path / "t.csv").write_text(
        f"group_id,topic,partition,offset\n{one},nowhere,0,1\n{other},flights,0,1\n"
    )
    result = reset("--from-table", tmp_path / "t.csv")
    assert result.exit_code == 1
    assert f"left out: group {one}: nowhere-0 does not exist" in result.stderr
    assert [each.group_id for each in load_plan(tmp_path / "plan.csv")] == [other]


def test_an_offset_outside_of_the_log_is_replaced_and_told_of(
    reset: Reset, new_group: Callable[..., str], tmp_path: Path
) -> None:
    """Also where nothing is left to change then."""
    beyond, same = new_group(8, 3), new_group(10)
    (tmp_path / "t.csv").write_text(
        f"group,topic,partition,offset\n{beyond},flights,0,999\n{beyond},flights,1,4\n{same},flights,0,11\n"
    )
    result = reset("--from-table", tmp_path / "t.csv")
    assert result.exit_code == 0
    for name, offset in ((beyond, 999), (same, 11)):
        assert f"group {name}: flights-0: {offset} lies outside the log, which ends at 10\n" in result.stderr
    (planned,) = load_plan(tmp_path / "plan.csv")
    assert list(planned.new.values()) == [10, 4]


def test_names_in_a_table_are_texts(tmp_path: Path) -> None:
    """Not numbers, nulls, truth values or times, however they look."""
    path = tmp_path / "t.csv"
    names = ["007", "1.10", "NA", "true", "2026-11-21T08:30:00Z"]
    for name in names:
        path.write_text(f"group,topic,partition,offset\n{name},{name},0,5\n")
        place = TopicPartition(TopicName(name), 0)
        assert read_targets(path) == {name: ToOffsets({place: 5})}


@pytest.mark.parametrize("row", ["g,t,,5", "g,t,0.5,5", "g,t,0,5.5", "g,t,x,5", "g,t,0,true", "g,t,0,-5"])
def test_a_table_without_offsets_of_partitions(tmp_path: Path, row: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"group,topic,partition,offset\n{row}\n")
    with pytest.raises(PlanUnreadable, match=r"t\.csv"):
        read_targets(path)


@pytest.mark.parametrize("offset", [17, None])
def test_an_offset_that_is_not_known_is_not_planned(tmp_path: Path, offset: int | None) -> None:
    """A table of offsets as of a time has one nevertheless, where it may have been replaced since."""
    path, place = tmp_path / "t.parquet", TopicPartition(TopicName("t"), 0)
    row = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 17, "is_known": True}
    parquet.write_table(pa.Table.from_pylist([row]), path)
    assert read_targets(path) == {"g": ToOffsets({place: 17})}
    doubtful = row | {"partition": 1, "committed_offset": offset, "is_known": False}
    parquet.write_table(pa.Table.from_pylist([row, doubtful]), path)
    with pytest.raises(PlanUnreadable, match="t-1 of group g is 'unknown': leave it out"):
        read_targets(path)


HEADING = "group,topic,partition,committed_offset,new_offset\n"
WITH_CLUSTER = "group,topic,partition,committed_offset,new_offset,cluster\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the heading group,topic,partition,committed_offset,new_offset,cluster is expected"),
        (HEADING, "the plan is empty"),
        (HEADING + "g,t,0,1\n", "line 2: group,topic,partition,committed_offset,new_offset are expected"),
        (HEADING + "g,t,0,1,2\ng,t,x,1,2\n", "line 3"),
        (HEADING + "g,t,0,1,-2\n", "line 2: '-2' is no offset"),
        (HEADING + "g,t,0,1,2\ng,t,0,1,2\n", "line 3: t-0 of group g occurs twice"),
        (HEADING + "g,t,0,1,9223372036854775808\n", "line 2"),
        (HEADING + "g,t,0,1," + "9" * 5000, "line 2"),
        (HEADING + "g,t,2147483648,1,2\n", "line 2: group,topic,partition"),
        (HEADING + "g,t,0,1,522\ng,t,1,1,52", "line 3: the last line has no end"),
        (
            WITH_CLUSTER + "g,t,0,1,2\n",
            "line 2: group,topic,partition,committed_offset,new_offset,cluster are",
        ),
        (WITH_CLUSTER + "g,t,0,1,2,a\ng,t,1,1,2,b\n", "line 3: the lines of group g are for two clusters"),
    ],
)
def test_a_file_that_is_no_plan(reset: Reset, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plan.csv").write_text(text)
    with pytest.raises(PlanUnreadable, match=message):
        load_plan(tmp_path / "plan.csv")
    result = reset("--execute")
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--execute"], 2, "make it first, with a target"),
        (["--execute", "--to-earliest"], 2, "make the plan first"),
        (["--execute", "--group", "one"], 2, "--execute executes all of the plan"),
        (["--execute", "--groups-matching", "one"], 2, "--execute executes all of the plan"),
        (["--execute", "--all-groups"], 2, "--execute executes all of the plan"),
        (["--execute", "--topic", "flights"], 2, "--execute executes all of the plan"),
        (["--all-groups"], 2, "one of --to-earliest, --to-latest"),
        (["--all-groups", "--to-earliest", "--to-latest"], 2, "one of --to-earliest, --to-latest"),
        (["--to-earliest"], 2, "--group, --groups-matching or --all-groups is needed"),
        (["--group", "x", "--all-groups", "--to-earliest"], 2, "exclude each other"),
        (["--group", "no-such-group", "--to-earliest"], 2, "group no-such-group does not exist"),
        (["--groups-matching", "(", "--to-earliest"], 2, "--groups-matching (: "),
        (["--groups-matching", "none-like-this", "--to-earliest"], 0, "nothing to change"),
        (["--groups-matching", "none-like-this", "--to-datetime", "1970-01-21"], 0, "nothing to change"),
        (["--all-groups", "--to-datetime", "yesterday"], 2, "a date and time is expected"),
        (["--all-groups", "--by-duration", "1h"], 2, "--by-duration 1h: a duration is expected"),
        (["--from-table", "no-such-table.csv"], 2, "no-such-table.csv: there is no such file"),
    ],
)
def test_mistakes(reset: Reset, arguments: list[str], code: int, message: str) -> None:
    result = reset(*arguments)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not result.exception or isinstance(result.exception, SystemExit)


def test_a_cluster_that_cannot_be_reached(command: Command, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text(HEADING + "g,t,0,1,2\n")
    result = command(
        "reset", "--bootstrap-server", "127.0.0.1:1", "--plan", tmp_path / "plan.csv", "--execute"
    )
    assert result.exit_code == 1
    assert "run it again to go on" in result.stderr
