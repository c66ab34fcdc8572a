"""The Spark block of the README runs as written, but for the port."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headgate.admin import Admin
from headgate.broker import run

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.timeout(180)
def test_the_spark_block_of_the_readme_fills_tables_and_a_lake(tmp_path: Path) -> None:
    """The program ends by itself, shows the record that the stream wrote, and the group has committed it."""
    (code,) = re.findall(r"\*\*In Spark\*\*[^`]*`[^`]*`[^`]*```python\n(.*?)```", README, re.DOTALL)
    with run() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("greetings", value=b"hello")
        assert producer.flush(20) == 0
        finished = subprocess.run(
            [sys.executable, "-c", code.replace("127.0.0.1:9092", broker.bootstrap_servers)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        assert "|greetings|" in finished.stdout
        assert (tmp_path / "tables/_headgate/progress.json").exists()
        with Admin(broker.bootstrap_servers) as admin:
            assert [each.offset for each in admin.committed_offsets("lake").values()] == [1]
