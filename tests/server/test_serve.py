"""`headgate serve` as a user at a shell sees it."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.waiting import wait_until

from headgate import __version__
from headgate.admin import Admin, ConfigChange, ConfigResource, ResourceType, TopicPartition
from headgate.broker import Broker, BrokerFailed, run
from headgate.cli.serve import _in_words, _own_address
from headgate.compiled import is_compiled
from headgate.domain.group_settings import GROUP_SETTINGS


def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--set", "num.partition=3"],
            "there is no setting called num.partition; did you mean num.partitions?",
        ),
        (
            ["--set", "process.roles=broker"],
            "process.roles is not a setting of Headgate; it is always broker,controller",
        ),
        (
            ["--set", "offsets.topic.replication.factor=1"],
            "offsets.topic.replication.factor is not a setting of Headgate; leave it out",
        ),
        (["--set", "num.partitions=many"], "num.partitions=many: a whole number is expected"),
        (["--set", "num.partitions=0"], "num.partitions=0: a value from 1 to 2147483647 is expected"),
        (["--set", "num.partitions"], "--set num.partitions: name=value is expected"),
        (["--set", "headgate.durability=maybe"], "one of sync, page-cache is expected"),
        (["--listen", "localhost"], "--listen localhost: HOST:PORT is expected, as in 127.0.0.1:9092"),
        (["--listen", "127.0.0.1:99999"], "--listen 127.0.0.1:99999: a port from 0 to 65535 is expected"),
        (
            ["--listen", "no.such.host.invalid:9092"],
            "--listen no.such.host.invalid:9092: no.such.host.invalid: ",
        ),
        (["--listen", "a..b:9092"], "--listen a..b:9092: no host has such a name"),
        (["--metrics-listen", "a" * 64 + ".org:1"], "a.org:1: no host has such a name"),
        (
            ["--config", "/nowhere/headgate.toml"],
            "--config /nowhere/headgate.toml: No such file or directory",
        ),
        (
            ["--listen", "127.0.0.1:9092", "--metrics-listen", "127.0.0.1:9092"],
            "--metrics-listen 127.0.0.1:9092: another address than --listen is expected",
        ),
        (["--log-level", "loud"], "--log-level loud: debug, info, warning or error is expected"),
        (["--dta-dir", "x"], "No such option"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_do(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """An invalid command line gets exit code 2 and a sentence with the expected value."""
    finished = headgate("serve", "--data-dir", str(tmp_path / "data"), *arguments)
    assert finished.returncode == 2
    assert says in finished.stderr
    assert "Traceback" not in finished.stderr


def test_settings_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    """Dotted names, tables and lists of a TOML file are settings; --set overrides them."""
    config = tmp_path / "headgate.toml"
    config.write_text('num.partitions = 5\n[log]\ncleanup.policy = ["compact", "delete"]\nwrong.name = 1\n')
    finished = headgate("serve", "--data-dir", str(tmp_path / "data"), "--config", str(config))
    assert finished.returncode == 2
    assert "there is no setting called log.wrong.name" in finished.stderr


def test_settings_whose_names_begin_like_others_stand_together_in_a_file(tmp_path: Path) -> None:
    """TOML takes `max.connections.per.ip` for a part of `max.connections`. The limits need both."""
    config = tmp_path / "headgate.toml"
    config.write_text("max.connections = 100\nmax.connections.per.ip = 0\n")
    serve = ("serve", "--data-dir", str(tmp_path / "data"), "--config", str(config))
    assert "max.connections.per.ip: 0" in headgate(*serve).stderr.replace("=", ": ")
    config.write_text("max.connections = 100\nmax.connections = 50\n")
    assert "a name is given twice" in headgate(*serve).stderr


def test_all_problems_of_the_settings_are_told_at_once(tmp_path: Path) -> None:
    """Each has a line, with the file that it is in: one look corrects them. Nothing is begun."""
    config = tmp_path / "headgate.toml"
    config.write_text('num.partition = 5\n[log]\ncleanup.policy = "delet"\nsegment.bytes = 1048576\n')
    data_dir = tmp_path / "data"
    finished = headgate(
        *("serve", "--data-dir", str(data_dir), "--config", str(config)),
        *("--set", "max.connections=x", "--set", "num.partitions"),
    )
    assert finished.returncode == 2
    in_file = f"headgate: --config {config}: "
    assert finished.stderr.splitlines() == [
        f"{in_file}there is no setting called num.partition; did you mean num.partitions?",
        f"{in_file}log.cleanup.policy=delet: one of delete, compact is expected",
        "headgate: --set num.partitions: name=value is expected",
        "headgate: max.connections=x: a whole number is expected",
    ]
    assert not data_dir.exists()


def test_settings_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """As by Kafka. Seconds for ms would remove each member between two heartbeats."""
    data_dir = tmp_path / "data"
    given = (
        "group.consumer.session.timeout.ms=45",
        "group.share.min.heartbeat.interval.ms=20000",
        "group.share.delivery.count.limit=9",
        "group.share.max.delivery.count.limit=8",
    )
    options = [part for one in given for part in ("--set", one)]
    finished = headgate("serve", "--data-dir", str(data_dir), *options)
    assert finished.returncode == 2
    assert finished.stderr.splitlines() == [
        "headgate: group.consumer.session.timeout.ms=45 is less than "
        "group.consumer.min.session.timeout.ms=45000: set that, too",
        "headgate: group.share.min.heartbeat.interval.ms=20000 is more than "
        "group.share.max.heartbeat.interval.ms=15000",
        "headgate: group.share.delivery.count.limit=9 is more than "
        "group.share.max.delivery.count.limit=8: set that, too",
        "headgate: group.consumer.session.timeout.ms=45 is not more than "
        "group.consumer.heartbeat.interval.ms=5000: members would be removed between two heartbeats",
    ]
    assert not data_dir.exists()


def test_a_directory_of_kafka_is_called_that(tmp_path: Path) -> None:
    """Who moves from Kafka may start the server on it; the message names the import."""
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(b"")
    finished = headgate("serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert "this is a directory of Apache Kafka. Nothing was changed. `headgate import" in finished.stderr
    checked = headgate("log", "verify", str(tmp_path))
    assert "this is a directory of Apache Kafka" in checked.stdout


def test_a_second_server_on_one_directory_is_refused(tmp_path: Path) -> None:
    """Two processes never write the same logs: the second reports that the directory is in use, and exits."""
    with run(data_dir=tmp_path / "data"):
        finished = headgate("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert "in use by another" in finished.stderr


@pytest.mark.parametrize("option", ["--listen", "--metrics-listen"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, option: str) -> None:
    """The message names the option and the address, and the directory is not begun."""
    data_dir = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        addresses = {"--listen": "127.0.0.1:0", option: address}
        words = [word for each in addresses.items() for word in each]
        finished = headgate("serve", "--data-dir", str(data_dir), *words)
    assert finished.returncode == 1
    assert finished.stderr == (
        f"headgate: cannot start: {option} {address}: Address already in use by another program "
        "(`ss -ltnp` shows which): stop it, or use another port\n"
    )
    assert not data_dir.exists()


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    """The message says what is wrong with it (192.0.2.0/24 is for documents: no machine has it)."""
    finished = headgate("serve", "--listen", "192.0.2.1:0", "--data-dir", str(tmp_path / "data"))
    assert finished.returncode == 1
    assert finished.stderr.endswith("Cannot assign requested address: this machine has no such address\n")


@pytest.mark.parametrize(("number", "says"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max")])
def test_too_many_open_files_are_told_with_the_limit_to_raise(number: int, says: str) -> None:
    """That of the process, or that of the system."""
    told = _in_words(OSError(number, os.strerror(number)), Path("data"))
    assert told.startswith("Too many open files")
    assert says in told


def test_a_name_server_that_does_not_answer_is_no_wrong_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """At boot it may not be there yet: the exit code is 1, after which systemd starts the server again."""

    def no_answer(*given: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_answer)
    with pytest.raises(OSError, match="--listen kafka:9092: kafka: Temporary failure in name resolution"):
        _own_address("--listen", "kafka:9092")


def test_a_directory_of_another_user_is_told_with_both_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a container with a mounted directory: the message has what `chown` needs, for a file that cannot
    be made in the directory, and for one that cannot be opened. A path out of sight has no owner.
    """
    denied = OSError(errno.EACCES, "Permission denied", str(tmp_path / ".lock"))
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    whose = f"(the server runs as user {owner + 1}; {{}} belongs to user {owner})"
    assert _in_words(denied, tmp_path) == f"{tmp_path}/.lock: Permission denied {whose.format(tmp_path)}"
    lock = tmp_path / ".lock"
    lock.write_bytes(b"")
    assert _in_words(denied, tmp_path) == f"{lock}: Permission denied {whose.format(lock)}"
    hidden = OSError(errno.EACCES, "Permission denied", str(tmp_path / "a" / "b"))
    assert _in_words(hidden, tmp_path) == f"{tmp_path}/a/b: Permission denied"


def test_a_directory_that_its_owner_may_not_write_is_told_as_that(tmp_path: Path) -> None:
    """The owners are right then; the mode is not."""
    kept = tmp_path / "clean-shutdown"
    kept.write_bytes(b"")
    denied = OSError(errno.EACCES, "Permission denied", str(kept))
    assert _in_words(denied, tmp_path) == (
        f"{kept}: Permission denied (the server runs as user {os.geteuid()}, to whom {kept} belongs: "
        f"look at its mode, and at that of {tmp_path})"
    )


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A data directory below a plain file cannot be created; the message has its path and the reason."""
    data_dir = tmp_path / "file" / "data"
    data_dir.parent.write_text("")
    finished = headgate("serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert finished.stderr == f"headgate: cannot start: {data_dir}: Not a directory\n"


def test_a_file_in_the_place_of_the_directory_is_called_a_file(tmp_path: Path) -> None:
    """The message is not "File exists", which would suggest to remove it."""
    (tmp_path / "file").write_text("")
    finished = headgate("serve", "--data-dir", str(tmp_path / "file"), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert f"{tmp_path / 'file'} is a file; a directory is expected with --data-dir" in finished.stderr


def test_a_link_whose_disk_is_not_mounted_is_told_as_that(tmp_path: Path) -> None:
    """The directory is where the link leads to, and nothing is made there."""
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "data")
    finished = headgate("serve", "--data-dir", str(tmp_path / "link"), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert (
        f"link is a link to {tmp_path / 'disk' / 'data'}, which does not exist: is its disk"
        in finished.stderr
    )


def test_settings_that_are_no_text_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    """This includes a file that is not TOML."""
    (tmp_path / "settings").write_bytes(b"\xff\xfe")
    finished = headgate("serve", "--data-dir", str(tmp_path / "data"), "--config", str(tmp_path / "settings"))
    assert finished.returncode == 2
    assert f"headgate: --config {tmp_path / 'settings'}: not TOML" in finished.stderr


def test_a_lost_identity_is_not_made_up(tmp_path: Path) -> None:
    """A meta.properties without a cluster id is not changed, and the message says what to do."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    finished = headgate("serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert finished.returncode == 1
    assert "meta.properties has no line that begins with cluster.id=" in finished.stderr
    assert (tmp_path / "meta.properties").read_text() == "version=1\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end the process with exit code 0; the next start needs no recovery.

    SIGHUP is ignored, as no terminal started the server. The log tells what ran and how it ended.
    """
    broker = Broker(tmp_path / "data", {}, 0, 30, "info")
    broker.start()
    process = broker._process
    assert process is not None
    process.send_signal(signal.SIGHUP)
    process.send_signal(number)
    assert process.wait(timeout=30) == 0
    broker.stop()
    broker.start()
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        admin.alter_offsets("one", {TopicPartition("t", 0): 0})
        admin.alter_share_offsets("two", {TopicPartition("t", 0): 0})
    broker.kill()
    broker.start()
    broker.stop()
    log = broker.log_path.read_text()
    assert "truncated" not in log
    starts = re.findall(r" starting version=\S+ compiled=\S+ python=\S+ pid=\d+ data_dir=(\S+)", log)
    assert starts == [str(tmp_path / "data")] * 3
    readies = re.findall(
        r" ready address=\S+ cluster_id=\S+ last_stop=(\w+) loaded_seconds=\S+ topics=\d+ groups=(\d+) ", log
    )
    assert readies == [
        ("none", "0"),
        ("clean", "0"),
        ("crash", "2"),
    ]  # a share group has no offsets of this kind
    assert "SIGHUP is ignored" in log
    assert " topic created topic=__consumer_offsets" not in log  # the internal ones are no news


def test_a_start_tells_which_of_its_settings_are_overridden(tmp_path: Path) -> None:
    """A file may be edited again and again in vain: a stored value of a client is in force."""
    given = {"log.retention.ms": "5000", "message.max.bytes": "2000"}
    broker = Broker(tmp_path / "data", given, 0, 30, "info")
    broker.start()
    with Admin(broker.bootstrap_servers) as admin:
        for name, changes in (
            ("", {"log.retention.ms": "7000", "max.connections": "90"}),
            ("1", {"log.retention.ms": "8000", "message.max.bytes": "2000"}),
        ):
            resource = ConfigResource(ResourceType.BROKER, name)
            admin.alter_configs(resource, [ConfigChange(*change) for change in changes.items()])
    broker.stop()
    assert "a stored setting" not in broker.log_path.read_text()
    broker.start()
    broker.stop()
    lines = re.findall(r" (INFO |WARN ) a stored setting is in force (.*)", broker.log_path.read_text())
    assert sorted(lines) == [
        ("INFO ", "setting=max.connections value=90"),
        ("INFO ", "setting=message.max.bytes value=2000"),
        ("WARN ", "setting=log.retention.ms value=8000 given_at_start=5000"),
    ]


def test_a_signal_ends_a_server_that_still_reads_its_logs(tmp_path: Path) -> None:
    """The server stops before it has read its logs, and the next start finds all data."""
    broker = Broker(tmp_path / "data", {}, 0, 30, "info")
    broker.start()
    broker.stop()
    program = (
        "import asyncio, sys\n"
        "from headgate.cli import main\n"
        "from headgate.server.coordinator import Coordinator\n"
        "async def load(coordinator):\n"
        "    print('loading', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "Coordinator.load = load\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            "serve",
            "--data-dir",
            str(broker.data_dir),
            "--listen",
            "127.0.0.1:0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    broker.start()
    broker.stop()
    assert "unclean" not in broker.log_path.read_text()


def test_metrics_are_served_to_prometheus(tmp_path: Path) -> None:
    """--metrics-listen serves the counters in Prometheus' text format."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            sys.executable, "-m", "headgate", "serve",
            "--data-dir", str(tmp_path / "data"),
            "--listen", "127.0.0.1:0",
            "--metrics-listen", f"127.0.0.1:{port}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("headgate is listening on 127.0.0.1:")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            text = response.read().decode()
    finally:
        process.terminate()
        process.communicate(timeout=30)
    for name in (
        "headgate_connections",
        "headgate_offsets",
        "headgate_log_bytes",
        "headgate_sync_seconds_count",
        "headgate_loop_longest_stall_seconds",
    ):
        assert f"\n{name} " in text
    assert 'headgate_unexpected_failures_total{where="shard"} 0.0' in text


def test_the_broker_of_a_test_says_why_it_did_not_start(tmp_path: Path) -> None:
    """headgate.run() raises an exception with the server's output."""
    with (
        pytest.raises(BrokerFailed, match=r"did you mean num\.partitions.* with exit code 2\)"),
        run({"num.partition": "1"}),
    ):
        pass


def test_a_number_of_partitions_that_comes_too_late_is_told(tmp_path: Path) -> None:
    """The topic exists, and offsets would be searched in another partition than they are in."""
    name = "offsets.topic.num.partitions"
    line = f"a setting has no effect: its topic exists setting={name}"
    with run({name: "2"}, data_dir=tmp_path / "data") as broker:
        assert line not in broker.log_path.read_text()
    with run({name: "5"}, data_dir=tmp_path / "data") as broker:
        log = broker.log_path.read_text()
    assert f"{line} value=5 topic=__consumer_offsets partitions=2" in log


def test_a_broker_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    """A test run that is killed leaves no server behind, and its data is intact."""
    program = (
        "import sys, time, headgate\n"
        "with headgate.run(data_dir=sys.argv[1]) as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    data_dir = tmp_path / "data"
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert int(parent.stdout.readline())
    parent.kill()
    parent.communicate(timeout=30)
    log = tmp_path / "data.log"
    wait_until(lambda: "stopped" in log.read_text().splitlines()[-1], "the broker is stopped")
    with run(data_dir=data_dir):
        assert "dropped in recovery" not in log.read_text()


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092"])
def test_an_address_that_is_no_place_is_not_advertised(tmp_path: Path, address: str) -> None:
    """As in Kafka: on the same machine all would work, and on every other one nothing."""
    finished = headgate("serve", "--data-dir", str(tmp_path / "data"), "--advertise", address)
    assert finished.returncode == 2
    assert f"--advertise {address}: clients cannot connect to " in finished.stderr
    assert not (tmp_path / "data").exists()


def test_the_version_is_reported() -> None:
    """`headgate --version` prints the version of the package."""
    build = "compiled" if is_compiled() else "not compiled"
    python = f"CPython {platform.python_version()}"
    assert headgate("--version").stdout == f"headgate {__version__} ({python}, {build})\n"


def test_a_wildcard_is_not_advertised_to_clients(tmp_path: Path) -> None:
    """A server on all interfaces advertises its host name, not 0.0.0.0."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", "serve", "--data-dir", str(tmp_path), "--listen", "0.0.0.0:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("headgate is listening on 0.0.0.0:")
    process.terminate()
    _, log = process.communicate(timeout=30)
    assert f" ready address={socket.gethostname()}:" in log


def test_settings_are_listed_for_people_and_for_programs() -> None:
    """`headgate settings` prints a table, or JSON with the same names."""
    assert "offsets.retention.minutes" in headgate("settings").stdout
    listed = json.loads(headgate("settings", "--topic", "--output", "json").stdout)
    assert {"name", "type", "default", "range", "choices", "broker_name", "doc"} == set(listed[0])
    assert "retention.ms" in {setting["name"] for setting in listed}


def test_settings_of_a_group_are_listed_with_their_range() -> None:
    """All of them: those of any group, of consumer groups and of share groups; in every format."""
    listed = json.loads(headgate("settings", "--group", "--output", "json").stdout)
    assert {one["name"] for one in listed} == set(GROUP_SETTINGS)
    by_name = {one["name"]: one for one in listed}
    retention = by_name["offsets.retention.ms"]
    assert (retention["type"], retention["default"]) == ("long", "604800000")
    assert (retention["range"], retention["broker_name"]) == (
        "from -1 but not 0",
        "offsets.retention.minutes",
    )
    assert by_name["share.isolation.level"]["choices"] == ["read_committed", "read_uncommitted"]
    table = headgate("settings", "--group").stdout
    assert "from -1 but not 0" in table
    assert "The default is the broker's offsets.retention.minutes." in table
    csv = headgate("settings", "--group", "--output", "csv").stdout.splitlines()
    assert csv[0] == "name,type,default,range,choices,broker_name,doc"
    refused = headgate("settings", "--group", "--topic")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "headgate: --topic and --group: one of them is expected\n"
