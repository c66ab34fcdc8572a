"""The lag of groups in the metrics of a node, its bounds, and the health pages."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping

from tests.server.clients import Client, commit, run_scenario

from headgate.server.lag_gauges import LagGauges
from headgate.server.metrics import Metrics
from headgate.server.scraping import metrics_server
from headgate.topics.partition import Partition

HERE = ("127.0.0.1", 0)


def samples(client: Client) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of the lag metrics by name and labels."""
    node = client.node
    opened: list[Partition] = []
    gauges = LagGauges(node.topics, node.settings, opened.extend)
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in gauges.gauges(node.coordinator.shards(), node.steady_time())
        if family is not None
    }


def test_a_group_has_its_lag_by_topic_and_partition() -> None:
    """A partition that was never written is at its end; a topic that is gone is unknown, not 0."""

    async def scenario(client: Client) -> None:
        await client.ask(commit(0, [0, 1], group_id="reads"), 8)
        found = samples(client)
        assert found["headgate_group_lag_records"] == {("reads",): 0}
        assert found["headgate_group_partition_lag_records"] == {
            ("reads", "t", "0"): 0,
            ("reads", "t", "1"): 0,
        }
        assert found["headgate_group_topic_lag_records"] == {("reads", "t"): 0}
        assert found["headgate_group_lag_unknown_partitions"] == {}

    run_scenario(scenario)


def test_groups_above_the_bound_have_no_series() -> None:
    """They are counted. A group whose partitions do not fit has a total only."""

    async def scenario(client: Client) -> None:
        for name in ("a", "b", "c"):
            await client.ask(commit(0, [0, 1, 2], group_id=name), 8)
        client.node.settings.change({"headgate.metrics.groups": "2", "headgate.metrics.partitions": "4"}, {})
        found = samples(client)
        assert len(found["headgate_group_lag_records"]) == 2
        assert found["headgate_lag_groups_left_out"] == {(): 1}
        assert len(found["headgate_group_partition_lag_records"]) == 3
        client.node.settings.change({"headgate.metrics.groups": "0"}, {})
        assert samples(client) == {}

    run_scenario(scenario)


async def page(port: int | None, path: str) -> tuple[int, str]:
    """The status and the text of a page."""

    def get() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    return await asyncio.to_thread(get)


def test_health_and_readiness_have_pages() -> None:
    """Healthy while the loop serves; ready without a reason against it; other pages are not found."""

    async def scenario() -> None:
        reasons = ["3 of 50 partitions of __consumer_offsets are not loaded"]
        async with metrics_server(HERE, Metrics({}), lambda: reasons) as port:
            assert await page(port, "/healthz") == (200, "ok\n")
            assert await page(port, "/readyz") == (503, reasons[0] + "\n")
            reasons.clear()
            assert await page(port, "/readyz?verbose") == (200, "ready\n")
            assert (await page(port, "/favicon.ico"))[0] == 404
            assert (await page(port, "/metrics"))[0] == 200

    asyncio.run(scenario())


def test_a_node_that_serves_is_ready() -> None:
    """Until it has started it is not."""

    async def scenario(client: Client) -> None:
        assert list(client.node.not_ready()) == []

    run_scenario(scenario)


def test_requests_that_wait_on_purpose_are_apart() -> None:
    """So that the time of the others is that of the server."""
    metrics = Metrics({1: "Fetch", 11: "JoinGroup"})
    metrics.observe_request(1, 0.002)
    metrics.observe_waited(1, 0.5)
    metrics.observe_request(11, 3.0)
    found: Mapping[tuple[str, str], float] = {
        (sample.labels["api"], sample.labels["waited"]): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == "headgate_request_seconds_sum"
    }
    assert found == {("Fetch", "false"): 0.002, ("Fetch", "true"): 0.5, ("JoinGroup", "true"): 3.0}
