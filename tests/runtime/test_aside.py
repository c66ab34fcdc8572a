"""The thread beside the loop: it runs work in order and reports on the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.aside import AsideThread


@given(st.lists(st.booleans(), max_size=20))
def test_work_is_done_aside_in_its_order_and_reported_on_the_loop(fails: list[bool]) -> None:
    """This holds for work that succeeds and work that fails; a failure is reported as its exception."""
    worked: list[tuple[int, int]] = []
    told: list[tuple[int, int, str | None]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        aside = AsideThread(loop, "test")

        def hand_over(number: int, is_to_fail: bool) -> None:
            def work() -> None:
                worked.append((number, threading.get_ident()))
                if is_to_fail:
                    raise ValueError(str(number))

            def on_done(failure: BaseException | None) -> None:
                told.append((number, threading.get_ident(), str(failure) if failure else None))
                if len(told) == len(fails):
                    done.set()

            aside(work, on_done)

        for number, is_to_fail in enumerate(fails):
            hand_over(number, is_to_fail)
        if fails:
            await asyncio.wait_for(done.wait(), 30)
        aside.close()

    asyncio.run(scenario())
    assert [number for number, _ in worked] == list(range(len(fails)))
    assert told == [
        (number, threading.get_ident(), str(number) if is_to_fail else None)
        for number, is_to_fail in enumerate(fails)
    ]
    assert threading.get_ident() not in {thread for _, thread in worked}


@pytest.mark.parametrize("is_begun", [True, False])
def test_no_callback_is_called_once_it_is_closed(is_begun: bool) -> None:
    """This holds for running and for waiting work."""
    told: list[str] = []

    async def scenario() -> None:
        aside = AsideThread(asyncio.get_running_loop(), "test")
        begun, go_on = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            go_on.wait(30)

        if is_begun:
            aside(work, lambda failure: told.append("first"))
            begun.wait(30)
            aside(lambda: None, lambda failure: told.append("second"))
            go_on.set()
        aside.close()
        aside(lambda: told.append("ran"), lambda failure: told.append("third"))
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert told == []
