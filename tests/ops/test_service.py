"""The unit of systemd: its command starts a server at the addresses that it names, which can be changed."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from headgate.admin import Admin
from headgate.server import supervision

UNIT = Path(__file__).parents[2] / "ops" / "headgate.service"
PROGRAM = "/opt/headgate/bin/headgate"


def environment_of(unit: str) -> dict[str, str]:
    """Return the variables that the unit sets."""
    return dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", unit, re.MULTILINE))


def command_of(unit: str, environment: dict[str, str]) -> list[str]:
    """Return the words of the unit's command, as systemd makes them: `${NAME}` is one word, `$NAME` any."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words: list[str] = []
    for word in line.split():
        if plain := re.fullmatch(r"\$(\w+)", word):
            words += shlex.split(environment[plain[1]])
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda found: environment[found[1]], word))
    return words


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_the_unit_says_where_the_server_listens() -> None:
    """By default for this machine only; the comment names every variable that changes it."""
    unit = UNIT.read_text()
    environment = environment_of(unit)
    assert environment["HEADGATE_LISTEN"] == "127.0.0.1:9092"
    assert environment["HEADGATE_METRICS_LISTEN"] == "127.0.0.1:9192"
    comment = unit.partition("[Unit]")[0]
    assert all(name in comment for name in environment)
    assert all(address in comment for address in (environment["HEADGATE_LISTEN"], "127.0.0.1:9192"))


def test_the_command_of_the_unit_starts_a_server_at_other_addresses(tmp_path: Path) -> None:
    """As `systemctl edit` changes them: another port, an advertised address and more options."""
    unit = UNIT.read_text()
    port, metrics_port = free_port(), free_port()
    environment = environment_of(unit) | {
        "HEADGATE_LISTEN": f"127.0.0.1:{port}",
        "HEADGATE_METRICS_LISTEN": f"127.0.0.1:{metrics_port}",
        "HEADGATE_OPTIONS": f"--advertise localhost:{port} --log-format json --log-level debug",
    }
    config = tmp_path / "headgate.toml"
    config.touch()
    moved = {"/var/lib/headgate": str(tmp_path / "data"), "/etc/headgate.toml": str(config)}
    program, *words = [moved.get(word, word) for word in command_of(unit, environment)]
    assert program == PROGRAM
    server = subprocess.Popen(
        [sys.executable, "-m", "headgate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(server.stdout, selectors.EVENT_READ)
            assert selector.select(30), "the server was not ready after 30 s"
        assert server.stdout.readline() == f"headgate is listening on 127.0.0.1:{port}\n"
        with Admin(f"127.0.0.1:{port}") as admin:
            (broker,) = admin.cluster.metadata([]).brokers
            assert (broker.host, broker.port) == ("localhost", port)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/readyz", timeout=10) as answer:
            assert answer.read() == b"ready\n"
    finally:
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=30)
    assert server.returncode == 0, log
    assert '"event": "ready"' in log


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(
    tmp_path: Path, is_abstract: bool
) -> None:
    """By the socket that systemd names, a file or an abstract one; `systemctl start` waits for the first."""
    assert re.findall(r"^Type=(.*)$", UNIT.read_text(), re.MULTILINE) == ["notify"]
    address = f"@headgate-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(address.replace("@", "\0"))
        supervisor.settimeout(30)
        port = free_port()
        words = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"]
        environment = os.environ | {"NOTIFY_SOCKET": address}
        server = subprocess.Popen([sys.executable, "-m", "headgate", *words], env=environment)
        try:
            assert supervisor.recv(100) == b"READY=1"
            socket.create_connection(("127.0.0.1", port), 10).close()
            server.send_signal(signal.SIGTERM)
            assert supervisor.recv(100) == b"STOPPING=1"
        finally:
            server.terminate()
        assert server.wait(30) == 0


def test_a_supervisor_that_cannot_be_told_is_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that does not read, and one that is not there: the server goes on."""
    monkeypatch.setattr(supervision, "_PATIENCE_S", 0.05)
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(address)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        for _ in range(10_000):
            supervision.tell_supervisor(supervision.READY)
            if caplog.records:
                break
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nowhere"))
    supervision.tell_supervisor(supervision.STOPPING)
    lines = [vars(one) for one in caplog.records]
    assert [(one["message"], one["state"]) for one in lines] == [
        ("the supervisor cannot be told", "READY=1"),
        ("the supervisor cannot be told", "STOPPING=1"),
    ]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Without a complaint; the program is one that exists here."""
    there = tmp_path / "headgate.service"
    there.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    command = ["systemd-analyze", "verify", str(there)]
    checked = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
