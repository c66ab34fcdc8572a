"""Kafka's own tools for share groups: the console share consumer and kafka-share-groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.compat.support.driver import Driver
from tests.compat.support.kafkas_tools import TOOLS, needs_kafkas_tools, run_tool

pytestmark = needs_kafkas_tools

Tool = Callable[..., str]
SHARE_GROUPS = TOOLS + "consumer.group.ShareGroupCommand"
RECORDS = [f"record {number}" for number in range(20)]


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """Runs one of Kafka's tools against the broker and returns what it printed."""
    return partial(run_tool, bootstrap)


@pytest.fixture
def consumed(tool: Tool, admin: Driver, name: str) -> str:
    """A topic, of which a group of the same name has acknowledged all records."""
    admin.create_topic(name, 1)
    settings = ("--alter", "--entity-type", "groups", "--entity-name", name)
    tool("kafka.admin.ConfigCommand", *settings, "--add-config", "share.auto.offset.reset=earliest")
    tool(TOOLS + "ConsoleProducer", "--topic", name, given="\n".join(RECORDS) + "\n")
    assert consume(tool, name) == RECORDS
    return name


def consume(tool: Tool, name: str) -> list[str]:
    """Read as many records as there are with the console share consumer, which acknowledges them."""
    limits = ("--max-messages", str(len(RECORDS)), "--timeout-ms", "40000")
    printed = tool(TOOLS + "consumer.ConsoleShareConsumer", "--topic", name, "--group", name, *limits)
    return [line for line in printed.splitlines() if line.startswith("record")]


def table(printed: str) -> list[list[str]]:
    """The lines of a table, without its heading."""
    return [line.split() for line in printed.splitlines() if line.strip()][1:]


def test_records_are_consumed_and_described(tool: Tool, consumed: str) -> None:
    """All are acknowledged, so nothing lags; members and state are those of an empty group."""
    described = table(tool(SHARE_GROUPS, "--describe", "--group", consumed))
    assert [line[:3] + line[-1:] for line in described] == [[consumed, consumed, "0", "0"]]
    assert [consumed, "Empty"] in table(tool(SHARE_GROUPS, "--list", "--state"))
    (state,) = table(tool(SHARE_GROUPS, "--describe", "--group", consumed, "--state"))[:1]
    assert (state[0], state[-2:]) == (consumed, ["Empty", "0"])


def test_records_are_delivered_again_after_a_reset(tool: Tool, consumed: str) -> None:
    """From the start of the log; the plan of a dry run changes nothing."""
    where = ("--reset-offsets", "--group", consumed, "--topic", consumed, "--to-earliest")
    assert table(tool(SHARE_GROUPS, *where, "--dry-run")) == [[consumed, consumed, "0", "0"]]
    assert table(tool(SHARE_GROUPS, "--describe", "--group", consumed))[0][-1] == "0"
    tool(SHARE_GROUPS, *where, "--execute")
    assert table(tool(SHARE_GROUPS, "--describe", "--group", consumed))[0][-2:] == ["0", str(len(RECORDS))]
    assert consume(tool, consumed) == RECORDS


def test_offsets_and_groups_are_deleted(tool: Tool, consumed: str) -> None:
    """A group without offsets says so; a deleted one is not listed."""
    tool(SHARE_GROUPS, "--delete-offsets", "--group", consumed, "--topic", consumed)
    assert "no offset information" in tool(SHARE_GROUPS, "--describe", "--group", consumed)
    tool(SHARE_GROUPS, "--delete", "--group", consumed)
    assert consumed not in tool(SHARE_GROUPS, "--list").split()
