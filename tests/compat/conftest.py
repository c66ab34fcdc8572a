"""One live broker for the whole run, and one driver for each client library.

The broker is the real process, `headgate serve`. HEADGATE_COMPAT_BOOTSTRAP=host:port names another one
to drive instead: run against Apache Kafka, these tests are themselves put to the test.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.compat.check_tools import missing
from tests.compat.support.aiokafka_driver import AioKafka
from tests.compat.support.confluent import Confluent
from tests.compat.support.driver import Driver
from tests.compat.support.kafkajs import NODE, KafkaJs
from tests.compat.support.kcat import Kcat
from tests.compat.support.members import SESSION_TIMEOUT_MS, Join

import headgate
from headgate.broker import Broker

# Warnings of the libraries themselves, each one named.
# kafka-python 3.0.12 loads its schemas with functions that Python 3.11 and 3.12 call deprecated.
KAFKA_PYTHON_SCHEMAS = "(read|open)_text is deprecated"
THEIR_WARNINGS = (f"ignore:{KAFKA_PYTHON_SCHEMAS}:DeprecationWarning",)
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", KAFKA_PYTHON_SCHEMAS, DeprecationWarning)
    from tests.compat.support.kafka_python import KafkaPython

HERE = Path(__file__).parent
BOOTSTRAP_VARIABLE = "HEADGATE_COMPAT_BOOTSTRAP"
TEST_TIMEOUT_S = 90
OFFSETS_TOPIC_PARTITIONS = 8
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(OFFSETS_TOPIC_PARTITIONS),
}

QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
}

DRIVERS: dict[str, type[Driver]] = {
    driver.name: driver for driver in (Confluent, KafkaPython, AioKafka, KafkaJs, Kcat)
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder drives a live broker, and is bounded in time."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.filterwarnings(*THEIR_WARNINGS))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.drivers(Can.X)` on a test with a `driver` runs it once for each library that can do X."""
    for argument, marker in (("driver", "drivers"), ("other_driver", "other_drivers")):
        if argument in metafunc.fixturenames:
            wanted = {can for mark in metafunc.definition.iter_markers(marker) for can in mark.args}
            names = [name for name, driver in DRIVERS.items() if wanted <= driver.can]
            metafunc.parametrize(argument, names, indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    """The markers that choose libraries."""
    config.addinivalue_line("markers", "drivers(*can): run once for each client library with these abilities")
    config.addinivalue_line("markers", "other_drivers(*can): the same for the other side of a pair")


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Stops the run, in words that help, when a client cannot be run here."""
    if lines := missing():
        pytest.exit(
            "the compatibility tests need more than is installed here:\n" + "\n".join(lines), returncode=1
        )
    installed, wanted = NODE / "node_modules" / ".package-lock.json", NODE / "package.json"
    with wanted.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process of the run installs, and the others wait for it
        if installed.exists() and installed.stat().st_mtime >= wanted.stat().st_mtime:
            return
        install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(install, cwd=NODE, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.exit(f"npm install failed in {NODE}:\n{done.stderr}", returncode=1)


@pytest.fixture(scope="session")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The data directory of the server; None if the broker is somebody else's."""
    return None if BOOTSTRAP_VARIABLE in os.environ else tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="session")
def bootstrap(server_directory: Path | None) -> Iterator[str]:
    """host:port of the broker under test."""
    if server_directory is None:
        yield os.environ[BOOTSTRAP_VARIABLE]
        return
    with headgate.run(SETTINGS, data_dir=server_directory) as broker:
        yield broker.bootstrap_servers
        log = broker.log_path.read_text()
    complaints = [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]
    assert not complaints, f"the server complained:\n{log[-5000:]}"


@pytest.fixture(scope="session")
def all_drivers(bootstrap: str, tools: None) -> Iterator[Callable[[str], Driver]]:
    """Gives the driver of a library by its name, started when it is first asked for."""
    started: dict[str, Driver] = {}

    def driver(name: str) -> Driver:
        if name not in started:
            started[name] = DRIVERS[name](bootstrap)
        return started[name]

    yield driver
    for one in started.values():
        one.close()


@pytest.fixture
def driver(request: pytest.FixtureRequest, all_drivers: Callable[[str], Driver]) -> Driver:
    """The library that this run of the test is about."""
    return all_drivers(request.param)


@pytest.fixture
def other_driver(request: pytest.FixtureRequest, all_drivers: Callable[[str], Driver]) -> Driver:
    """The library on the other side."""
    return all_drivers(request.param)


@pytest.fixture
def admin(all_drivers: Callable[[str], Driver]) -> Driver:
    """A library to set the scene with, where the test is about another one."""
    return all_drivers("kafka-python")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a topic or a group that nothing else uses."""
    plain = "".join(c if c.isalnum() else "-" for c in request.node.originalname)
    return f"{plain[:60]}-{os.getpid()}-{time.time_ns() % 10**9}-{next(_COUNT)}"


_COUNT = itertools.count()


@pytest.fixture
def join(bootstrap: str) -> Iterator[Join]:
    """Starts members; whatever is left of them at the end of the test is killed."""
    with Join(bootstrap) as join:
        yield join


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of the file's own, which it may kill, and whose groups are quick."""
    with headgate.run(QUICK_GROUPS) as broker:
        yield broker


@pytest.fixture
def setter(broker: Broker) -> Iterator[KafkaPython]:
    """A library to set the scene with at the file's own broker."""
    with closing(KafkaPython(broker.bootstrap_servers)) as driver:
        yield driver
