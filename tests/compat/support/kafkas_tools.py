"""Apache Kafka's own command-line tools, run against a broker under test."""

from __future__ import annotations

import subprocess

import pytest
from bench.kafka.broker import java_command, kafka_missing

TOOLS = "org.apache.kafka.tools."
CONSUMER_GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
TOOL_TIMEOUT_S = 60.0

needs_kafkas_tools = pytest.mark.skipif(kafka_missing() is not None, reason=kafka_missing() or "")


def run_java(main_class: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's to its end; what it printed, what it complained of, and how it ended."""
    return subprocess.run(
        java_command(main_class, *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )


def run_tool(bootstrap: str, main_class: str, *arguments: str, given: str = "") -> str:
    """What a tool prints that ends well with this broker."""
    done = run_java(main_class, "--bootstrap-server", bootstrap, *arguments, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
