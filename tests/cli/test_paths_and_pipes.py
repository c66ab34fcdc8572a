"""Names of files that are not valid UTF-8, and output that goes to another program."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.admin import Admin, ConfigResource, ResourceType
from headgate.broker import run
from headgate.cli.printing import shell_word
from headgate.wire.messages.describe_log_dirs import DescribeLogDirsRequest

LONG = "a-topic-with-a-name-" + "x" * 180


def headgate(*words: str | bytes | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a process, with its output in a pipe of eighty columns."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", *words],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "80"},
        check=False,
    )


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a topic, whose name is not UTF-8 and has spaces."""
    path = Path(os.fsdecode(os.fsencode(tmp_path_factory.mktemp("home")) + b"/a \xff b/data"))
    with run({"offsets.topic.num.partitions": "1"}, data_dir=path) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(LONG, 1)
            admin.alter_offsets("g", {admin.partitions_of(LONG)[0]: 0})
            (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
            assert "a \\udcff b" in str(next(one.value for one in described if one.name == "log.dirs"))
            logs = admin.cluster.any_node().request(DescribeLogDirsRequest())
            assert [one.log_dir for one in logs.results] == [
                str(path).encode(errors="backslashreplace").decode()
            ]
        broker.kill()
        broker.start()
    return path


def test_a_server_runs_in_a_directory_that_is_not_utf_8(strange: Path) -> None:
    """It logs the name escaped, and its directory is whole."""
    verified = headgate("log", "verify", strange)
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.parametrize("more", [(), ("--topic", "__consumer_offsets", "--records")], ids=["topics", "log"])
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_directory_that_is_not_utf_8_is_printed(strange: Path, more: tuple[str, ...], output: str) -> None:
    """The byte is escaped."""
    dumped = headgate("log", "dump", strange, *more, "--output", output)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    assert re.search(r"a \\+udcff b", dumped.stdout)
    if output == "json":
        json.loads(dumped.stdout)


@pytest.mark.parametrize(
    "command",
    [("log", "dump"), ("log", "verify"), ("serve", "--listen", "127.0.0.1:0", "--data-dir")],
    ids=" ".join,
)
def test_an_error_names_such_a_directory(tmp_path: Path, command: tuple[str, ...]) -> None:
    """On one line, without a traceback."""
    missing = Path(os.fsdecode(os.fsencode(tmp_path / "file") + b"\xfe"))
    missing.touch()
    refused = headgate(*command, missing)
    assert refused.returncode in (1, 2)
    assert "file\\udcfe" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_tables_in_a_pipe_are_not_cut(strange: Path) -> None:
    """Neither names nor meanings: each is on one line as a whole."""
    assert LONG in headgate("log", "dump", strange).stdout
    listed = headgate("settings").stdout
    assert "…" not in listed
    csv_lines = headgate("settings", "--output", "csv").stdout.splitlines()
    assert csv_lines[0] == "name,type,default,range,choices,broker_name,doc"
    for line in csv_lines[1:]:
        assert re.search(rf"\b{re.escape(line.split(',')[0])}\b", listed)


@pytest.mark.parametrize(
    "name", ["plain", "with space", "it's", "a\udcffb", "tab\there", "back\\slash \udcff'"]
)
def test_a_printed_word_is_the_same_word_in_a_shell(name: str) -> None:
    """Commands that the program prints can be copied."""
    word = shell_word(name)
    printed = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert printed == os.fsencode(name)
    if name.isprintable():
        assert shlex.split(word) == [name]
