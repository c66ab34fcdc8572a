"""The two faces of the Admin API have the same methods, and the documents have all of them."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tools.generate_async_admin import OUTPUT, generated, methods

import headgate.admin
from headgate.admin import Admin, AsyncAdmin, ClientError, PartlyRefused, TopicPartition, errors
from headgate.admin.arguments import past_millis
from headgate.domain.ids import TopicId, TopicName, topic_id_of, topic_id_text
from headgate.domain.times import millis

DOCS = Path(__file__).parents[2] / "docs"


def test_the_asynchronous_face_is_generated() -> None:
    """From the methods of `Admin` as they are now."""
    assert OUTPUT.read_text() == generated(), "run python tools/generate_async_admin.py"


def test_the_table_of_the_documents_has_every_method() -> None:
    """With the name of Kafka's Admin, or what it is for."""
    table = (DOCS / "admin.md").read_text().partition("## Methods")[2]
    named = set(re.findall(r"`(\w+)`", table))
    helpers = {"positions_of", "partitions_of"}
    assert {name for name, _ in methods()} - named - helpers == set()


def test_every_error_can_be_imported() -> None:
    """Those of the table of errors are in `headgate.admin`, and all subclasses there are in the table."""
    table = (DOCS / "admin.md").read_text().partition("## Errors")[2].partition("## Methods")[0]
    named = {name for name in re.findall(r"`(\w+)`", table.partition("```python")[0]) if name[0].isupper()}
    exported = {
        name
        for name in headgate.admin.__all__
        if inspect.isclass(found := getattr(headgate.admin, name)) and issubclass(found, ClientError)
    }
    assert exported <= named
    assert named <= set(headgate.admin.__all__)


def test_every_error_of_the_admin_api_can_be_imported() -> None:
    """A message or a trace names it, and it is one of those that the table has."""
    for name, found in vars(errors).items():
        if inspect.isclass(found) and issubclass(found, ClientError):
            assert name in headgate.admin.__all__


def test_every_type_of_an_argument_or_result_can_be_imported() -> None:
    """A typed program names them in its own signatures."""
    words: set[str] = set()
    for _, method in methods():
        signature = inspect.signature(method)
        annotations = [one.annotation for one in signature.parameters.values()] + [
            signature.return_annotation
        ]
        words |= {word for text in annotations for word in re.findall(r"[A-Z]\w+", str(text))}
    of_python = {"Iterable", "Iterator", "Mapping", "Sequence", "None", "Self"}
    assert words - of_python <= set(headgate.admin.__all__)


def test_no_type_of_the_api_has_bytes() -> None:
    """Ids are texts, as Kafka's tools print them: bytes are equal to none of these, and JSON has no bytes."""
    for name in headgate.admin.__all__:
        for field, hint in getattr(getattr(headgate.admin, name), "__annotations__", {}).items():
            assert not {"bytes", "TopicId"} & set(re.findall(r"\w+", str(hint))), f"{name}.{field}"


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 21 + "B", "A" * 23, "A" * 22 + "==", "Ä" * 22, "+" * 22]
)
def test_what_is_no_topic_id_is_named(text: str) -> None:
    """A plan that a program made or changed can have it; one id has one text."""
    assert topic_id_of(topic_id_text(TopicId(bytes(range(240, 256))))) == bytes(range(240, 256))
    with pytest.raises(ValueError, match=f"a topic id has 22 letters, .*, not '{re.escape(text)}'"):
        topic_id_of(text)


def test_times_are_datetimes_with_a_time_zone_or_milliseconds() -> None:
    """Without a time zone nobody knows which moment is meant."""
    assert millis(datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC)) == 1_700_000_000_000
    assert millis(1_700_000_000_000) == 1_700_000_000_000
    for given in (0, 999_999_999, 10**11):
        assert past_millis(given) == given
    assert past_millis(datetime(1970, 1, 21, tzinfo=UTC)) == 1_728_000_000
    with pytest.raises(ValueError, match="has no time zone"):
        millis(datetime(2023, 11, 14))


def test_both_faces_give_the_same(bootstrap_servers: str) -> None:
    """Results, errors, and calls that are made at the same time."""

    async def both() -> None:
        async with AsyncAdmin(bootstrap_servers) as admin:
            names, groups, _ = await asyncio.gather(
                admin.topics(), admin.list_groups(), admin.create_topic("of-async", 2)
            )
            with Admin(bootstrap_servers) as blocking:
                assert set(names) <= set(blocking.topics())
                assert groups == blocking.list_groups()
                assert [one.partition for one in blocking.partitions_of("of-async")] == [0, 1]
            with pytest.raises(PartlyRefused, match="of-async: TOPIC_ALREADY_EXISTS"):
                await admin.create_topic("of-async")
            await admin.delete_topics(["of-async"])

    asyncio.run(both())


def test_the_event_loop_does_not_wait_for_a_call(bootstrap_servers: str) -> None:
    """A server that is away costs its task a second, and other tasks nothing."""

    async def main() -> int:
        async with AsyncAdmin("127.0.0.1:1", timeout_s=1) as admin:
            turns = 0
            asking = asyncio.ensure_future(admin.topics())
            while not asking.done():
                await asyncio.sleep(0)
                turns += 1
            with pytest.raises(ClientError, match=r"no connection to 127\.0\.0\.1:1"):
                await asking
        return turns

    assert asyncio.run(main()) > 1


def test_an_event_loop_of_another_kind_is_told() -> None:
    """Such as trio's: the coroutine is driven here as any other loop drives it."""
    admin = AsyncAdmin("127.0.0.1:1")
    for call in (admin.topics(), admin.list_groups(), admin.__aenter__(), admin.close()):
        with pytest.raises(RuntimeError, match=r"needs an event loop of asyncio.*trio.to_thread.run_sync"):
            call.send(None)


def test_a_closed_admin_says_so(bootstrap_servers: str) -> None:
    """No connection is opened again that nobody would close. Closing twice is no error."""
    admin = Admin(bootstrap_servers)
    admin.list_groups()
    admin.close()
    admin.close()
    partition = TopicPartition(TopicName("flights"), 0)
    calls: dict[str, Callable[[], object]] = {
        "topics": admin.topics,
        "groups": admin.list_groups,
        "group": lambda: admin.describe_group("g"),
        "survey": lambda: admin.survey_groups(["g"]),
        "commit": lambda: admin.alter_offsets("g", {partition: 0}),
        "ends": lambda: admin.log_end_offsets([partition]),
        "settings": lambda: admin.topic_config("flights"),
        "create": lambda: admin.create_topic("created-too-late"),
    }
    for call in calls.values():
        with pytest.raises(RuntimeError, match="is closed; make a new one"):
            call()
    with Admin(bootstrap_servers) as other:
        assert "created-too-late" not in other.topics()


def test_a_closed_face_says_so(bootstrap_servers: str) -> None:
    """Closing twice is no error."""

    async def main() -> None:
        admin = AsyncAdmin(bootstrap_servers)
        await admin.topics()
        await admin.close()
        await admin.close()
        with pytest.raises(RuntimeError, match="this AsyncAdmin is closed; make a new one"):
            await admin.topics()

    asyncio.run(main())


def test_a_close_that_is_cancelled_still_closes(bootstrap_servers: str) -> None:
    """After the call that is under way: its connections and its thread would be left otherwise."""
    may_go_on = threading.Event()

    async def main() -> AsyncAdmin:
        admin = AsyncAdmin(bootstrap_servers)
        await admin.topics()
        going_on = asyncio.ensure_future(admin._call(may_go_on.wait, 20))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await admin.close()
        may_go_on.set()
        await going_on
        await admin.close()
        return admin

    admin = asyncio.run(main())
    (thread,) = admin._thread._threads
    thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="is closed"):
        admin._admin.topics()


FORKS = """
import asyncio, os, sys
from headgate.admin import Admin, AsyncAdmin


async def ask(asking):
    return await asking.topics()


admin, asking = Admin(sys.argv[1]), AsyncAdmin(sys.argv[1])
names = admin.topics()
assert asyncio.run(ask(asking)) == names
child = os.fork()
for _ in range(100):
    assert admin.topics() == asyncio.run(ask(asking)) == names
if not child:
    asyncio.run(asking.close())
    admin.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert admin.topics() == asyncio.run(ask(asking)) == names
"""


def test_a_forked_process_does_not_disturb_its_parent(bootstrap_servers: str) -> None:
    """Both go on with both faces at the same time, each with connections of its own."""
    command = [sys.executable, "-c", FORKS, bootstrap_servers]
    subprocess.run(command, timeout=60, check=True)
