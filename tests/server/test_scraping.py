"""Metrics over HTTP while everything changes."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from tests.server.clients import Client, commit, run_scenario

from headgate.server import scraping
from headgate.server.failures import Where
from headgate.server.metrics import Metrics, gauge
from headgate.server.scraping import LoopCollector, collect_in_slices


def scraped(collector: LoopCollector) -> dict[str, float]:
    return {
        sample.name + str(sample.labels or ""): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_the_loop_collects_for_other_threads_while_groups_come_and_go() -> None:
    """Every scrape succeeds, and what it reads is read on the loop's thread alone."""

    async def scenario(client: Client) -> None:
        loop_thread = threading.get_ident()
        threads: set[int] = set()

        def read() -> Iterator[None]:
            threads.add(threading.get_ident())
            yield None

        client.listener.metrics.add_gauges(read)
        collector = LoopCollector(client.listener.metrics, asyncio.get_running_loop())
        scraping_done = asyncio.gather(*(asyncio.to_thread(scraped, collector) for _ in range(30)))
        count = 0
        while not scraping_done.done():
            count += 1
            await client.ask(commit(count, [0], group_id=f"g{count}"), 8, f"client {count}")
        for found in await scraping_done:
            assert found["headgate_groups{'state': 'Empty'}"] <= count
        last = await asyncio.to_thread(scraped, collector)
        assert last["headgate_groups{'state': 'Empty'}"] == count == last["headgate_offsets"]
        assert threads == {loop_thread}

    run_scenario(scenario)


def test_a_scrape_of_much_lets_others_have_their_turn() -> None:
    """Between two slices the loop goes round."""

    def long() -> Iterator[None]:
        for _ in range(200_000):
            yield None

    async def scenario() -> None:
        metrics = Metrics({})
        metrics.add_gauges(long)
        task = asyncio.create_task(collect_in_slices(metrics))
        rounds = 0
        while not task.done():
            await asyncio.sleep(0)
            rounds += 1
        assert rounds > 5

    asyncio.run(scenario())


@pytest.mark.plants_failures("metrics")
def test_metrics_that_fail_are_counted_and_fail_the_scrape_alone() -> None:
    """The next scrape finds how many there were."""

    async def scenario(client: Client) -> None:
        failing = [True]

        def read() -> Iterator[None]:
            if failing.pop():
                raise ZeroDivisionError("planted")
            yield None

        client.listener.metrics.add_gauges(read)
        collector = LoopCollector(client.listener.metrics, asyncio.get_running_loop())
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(scraped, collector)
        failing.append(False)
        found = await asyncio.to_thread(scraped, collector)
        assert found[f"headgate_unexpected_failures_total{{'where': '{Where.METRICS.value}'}}"] == 1

    run_scenario(scenario)


def test_a_scrape_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that does not come round is an error of the scrape."""
    monkeypatch.setattr(scraping, "ANSWER_WITHIN_SECONDS", 0.05)

    async def scenario() -> None:
        gate = threading.Event()
        collector = LoopCollector(Metrics({}), asyncio.get_running_loop())
        problems: list[Exception] = []

        def scrape() -> None:
            try:
                list(collector.collect())
            except Exception as problem:
                problems.append(problem)
            gate.set()

        thread = threading.Thread(target=scrape)
        thread.start()
        assert gate.wait(10)
        thread.join()
        assert isinstance(problems[0], scraping.MetricsNotCollected)

    asyncio.run(scenario())


def test_a_slow_http_client_holds_nothing() -> None:
    """The text is written in the thread of the HTTP server, over what the loop has found."""

    async def scenario() -> None:
        metrics = Metrics({})
        metrics.add_gauges(lambda: [gauge("headgate_some", "Some.", [((), 4)])])
        with scraping.metrics_server(("127.0.0.1", 0), metrics) as port:
            url = f"http://127.0.0.1:{port}/metrics"
            text = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read().decode())
        assert "headgate_some 4.0" in text

    asyncio.run(scenario())
