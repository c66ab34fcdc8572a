"""The fixtures for tests of other people, as they use them: pytest in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.waiting import wait_until

import headgate
from headgate.admin import Admin, ConfigResource, ResourceType
from headgate.broker import BrokerFailed, SettingValue

START = "from headgate.broker import Broker\nimport pytest\n"
RUN_TIMEOUT_S = 120
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {
    "PYTHONPATH": str(Path(headgate.__file__).parents[1])
}
"""For the Headgate under test, also from another directory."""


def run_pytest(home: Path, source: str, *more: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    """Run the tests of `source` in `home`, and return what pytest printed."""
    (home / "test_theirs.py").write_text(START + textwrap.dedent(source))
    (home / "pytest.ini").write_text(f"[pytest]\n{ini}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *more]
    return subprocess.run(
        command, cwd=home, env=ENVIRONMENT, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )


def test_brokers_live_for_a_session_a_module_or_a_test(tmp_path: Path) -> None:
    """Tests share the broker of the session and of the module; each has the one of its own."""
    source = """
        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(number, headgate_broker, headgate_module_broker, headgate_test_broker):
            seen.append([b.pid for b in (headgate_broker, headgate_module_broker, headgate_test_broker)])
            assert len(set(seen[-1])) == 3

        def test_what_was_shared():
            first, second = seen
            assert first[:2] == second[:2] and first[2] != second[2]
    """
    done = run_pytest(tmp_path, source)
    assert "3 passed" in done.stdout, done.stdout


def test_settings_come_from_configuration_marker_and_parameter(tmp_path: Path) -> None:
    """The parameter overrides the marker of the test, that one the marker of the module, and that one the
    configuration.
    """
    source = """
        from confluent_kafka.admin import AdminClient, ConfigResource
        pytestmark = pytest.mark.headgate({"num.partitions": 4, "auto.create.topics.enable": False})

        def setting(broker, name):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            (node,) = admin.list_topics(timeout=10).brokers
            (described,) = admin.describe_configs([ConfigResource("broker", str(node))]).values()
            return described.result(10)[name].value

        def test_module(headgate_module_broker, headgate_broker):
            assert setting(headgate_module_broker, "num.partitions") == "4"
            assert setting(headgate_module_broker, "auto.create.topics.enable") == "false"
            assert setting(headgate_module_broker, "log.segment.bytes") == "2000000"
            assert setting(headgate_broker, "num.partitions") == "3"

        @pytest.mark.headgate({"num.partitions": 5})
        def test_marker(headgate_test_broker):
            assert setting(headgate_test_broker, "num.partitions") == "5"
            assert setting(headgate_test_broker, "auto.create.topics.enable") == "false"

        @pytest.mark.headgate({"num.partitions": 5})
        @pytest.mark.parametrize("headgate_test_broker", [{"num.partitions": 6}], indirect=True)
        def test_parameter(headgate_test_broker):
            assert setting(headgate_test_broker, "num.partitions") == "6"

        @pytest.mark.parametrize("headgate_broker", [{"num.partitions": n} for n in (1, 2)], indirect=True)
        def test_parameter_of_the_session(headgate_broker, request):
            assert setting(headgate_broker, "num.partitions") in "12"
    """
    ini = "headgate_settings =\n    num.partitions=3\n    log.segment.bytes=2000000\n"
    done = run_pytest(tmp_path, source, ini=ini)
    assert "5 passed" in done.stdout, done.stdout


def test_a_marker_without_effect_is_refused(tmp_path: Path) -> None:
    """The broker of the session is there before the test: it cannot have the settings of one test."""
    source = """
        @pytest.mark.headgate({"num.partitions": "2"})
        def test_it(headgate_broker):
            pass
    """
    done = run_pytest(tmp_path, source)
    assert "@pytest.mark.headgate on a test has an effect on headgate_test_broker only" in done.stdout


@pytest.mark.parametrize("other", ["", ", headgate_test_broker"])
def test_a_marker_of_a_module_without_effect_is_a_warning(tmp_path: Path, other: str) -> None:
    """Only if none of its tests has a broker that the marker changes."""
    source = f"""
        pytestmark = pytest.mark.headgate({{"num.partitions": "2"}})

        def test_it(headgate_broker{other}):
            pass

        def test_without_a_broker():
            pass
    """
    done = run_pytest(tmp_path, source)
    assert "2 passed" in done.stdout, done.stdout
    strict = run_pytest(tmp_path, source, "-W", "error")
    assert ("1 passed, 1 error" if not other else "2 passed") in strict.stdout, strict.stdout
    assert ("pytest.mark.headgate(...) has no effect on headgate_broker" in done.stdout) == (not other)


def test_the_marker_of_a_class_is_for_the_broker_of_the_class(tmp_path: Path) -> None:
    """All its tests share one broker with these settings; with a broker that others share, it is refused."""
    source = """
        from confluent_kafka.admin import AdminClient, ConfigResource

        def partitions(broker):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            (node,) = admin.list_topics(timeout=10).brokers
            (described,) = admin.describe_configs([ConfigResource("broker", str(node))]).values()
            return described.result(10)["num.partitions"].value

        @pytest.mark.headgate({"num.partitions": 7})
        class TestMarked:
            pids = set()

            @pytest.mark.parametrize("number", [1, 2])
            def test_its_own(self, number, headgate_class_broker):
                self.pids.add(headgate_class_broker.pid)
                assert partitions(headgate_class_broker) == "7"
                assert len(self.pids) == 1

            def test_of_the_test(self, headgate_test_broker):
                assert partitions(headgate_test_broker) == "7"

            def test_without_broker(self):
                pass

            def test_shared(self, headgate_module_broker):
                pass
    """
    done = run_pytest(tmp_path, source)
    assert "4 passed, 1 error" in done.stdout, done.stdout
    assert "not on headgate_module_broker, which is shared with tests outside" in done.stdout


def test_an_invalid_setting_is_told_in_the_failure(tmp_path: Path) -> None:
    """The text names the setting, and has no lines of earlier brokers."""
    source = """
        @pytest.mark.headgate({"num.partition": "2"})
        def test_it(headgate_test_broker):
            pass
    """
    done = run_pytest(tmp_path, source)
    assert "did you mean num.partitions? (the server ended by itself, with exit code 2)" in done.stdout


def test_the_summary_of_a_broker_that_does_not_start_has_the_cause(tmp_path: Path) -> None:
    """It is one line of the message, which is all that `--tb=no` and the mail of a build show."""
    source = """
        @pytest.mark.headgate({"num.partition": "2"})
        def test_it(headgate_test_broker):
            pass
    """
    done = run_pytest(tmp_path, source, "--tb=no")
    summary = done.stdout.partition("short test summary info")[2]
    assert "Failed: there is no setting called num.p" in summary, done.stdout


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('{"num.partitions": "many"}', "num.partitions=many: a whole number is expected"),
        ('["num.partitions"]', "a dict of broker settings is expected, not ['num.partitions']"),
        ("num_partitions=4", "@pytest.mark.headgate takes one argument, a dict of settings"),
    ],
)
def test_an_error_of_a_fixture_has_no_trace(tmp_path: Path, marker: str, message: str) -> None:
    """The message is all there is: no code of pytest, of the plugin or of other plugins."""
    source = f"""
        @pytest.mark.headgate({marker})
        def test_it(headgate_test_broker):
            pass
    """
    done = run_pytest(tmp_path, source)
    shown = done.stdout.partition("= ERRORS =")[2].partition("short test summary")[0]
    assert message in shown
    assert len(shown.splitlines()) < 7, shown


def test_a_broker_that_a_test_asks_for_by_name_is_in_its_report(tmp_path: Path) -> None:
    """`request.getfixturevalue` is not in the signature of the test."""
    source = """
        def test_it(request):
            request.getfixturevalue("headgate_test_broker")
            assert False
    """
    done = run_pytest(tmp_path, source)
    assert re.search(r"headgate at 127\.0\.0\.1:\d+ call -.*\n.* starting version=", done.stdout), done.stdout


def test_settings_of_a_script_may_be_python_values() -> None:
    """Numbers and bools, as in a marker."""
    settings: dict[str, SettingValue] = {
        "num.partitions": 3,
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.4,
    }
    with headgate.run(settings) as broker, Admin(broker.bootstrap_servers) as admin:
        broker_settings = ConfigResource(ResourceType.BROKER, str(admin.broker_ids()[0]))
        values = {one.name: one.value for one in admin.describe_configs([broker_settings])[broker_settings]}
    assert {name: values[name] for name in settings} == {
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
        "log.cleaner.min.cleanable.ratio": "0.4",
    }


def test_a_failing_test_shows_what_its_brokers_logged_meanwhile(tmp_path: Path) -> None:
    """Not what they logged before; and nothing is shown of a test that passes."""
    source = """
        from confluent_kafka.admin import AdminClient, NewTopic

        def create(broker, name):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)

        def test_passes(headgate_broker):
            create(headgate_broker, "before")

        def test_of_another_broker(headgate_test_broker, headgate_broker):
            create(headgate_test_broker, "elsewhere")

        @pytest.fixture
        def indirect(headgate_broker):
            return headgate_broker

        def test_fails(indirect):
            create(indirect, "meanwhile")
            assert False
    """
    done = run_pytest(tmp_path, source)
    assert re.search(r"-+ Captured log of headgate at 127.0.0.1:\d+ call -+", done.stdout), done.stdout
    assert "topic created topic=meanwhile" in done.stdout
    assert "topic=before" not in done.stdout and "topic=elsewhere" not in done.stdout


def test_an_error_of_a_marker_has_no_log_of_the_broker_of_another_test(tmp_path: Path) -> None:
    """The test did not begin: nothing was logged during it."""
    source = """
        def test_kills(headgate_module_broker):
            headgate_module_broker.kill()

        @pytest.mark.headgate({"num.partitions": 4})
        def test_with_a_marker_in_vain(headgate_broker):
            pass
    """
    done = run_pytest(tmp_path, source)
    assert "1 passed, 1 error" in done.stdout
    assert "starting version=" not in done.stdout and "a test stopped it" not in done.stdout, done.stdout


def test_the_log_is_in_the_file_for_the_build_server(tmp_path: Path) -> None:
    """With `junit_logging` as for every captured log: pytest writes none of them by default."""
    source = "def test_fails(headgate_test_broker): assert False"
    for asked in (True, False):
        more = ("-o", "junit_logging=log") if asked else ()
        run_pytest(tmp_path, source, "--junitxml", str(tmp_path / "junit.xml"), *more)
        assert (" starting version=" in (tmp_path / "junit.xml").read_text()) == asked


@pytest.mark.parametrize("deed", ["pass", "kill(second); log_path.unlink()"])
def test_a_broker_of_a_fixture_of_their_own_is_in_the_report(tmp_path: Path, deed: str) -> None:
    """Two brokers of one kind come from `headgate.run`. One that ended logs nothing, and is told, too."""
    source = f"""
        import os, signal, time
        import headgate

        @pytest.fixture(scope="module")
        def second():
            with headgate.run() as broker:
                yield broker

        def kill(broker):
            os.kill(broker.pid, signal.SIGKILL)
            while not broker.why_ended():
                time.sleep(0.01)

        def test_fails(second):
            log_path = second.log_path
            {deed}
            assert False
    """
    done = run_pytest(tmp_path, source)
    assert re.search(r"-+ Captured log of headgate at 127.0.0.1:\d+ call -+", done.stdout), done.stdout
    assert ("the server was ended by SIGKILL" if "kill" in deed else " starting version=") in done.stdout


def test_a_broker_that_was_killed_is_told(tmp_path: Path) -> None:
    """Otherwise the test would only say that it cannot connect."""
    source = """
        import os, signal, time
        def test_fails(headgate_broker):
            os.kill(headgate_broker.pid, signal.SIGKILL)
            time.sleep(0.5)
            raise ConnectionError("refused")
    """
    done = run_pytest(tmp_path, source)
    assert "the server was ended by SIGKILL; the kernel does that if memory runs out" in done.stdout


def test_a_shared_broker_that_an_earlier_test_stopped_is_told(tmp_path: Path) -> None:
    """The failing test is another one."""
    source = """
        def test_stops(headgate_broker):
            headgate_broker.stop()

        def test_fails(headgate_broker):
            raise ConnectionError("refused")
    """
    done = run_pytest(tmp_path, source)
    assert "the server is down: a test stopped it" in done.stdout
    assert "<Broker at 127.0.0.1:" in done.stdout and ", down, data in " in done.stdout


def test_workers_of_xdist_have_brokers_of_their_own(tmp_path: Path) -> None:
    """A session is that of a worker."""
    source = """
        import os, time
        @pytest.mark.parametrize("number", range(4))
        def test_it(number, headgate_broker, tmp_path_factory):
            shared = tmp_path_factory.getbasetemp().parent
            (shared / f"{os.environ['PYTEST_XDIST_WORKER']}-{headgate_broker.port}").touch()
            time.sleep(0.5)
    """
    done = run_pytest(tmp_path, source, "-n", "2", f"--basetemp={tmp_path / 'base'}")
    assert "4 passed" in done.stdout, done.stdout
    names = {path.name for path in (tmp_path / "base").glob("gw*-*")}
    assert {name.split("-")[0] for name in names} == {"gw0", "gw1"}
    assert len({name.split("-")[1] for name in names}) == 2


def test_an_asynchronous_test_uses_it(tmp_path: Path) -> None:
    """The broker is another process: a loop of the test does not wait for it."""
    source = """
        import asyncio
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        def test_it(headgate_broker):
            async def main():
                servers = headgate_broker.bootstrap_servers
                async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
                    await producer.send_and_wait("greetings", b"hello")
                await asyncio.to_thread(headgate_broker.restart)
                options = {"group_id": "g", "auto_offset_reset": "earliest", "bootstrap_servers": servers}
                async with AIOKafkaConsumer("greetings", **options) as consumer:
                    assert (await consumer.getone()).value == b"hello"
            asyncio.run(main())
    """
    done = run_pytest(tmp_path, source)
    assert "1 passed" in done.stdout, done.stdout


PARENT = """
import os, sys, time, headgate
with headgate.run() as broker:
    if os.fork() == 0:  # has a copy of the broker's standard input
        time.sleep(60)
        os._exit(0)
    print(broker.port, broker.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("has_child", [True, False])
def test_a_parent_that_is_killed_takes_its_broker_along(has_child: bool) -> None:
    """Also if a process that it forked lives on."""
    program = PARENT if has_child else PARENT.replace("if os.fork() == 0", "if False")
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        port, pid = map(int, parent.stdout.readline().split())
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        parent.kill()
        parent.wait(10)
        wait_until(lambda: _is_gone(pid), f"process {pid} still runs")
    finally:
        os.killpg(parent.pid, signal.SIGKILL) if has_child else None
        parent.kill()
        if parent.stdout is not None:
            parent.stdout.close()


def _is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("os.kill(broker.pid, 40); wait_until_ended(broker)", "the server was ended by signal 40"),
        ("broker.log_path.unlink()", "(its log cannot be read: "),
    ],
)
def test_what_a_test_does_to_a_broker_does_not_end_pytest(tmp_path: Path, deed: str, told: str) -> None:
    """A signal without a name, a log that was removed: the report tells it, and the next test runs."""
    source = f"""
        import os, time

        def wait_until_ended(broker):
            while not broker.why_ended():
                time.sleep(0.01)

        def test_it(headgate_broker):
            broker = headgate_broker
            {deed}
            raise AssertionError

        def test_next(headgate_broker):
            pass
    """
    done = run_pytest(tmp_path, source)
    assert told in done.stdout and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr


def test_a_broker_that_runs_is_not_started_again(tmp_path: Path) -> None:
    """It stays what it was."""
    with headgate.run() as broker:
        pid = broker.pid
        with pytest.raises(headgate.BrokerFailed, match="runs already"):
            broker.start()
        assert broker.pid == pid and broker.why_ended() is None


def test_an_interrupted_start_leaves_no_server_behind(tmp_path: Path) -> None:
    """As the time limit of a test interrupts it, also where warnings are errors: they would tell of it."""
    (tmp_path / "conftest.py").write_text(
        "import pytest, signal\n"
        "@pytest.fixture(autouse=True)\n"
        "def limit():\n"
        "    def late(*_): raise TimeoutError('the test is late')\n"
        "    signal.signal(signal.SIGALRM, late)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
    )
    source = "def test_it(headgate_test_broker): pass"
    done = run_pytest(tmp_path, source, "-W", "error")
    assert "the test is late" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stderr
    assert "ResourceWarning" not in done.stdout + done.stderr


def test_files_of_the_project_do_not_get_into_the_way(tmp_path: Path) -> None:
    """Such as one that is called like a module of Python, where the tests are run."""
    (tmp_path / "queue.py").write_text("raise RuntimeError('of the project')")
    script = "import headgate\nwith headgate.run():\n    pass"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_broker_that_is_slow_to_start_says_how_to_wait_longer(tmp_path: Path) -> None:
    """With the setting of `run` and that of pytest; what is no time is refused."""
    source = "def test_it(headgate_test_broker): pass"
    done = run_pytest(tmp_path, source, ini="headgate_start_timeout = 0.001\n")
    assert "the server was not ready after 0.001 s" in done.stdout
    assert "headgate_start_timeout of pytest" in done.stdout
    assert "(it logged nothing)" in done.stdout
    done = run_pytest(tmp_path, source, ini="headgate_start_timeout = soon\n")
    assert "headgate_start_timeout must be a number of seconds above 0, not 'soon'" in done.stdout


def test_an_empty_data_directory_is_refused() -> None:
    """A variable that is not set would otherwise put the data into the current directory."""
    with pytest.raises(ValueError, match="data_dir is empty"), headgate.run(data_dir=""):
        raise AssertionError("it started")


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """In the error of every other broker that does not start, with what to do."""
    (tmp_path / "file").touch()
    for data_dir in ("/proc/nope", tmp_path / "file" / "data"):
        expected = (
            f"cannot use the data directory {re.escape(str(data_dir))}: .*; choose a data_dir in a directory"
        )
        with pytest.raises(BrokerFailed, match=expected), headgate.run(data_dir=data_dir):
            raise AssertionError("it started")
