"""The Dockerfile: what it copies exists, and its command and its health check work, without a container."""

from __future__ import annotations

import json
import re
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def words_of(instruction: str) -> list[str]:
    """Return the words of an instruction in its JSON form."""
    found = re.findall(rf"^{instruction} .*?(\[.*\])$", TEXT, re.MULTILINE)
    words: list[str] = json.loads(found[0])
    return words


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_everything_that_is_copied_exists() -> None:
    """From the repository; and a build needs no more of it than a source distribution has."""
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE):
        for name in sources.split():
            assert (ROOT / name).exists(), name


def test_the_command_of_the_image_serves_and_its_health_check_sees_it(tmp_path: Path) -> None:
    """With other ports and another directory. The check fails before the start and after the stop."""
    (program,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', TEXT, re.MULTILINE)
    assert program == "headgate"
    port, metrics_port = free_port(), free_port()
    moved = {
        "0.0.0.0:9092": f"127.0.0.1:{port}",
        "localhost:9092": f"localhost:{port}",
        "0.0.0.0:9192": f"127.0.0.1:{metrics_port}",
        "/data": str(tmp_path / "data"),
    }
    command = [moved.get(word, word) for word in words_of("CMD")]
    assert sum(word in moved for word in words_of("CMD")) == len(moved)
    _, *check = words_of("HEALTHCHECK")
    check = [sys.executable, *(word.replace(":9192/", f":{metrics_port}/") for word in check)]

    def is_healthy() -> bool:
        return subprocess.run(check, capture_output=True, check=False).returncode == 0

    assert not is_healthy()
    server = subprocess.Popen(
        [sys.executable, "-m", program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(server.stdout, selectors.EVENT_READ)
            assert selector.select(30), "the server was not ready after 30 s"
        assert server.stdout.readline() == f"headgate is listening on 127.0.0.1:{port}\n"
        assert is_healthy()
    finally:
        (stop_signal,) = re.findall(r"^STOPSIGNAL (\w+)$", TEXT, re.MULTILINE)
        server.send_signal(signal.Signals[stop_signal])
        _, log = server.communicate(timeout=30)
    assert server.returncode == 0, log
    assert not is_healthy()
