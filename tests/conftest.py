"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

from headgate.broker import Broker
from headgate.compiled import build_text, is_compiled
from headgate.core import image as record_image
from headgate.core.offsets import image as offset_image
from headgate.core.offsets import pending_image
from headgate.core.share.state import image as state_image
from headgate.log.memory_filesystem import PowerCut
from headgate.runtime import failures
from headgate.runtime.failures import Where

pytest_plugins = ["tests.threads.plugin"]

# How long an example takes tells how busy the machine is, and nothing of the code.
settings.register_profile("headgate", deadline=None)
# For tools/mutants.py: whether a change is noticed must not be chance, and nobody reads the smallest example.
settings.register_profile("mutants", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("headgate")

# Many tests start a Spark of their own for seconds, in which the JVM's second compiler gains nothing.
BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF_JVM)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", BRIEF_JVM)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compiled", action="store_true", help="test an installation with compiled modules, or fail"
    )
    parser.addoption(
        "--hostile-seconds", type=float, default=6.0, help="how long each of tests/hostile attacks (6)"
    )
    parser.addoption(
        "--hostile-seed", type=int, default=0, help="what tests/hostile draws from; printed where one fails"
    )

    parser.addoption(
        "--processor-seconds", type=float, default=0.0, help="fail a test that computes longer than this"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A run with nohup or in the background of a script ignores these, and what it starts would too.
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
    if config.getoption("compiled") and not is_compiled():
        raise pytest.UsageError(
            "--compiled: the headgate that is found here is not (make compiled makes one)"
        )


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a checkpoint of a few offsets, groups, transactional ids or share states take several parts."""
    monkeypatch.setattr(pending_image, "_OFFSETS_A_PART", 4)
    monkeypatch.setattr(offset_image, "_ROWS_A_PART", 4)
    monkeypatch.setattr(offset_image, "_ROWS_A_PART_WITH_TEXTS", 4)
    monkeypatch.setattr(record_image, "_RECORDS_A_PART", 2)
    monkeypatch.setattr(state_image, "_PART_BYTES", 1)


def pytest_report_header() -> str:
    return f"headgate: {build_text()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hold a test to `--processor-seconds`, which a busy machine does not use up as it does real time."""
    seconds: float = item.config.getoption("processor_seconds")
    if not seconds:
        yield
        return

    def stop(number: int, frame: object) -> None:
        pytest.fail(f"took more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)  # again: Hypothesis tries what failed once more
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture(scope="session", autouse=True)
def power_cuts_are_expected() -> Iterator[None]:
    """Do not count what tests raise in place of the end of the process."""
    count = failures._count
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            failures,
            "_count",
            lambda where, failure: None if isinstance(failure, PowerCut) else count(where, failure),
        )
        yield


@pytest.fixture(autouse=True)
def no_unexpected_failures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which something failed that nothing provides for; see the marker `plants_failures`."""
    failures.forget()
    yield
    counted = {where.value for where in failures.counts()}
    failures.forget()
    marker = request.node.get_closest_marker("plants_failures")
    planted = set() if marker is None else {Where(name).value for name in marker.args}
    assert counted <= planted, "failures that nothing provides for, by place (planted ones are declared)"


@pytest.fixture(scope="session", autouse=True)
def no_unexpected_failures_of_processes() -> Iterator[None]:
    """Look through the log of every server process when it ends."""
    forget = Broker._forget

    def look_and_forget(broker: Broker) -> None:
        forget(broker)
        text = broker.log_path.read_text(errors="replace") if broker.log_path.exists() else ""
        found = [line for line in text.splitlines() if "unexpected failure" in line or "Traceback" in line]
        if found:
            broker.log_path.unlink()
        assert not found, "the server logged failures that nothing provides for:\n" + text[-10_000:]

    Broker._forget = look_and_forget  # type: ignore[assignment,method-assign]
    yield
    Broker._forget = forget  # type: ignore[method-assign]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if is_compiled() and item.get_closest_marker("interpreted"):
        pytest.skip("replaces or copies what is fixed in compiled modules")
