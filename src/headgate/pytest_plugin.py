"""Brokers for tests, as pytest fixtures. The installed package provides them; no import is needed:

    def test_orders_are_consumed(headgate_broker):
        producer = Producer({"bootstrap.servers": headgate_broker.bootstrap_servers})

`headgate_broker` lives as long as the session, `headgate_module_broker` as long as a module,
`headgate_class_broker` as long as a class, and `headgate_test_broker` as long as a test. Settings come from

1. the option `headgate_settings` of pytest's configuration, one `name=value` per line, for all of them;
2. the marker `headgate`, for brokers of a module, a class or a test:
   `@pytest.mark.headgate({"num.partitions": "3"})`, or `pytestmark = ...` for a module;
3. an indirect parameter, for any of them:
   `@pytest.mark.parametrize("headgate_broker", [{"num.partitions": "3"}], indirect=True)`.

A later one overrides an earlier one. When a test fails, the lines that its brokers logged meanwhile are
in its report, as a captured log, and so is a broker that ended without being asked to. That holds for brokers
of `headgate.run` in fixtures of others, too. With pytest-xdist each worker has brokers of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from headgate.broker import START_TIMEOUT_S, Broker, BrokerFailed, run, running, setting_text

MOST_LINES = 200
"""Lines of a broker's log in the report of a failing test: the last ones."""

_OF_MARKERS = frozenset({"headgate_module_broker", "headgate_class_broker", "headgate_test_broker"})
"""The fixtures whose brokers have the settings of markers."""

_RUNNING = pytest.StashKey[dict[str, Broker]]()
"""The brokers that run now, by the name of their fixture."""
_WARNS = pytest.StashKey[bool]()
"""Of a test: that it warns of the marker of its module."""
_LOGGED = pytest.StashKey[dict[str, int]]()
"""Of a test: how many bytes each log had at its start."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the configuration option."""
    parser.addini(
        "headgate_settings", "Broker settings of Headgate's fixtures, one name=value a line.", "linelist"
    )
    parser.addini(
        "headgate_start_timeout",
        "Seconds that a broker of Headgate's fixtures may take to start.",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "headgate(settings): broker settings of headgate_module_broker (on the module), "
        "headgate_class_broker (on module or class) and headgate_test_broker",
    )
    config.stash[_RUNNING] = {}


@pytest.fixture(scope="session")
def headgate_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker, shared by the session: use different topics and groups in each test."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture(scope="module")
def headgate_module_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker, shared by the tests of a module."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture(scope="class")
def headgate_class_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker, shared by the tests of a class."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture
def headgate_test_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker of this test alone."""
    with _broker(request) as broker:
        yield broker


@contextmanager
def _broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    running = request.config.stash[_RUNNING]
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(
                run(_settings(request), start_timeout_s=_start_timeout_s(request.config))
            )
        except (BrokerFailed, pytest.UsageError) as problem:  # no trace: the reader's own code is not in it
            raise pytest.fail.Exception(str(problem), pytrace=False) from None
        running[str(request.fixturename)] = broker
        try:
            yield broker
        finally:
            running.pop(str(request.fixturename), None)


def _start_timeout_s(config: pytest.Config) -> float:
    """Return the configured time. Raises pytest.UsageError for what is no time."""
    given = str(config.getini("headgate_start_timeout"))
    try:
        seconds = float(given or START_TIMEOUT_S)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise pytest.UsageError(f"headgate_start_timeout must be a number of seconds above 0, not {given!r}")
    return seconds


def _settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the settings of a fixture's broker. Raises pytest.UsageError for what are none."""
    pairs = (line.partition("=") for line in request.config.getini("headgate_settings"))
    settings = {name.strip(): value.strip() for name, _, value in pairs}
    if request.scope != "session":  # the node of the session has the markers of no test
        for marker in reversed(list(request.node.iter_markers("headgate"))):
            if len(marker.args) != 1 or marker.kwargs:
                raise pytest.UsageError("@pytest.mark.headgate takes one argument, a dict of settings")
            settings.update(_texts(marker.args[0]))
    settings.update(_texts(getattr(request, "param", {})))
    return settings


def _texts(settings: object) -> dict[str, str]:
    """Return settings as texts. Raises pytest.UsageError for anything but a dict."""
    if not isinstance(settings, Mapping):
        raise pytest.UsageError(f"a dict of broker settings is expected, not {settings!r}")
    return {str(name): setting_text(value) for name, value in settings.items()}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note the marker of a module none of whose chosen tests has a broker that the marker changes.

    Its first test warns of it, and does not fail: others of the module, which were not chosen, may have one.
    """
    modules: dict[pytest.Module, list[pytest.Item]] = {}
    for item in items:
        module = item.getparent(pytest.Module)
        if module is not None and _is_marked(module):
            modules.setdefault(module, []).append(item)
    for chosen in modules.values():
        names = {name for item in chosen for name in getattr(item, "fixturenames", ())}
        if "headgate_broker" in names and not names & _OF_MARKERS:
            chosen[0].stash[_WARNS] = True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where the logs end, before anything can fail, and refuse a marker that would have no effect."""
    item.stash[_LOGGED] = {
        str(broker.log_path): broker.log_path.stat().st_size
        for broker in running()
        if broker.log_path.exists()
    }
    names = set(getattr(item, "fixturenames", ()))
    problem = _without_effect(item, names)
    if problem is not None:
        pytest.fail(problem, pytrace=False)
    if item.stash.get(_WARNS, False):  # not earlier: an error of `-W error` would end the session
        item.warn(
            pytest.PytestWarning(
                "pytestmark = pytest.mark.headgate(...) has no effect on headgate_broker, which all "
                "modules share: use headgate_module_broker, or parametrize headgate_broker"
            )
        )


def _without_effect(item: pytest.Item, names: set[str]) -> str | None:
    """Return why a marker has no effect on the brokers of a test; None if it has one, or there is none."""
    if "headgate_test_broker" in names:
        return None
    if _is_marked(item):
        return (
            "@pytest.mark.headgate on a test has an effect on headgate_test_broker only, as tests share the "
            "other brokers; mark the class for headgate_class_broker, the module for headgate_module_broker, "
            "and parametrize headgate_broker"
        )
    shared = sorted(names & {"headgate_broker", "headgate_module_broker"})
    is_of_class = any(isinstance(one, pytest.Class) and _is_marked(one) for one in item.listchain())
    if is_of_class and shared and "headgate_class_broker" not in names:
        return (
            "@pytest.mark.headgate on a class has an effect on headgate_class_broker and "
            f"headgate_test_broker, not on {shared[0]}, which is shared with tests outside of the class"
        )
    return None


def _is_marked(node: pytest.Item | pytest.Collector) -> bool:
    return any(marker.name == "headgate" for marker in node.own_markers)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the brokers that a test uses to the report of its failure.

    Also to the sections of the test, from which the report of its end has them: the file of `--junitxml` is
    written from that one.
    """
    report = yield
    if report.failed:
        seen = item.stash.get(_LOGGED, {})
        names = getattr(item, "fixturenames", ())
        used = {id(broker) for name, broker in item.config.stash[_RUNNING].items() if name in names}
        for broker in running():
            start = seen.get(str(broker.log_path), 0)
            # Others are those of `request.getfixturevalue`, and of fixtures that call `headgate.run`.
            if id(broker) in used or _has_logged(broker, start) or broker.why_ended():
                told = _told(broker, start)
                # pytest shows it with the logs that it captured: `--show-capture`, `-o junit_logging`
                kind = f"log of headgate at {broker.bootstrap_servers}"
                report.sections.append((f"Captured {kind} {call.when}", told))
                item.add_report_section(call.when, kind, told)
    return report


def _has_logged(broker: Broker, start: int) -> bool:
    return broker.log_path.exists() and broker.log_path.stat().st_size > start


def _told(broker: Broker, start: int) -> str:
    """Return what a broker logged from byte `start` of its log on, and whether it still runs."""
    try:
        with broker.log_path.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as problem:  # such as one that the test removed
        lines = [f"(its log cannot be read: {problem})"]
    left_out = [f"({len(lines) - MOST_LINES} lines before)"] if len(lines) > MOST_LINES else []
    shown = [*left_out, *lines[-MOST_LINES:]] or ["(it logged nothing during this test)"]
    ended = broker.why_ended() or ("the server is down: a test stopped it" if broker.pid is None else None)
    return "\n".join([*shown, *([ended] if ended else [])])
