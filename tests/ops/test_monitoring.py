"""The alert rules and the dashboard in `ops/`: they are well-formed, and every metric in them exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.server.clients import Client, commit, run_scenario

from headgate.server.process_gauges import Build, process_gauges

OPS = Path(__file__).parents[2] / "ops"
RULES, DASHBOARD = OPS / "alerts.yml", OPS / "grafana-dashboard.json"
MANUAL = OPS.parent / "docs" / "manual.md"
_NAME = re.compile(r"\b(?:headgate|process)_[a-z_]+\b")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@pytest.fixture(scope="module")
def families() -> dict[str, str]:
    """The names of the metrics of a running node, with their types."""
    found: dict[str, str] = {}

    async def scenario(client: Client) -> None:
        await client.ask(commit(1, [0]), 8)
        client.listener.metrics.add_gauges(process_gauges(Build("1.2.3", is_compiled=False), OPS))
        found.update({family.name: family.type for family in client.listener.metrics.collect()})

    run_scenario(scenario)
    return found


@pytest.mark.parametrize("path", [RULES, DASHBOARD], ids=lambda path: path.name)
def test_every_metric_exists(path: Path, families: dict[str, str]) -> None:
    """With the suffix of its type, as a scrape has it."""
    samples = {name + suffix for name, kind in families.items() for suffix in _SUFFIXES[kind]}
    expressions = re.findall(r'expr"?: (.*(?:\n\s{10,}\S.*)*)', path.read_text())
    assert len(expressions) >= 10
    used = {name for expression in expressions for name in _NAME.findall(expression)}
    assert used
    assert not used - samples


def test_the_manual_describes_every_metric(families: dict[str, str]) -> None:
    """And no other."""
    cells = re.findall(r"^\| (`headgate_[^|]*)\|", MANUAL.read_text(), re.MULTILINE)
    described = {name for cell in cells for name in re.findall(r"`(headgate_[a-z_]+)`", cell)}
    ours = {
        name + ("_total" if kind == "counter" else "")
        for name, kind in families.items()
        if name.startswith("headgate_")
    }
    assert described == ours


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    """Panels with different ids that do not overlap, each with an expression."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert dashboard["title"] == "Headgate"
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["targets"] and panel["targets"][0]["expr"] for panel in panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_accepts_the_rules() -> None:
    """Its own program checks them."""
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_every_alert_has_advice() -> None:
    """The table in docs/operating.md names the alerts, and no other."""
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    advice = (OPS.parent / "docs" / "operating.md").read_text()
    assert alerts == set(re.findall(r"`(Headgate[A-Z]\w+)`", advice))
