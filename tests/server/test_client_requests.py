"""The metric that names the clients which cause the load."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from tests.server.clients import Client, commit, run_scenario

from headgate.server.client_requests import MOST_REMEMBERED, MOST_TOLD, ClientRequests


@dataclass
class Counting:
    """A connection that has counted requests."""

    client: tuple[str, str]
    count: int = 0

    def take_requests(self) -> int:
        taken, self.count = self.count, 0
        return taken


def told(metrics: list[Metric | None]) -> dict[tuple[str, str], float]:
    """Return the requests by client id and host."""
    (family,) = [each for each in metrics if each is not None and each.name == "headgate_client_requests"]
    return {(each.labels["client"], each.labels["host"]): each.value for each in family.samples}


def test_the_requests_of_a_client_are_counted_however_they_arrive() -> None:
    """One by one, many at once, and in parts; those of a closed connection remain."""

    async def scenario(client: Client) -> None:
        busy = Client(client.node, client.listener)
        for number in range(5):
            await busy.send(commit(number, [0]), 8, "report-job")
        one = busy.wire.sent
        assert not one
        collect = client.listener.metrics.steps
        assert told(list(collect())) == {("report-job", "10.0.0.1"): 5}
        frames = b"".join(_frame(number) for number in range(4))
        busy.connection.data_received(frames[:10])
        busy.connection.data_received(frames[10:])
        await busy.receive(4)
        busy.connection.connection_lost(None)
        assert told(list(collect())) == {("report-job", "10.0.0.1"): 9}
        assert told(list(collect())) == {}

    run_scenario(scenario)


def _frame(number: int) -> bytes:
    from headgate.wire.framing import request_frame

    return request_frame(commit(number, [0]), 8, number, "report-job")


def test_only_the_busiest_clients_have_a_series() -> None:
    """Those of now: a client that was busy for days and is not any more makes room."""
    requests = ClientRequests()
    connections = [Counting((f"client-{number}", "10.0.0.9"), number + 1) for number in range(100)]
    first = told(list(requests.gauges(connections)))
    assert len(first) == MOST_TOLD
    assert min(first.values()) == 81
    connections[3].count = 1
    assert told(list(requests.gauges(connections))) == {("client-3", "10.0.0.9"): 5}


def test_clients_that_come_and_go_take_no_memory() -> None:
    """Each with another name, and with a long one."""
    requests = ClientRequests()
    for number in range(10 * MOST_REMEMBERED):
        requests.take(Counting((f"{number}-{'x' * 500}", "10.0.0.9"), 2 if number == 7 else 1))
        if number % 1000 == 0:
            list(requests.gauges([]))
    assert len(requests._recent) <= 2 * MOST_REMEMBERED
    assert len(requests._totals) <= 2 * MOST_REMEMBERED
    assert requests._totals.most_common(1)[0][1] == 2
    assert max(len(client_id) for client_id, _ in requests._totals) == 100
