"""The README's first steps, word for word, but for the port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.broker import Broker, run

HERE = Path(__file__).parent
README = (HERE.parent.parent / "README.md").read_text()
PORT_AS_WRITTEN = "127.0.0.1:9092"
INTERPRETERS = {"python": [sys.executable, "-c"], "js": ["node", "-e"], "": ["bash", "-c"]}


def steps(client: str) -> tuple[str, str]:
    """The language and the text of the code below a client's name."""
    found = re.search(rf"\*\*{re.escape(client)}\*\*[^\n]*\n\n```(\w*)\n(.*?)```", README, re.DOTALL)
    assert found is not None, f"the README has no steps for {client}"
    return found[1], found[2]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with nothing set, as the README starts it."""
    with run({"group.initial.rebalance.delay.ms": "3000"}) as running:
        yield running


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka", "kafkajs", "kcat"])
def test_the_first_steps_print_what_was_sent(broker: Broker, client: str) -> None:
    """Copied from the README, each client's program produces a greeting and prints it."""
    language, code = steps(client)
    assert PORT_AS_WRITTEN in code
    finished = subprocess.run(
        [*INTERPRETERS[language], code.replace(PORT_AS_WRITTEN, broker.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NODE_PATH": str(HERE / "node" / "node_modules")},
    )
    assert "hello" in finished.stdout.splitlines(), finished.stdout + finished.stderr
    assert finished.returncode == 0, finished.stderr


def test_the_fixture_of_the_readme_works(tmp_path: Path) -> None:
    """The test shown in the README passes in a project of its own."""
    found = re.search(r"\*\*In a test\*\*.*?```python\n(.*?)```", README, re.DOTALL)
    assert found is not None
    (tmp_path / "test_orders.py").write_text(found[1])
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stdout
