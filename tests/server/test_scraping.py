"""Metrics over HTTP while groups change."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from time import perf_counter, sleep

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.clients import Client, commit, run_scenario

from headgate.runtime.failures import Where
from headgate.runtime.gauges import gauge
from headgate.server import scraping
from headgate.server.metrics import Metrics
from headgate.server.scraping import collect_in_slices, metrics_server

HERE = ("127.0.0.1", 0)


async def scraped(port: int | None) -> dict[str, float]:
    text = await asyncio.to_thread(scraped_text, port)
    return {
        sample.name + str(sample.labels or ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped_text(port: int | None) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        content: bytes = answer.read()
        return content.decode()


def test_the_loop_collects_while_groups_come_and_go() -> None:
    """Every scrape succeeds, and the metrics are read only on the loop's thread."""

    async def scenario(client: Client) -> None:
        loop_thread = threading.get_ident()
        threads: set[int] = set()

        def read() -> Iterator[None]:
            threads.add(threading.get_ident())
            yield None

        client.listener.metrics.add_gauges(read)
        async with metrics_server(HERE, client.listener.metrics) as port:
            scraping_done = asyncio.gather(*(scraped(port) for _ in range(30)))
            count = 0
            while not scraping_done.done():
                count += 1
                await client.ask(commit(count, [0], group_id=f"g{count}"), 8, f"client {count}")
            for found in await scraping_done:
                assert found.get("headgate_groups{'state': 'Empty'}", 0) <= count
            last = await scraped(port)
        assert last["headgate_groups{'state': 'Empty'}"] == count == last["headgate_offsets"]
        assert threads == {loop_thread}

    run_scenario(scenario)


def test_a_scrape_of_much_lets_others_have_their_turn() -> None:
    """The loop runs between two slices."""

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
    """The next scrape shows the count of failures."""

    async def scenario(client: Client) -> None:
        failing = [True]

        def read() -> Iterator[None]:
            if failing.pop():
                raise ZeroDivisionError("planted")
            yield None

        client.listener.metrics.add_gauges(read)
        async with metrics_server(HERE, client.listener.metrics) as port:
            with pytest.raises(urllib.error.HTTPError, match="500"):
                await scraped(port)
            failing.append(False)
            found = await scraped(port)
        assert found[f"headgate_unexpected_failures_total{{'where': '{Where.METRICS.value}'}}"] == 1

    run_scenario(scenario)


def some_metrics() -> Metrics:
    metrics = Metrics({})
    metrics.add_gauges(lambda: [gauge("headgate_some", "Some.", [((), 4)])])
    return metrics


def test_clients_that_send_nothing_or_too_much_keep_nobody_from_scraping() -> None:
    """Their number and the size of their requests are bounded."""

    async def scenario() -> None:
        async with metrics_server(HERE, some_metrics()) as port:
            assert port is not None
            slow = []
            for _ in range(scraping.MOST_CONNECTIONS + 5):
                slow.append(socket.create_connection((HERE[0], port), timeout=10))
                slow[-1].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                await asyncio.sleep(0)
            assert (await scraped(port))["headgate_some"] == 4
            assert await is_ended(slow[0])
            slow[-1].sendall(b"x" * 20_000)
            assert await is_ended(slow[-1])
            for one in slow:
                one.close()

    asyncio.run(scenario())


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
        return content


async def is_ended(connection: socket.socket) -> bool:
    try:
        return await asyncio.to_thread(connection.recv, 1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n\r\n"], ids=["silent", "scraping"])
def test_a_scrape_that_takes_a_while_is_not_pushed_out_by_others(sent: bytes) -> None:
    """Neither silent connections nor more scrapes than the limit of connections close it."""

    async def scenario() -> None:
        is_begun, is_enough = asyncio.Event(), asyncio.Event()

        def long() -> Iterator[None]:
            is_begun.set()
            while not is_enough.is_set():
                yield None

        metrics = some_metrics()
        metrics.add_gauges(long)
        async with metrics_server(HERE, metrics) as port:
            scraping_done = asyncio.create_task(scraped(port))
            await is_begun.wait()
            with ExitStack() as others:
                for _ in range(scraping.MOST_CONNECTIONS + 5):
                    other = others.enter_context(socket.create_connection((HERE[0], port or 0), timeout=10))
                    other.sendall(sent)
                    await asyncio.sleep(0.002)
                if sent:
                    assert (await asyncio.to_thread(other.recv, 12)) == b"HTTP/1.1 503", (
                        "it may not wait, too"
                    )
                url = f"http://{HERE[0]}:{port}/healthz"
                assert (
                    await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read()) == b"ok\n"
                )
                is_enough.set()
                assert (await scraping_done)["headgate_some"] == 4

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_scrapes_that_come_together_are_collected_together() -> None:
    """The next collection waits, so that endless scrapes do not keep the loop busy."""

    async def scenario() -> None:
        collected: list[float] = []

        def read() -> Iterator[None]:
            collected.append(perf_counter())
            for _ in range(20):
                sleep(0.001)
                yield None

        metrics = some_metrics()
        metrics.add_gauges(read)
        async with metrics_server(HERE, metrics) as port:
            for _ in range(3):
                found = await asyncio.gather(*(scraped(port) for _ in range(12)))
                assert {one["headgate_some"] for one in found} == {4}
        assert 3 <= len(collected) <= 3 * 4, "who asks while one is made shares the next one"
        assert all(later - earlier >= 0.1 for earlier, later in pairwise(collected))

    asyncio.run(scenario())


@pytest.mark.parametrize("version", ["x", "1.0.0; escaping=x", ""])
def test_a_format_that_makes_no_sense_is_answered_in_another(version: str) -> None:
    """An invalid header of a client is not an unexpected failure."""

    async def scenario() -> None:
        async with metrics_server(HERE, some_metrics()) as port:
            answer = await ask(port, "GET", f"Accept: application/openmetrics-text; version={version}\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"\nheadgate_some 4.0\n" in answer

    asyncio.run(scenario())


def test_a_scrape_does_not_last_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not send the request or read the response in time is disconnected."""
    monkeypatch.setattr(scraping, "LONGEST_SECONDS", 0.05)

    async def scenario() -> None:
        async with metrics_server(HERE, some_metrics()) as port:
            assert port is not None
            with socket.create_connection((HERE[0], port), timeout=10) as slow:
                assert await is_ended(slow)

    asyncio.run(scenario())


def test_only_reading_is_answered() -> None:
    """HEAD gets no text, GET gets it, and other methods are rejected."""

    async def scenario() -> None:
        async with metrics_server(HERE, some_metrics()) as port:
            answers = {method: await ask(port, method) for method in ("GET", "HEAD", "POST")}
        assert b"200 OK" in answers["GET"]
        assert answers["GET"].endswith(b"headgate_some 4.0\n")
        assert answers["HEAD"].startswith(b"HTTP/1.1 200 OK")
        assert answers["HEAD"].endswith(b"\r\n\r\n")
        assert b"405" in answers["POST"]

    asyncio.run(scenario())


async def ask(port: int | None, method: str, headers: str = "") -> bytes:
    reader, writer = await asyncio.open_connection(HERE[0], port)
    writer.write(f"{method} /metrics HTTP/1.1\r\n{headers}\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer
