"""The Spark session that a command starts if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from headgate.cli.spark import session

started = session("local[2]", "a command")
print("partitions:", started.conf.get("spark.sql.shuffle.partitions"))
"""


@pytest.mark.parametrize(("configured", "expected"), [("", "8"), ("spark.sql.shuffle.partitions 13\n", "13")])
def test_it_shuffles_into_few_partitions_unless_spark_is_configured(
    tmp_path: Path, configured: str, expected: str
) -> None:
    """On one machine most of Spark's 200 tasks would be empty. What `spark-defaults.conf` says is kept."""
    (tmp_path / "spark-defaults.conf").write_text(configured)
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert f"partitions: {expected}\n" in finished.stdout, finished.stderr


def test_without_java_a_command_says_so_in_one_line() -> None:
    """The stack of PySpark does not tell what to do. Spark's own script has a line before ours."""
    command = [sys.executable, "-m", "headgate", "fleet", "audit", "nowhere", "--master", "local[1]"]
    environment = os.environ | {"JAVA_HOME": "/nonexistent"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    ours = [line for line in finished.stderr.splitlines() if line.startswith("headgate")]
    assert (finished.returncode, len(ours)) == (1, 1), finished.stderr
    assert "Spark does not start with --master local[1]: [JAVA_GATEWAY_EXITED]" in ours[0]
    assert "Java 17 or newer" in ours[0] and "Traceback" not in finished.stderr


def test_with_a_server_of_spark_connect_in_the_environment_a_command_says_what_to_do() -> None:
    """PySpark refuses a master then, with a stack."""
    command = [sys.executable, "-m", "headgate", "spark", "report", "nowhere", "report.html"]
    environment = os.environ | {"SPARK_REMOTE": "sc://127.0.0.1:15002"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 1
    assert "headgate: SPARK_REMOTE names a server of Spark Connect" in finished.stderr
    assert "Traceback" not in finished.stderr


WITHOUT_PYSPARK = """
import sys

sys.modules["pyspark"] = None
from typer.testing import CliRunner
from headgate.cli import app

for words in (
    "spark land x y", "spark offsets x", "spark share-states x", "spark report x y", "fleet audit x",
    "fleet reset --bootstrap-server 127.0.0.1:1 --plan x --execute",
):
    done = CliRunner().invoke(app, words.split())
    print(done.exit_code, "pip install 'headgate[spark]'" in done.stderr, done.stderr.count("\\n"))
"""


def test_without_pyspark_every_command_names_the_extra() -> None:
    """An installation for a server alone has none."""
    finished = subprocess.run([sys.executable, "-c", WITHOUT_PYSPARK], capture_output=True, text=True)
    assert finished.stdout.splitlines() == ["1 True 1"] * 6, finished.stdout + finished.stderr
