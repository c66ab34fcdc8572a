"""Standard output that cannot be written ends a command with one line; a reader that has gone, with none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.broker import run

LOST = "standard output cannot be written: No space left on device\n"
COMMANDS = (
    "--help",
    "--version",
    "settings",
    "settings --output csv",
    "log verify",
    "log verify --output json",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory."""
    path = tmp_path_factory.mktemp("output") / "data"
    with run({}, data_dir=path):
        pass
    return path


def words(command: str, data: Path) -> list[str]:
    """Return the words of a command, with the directory if it needs one."""
    more = [str(data)] if command in ("log verify", "log verify --output json") else []
    return [sys.executable, "-m", "headgate", *command.split(), *more]


def environment(is_unbuffered: bool) -> dict[str, str]:
    """Return an environment in which Python buffers its output, or does not."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return others | ({"PYTHONUNBUFFERED": "1"} if is_unbuffered else {})


@pytest.mark.parametrize("is_unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_under_the_output_is_told(command: str, is_unbuffered: bool, data: Path) -> None:
    """On one line, with the exit code 1: what was written is not whole."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words(command, data),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(is_unbuffered),
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, f"headgate: {LOST}")


@pytest.mark.parametrize("is_unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_gone_ends_a_command_silently(
    command: str, is_unbuffered: bool, data: Path
) -> None:
    """`headgate ... | head -1` prints no error, also if all of the output fits into one buffer."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            words(command, data),
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(is_unbuffered),
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("command", ["settings", "settings --output csv", "log verify --output json"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_closed_stream_is_the_null_device(data: Path, command: str, closed: str) -> None:
    """Without an output the command runs all the same, and no file of it gets the descriptor."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words(command, data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">" not in closed)


def test_no_file_of_a_server_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library writes to standard error would be in a log."""
    program = (
        "import os, sys\n"
        "from headgate.cli.output import open_closed_streams\n"
        "open_closed_streams()\n"
        "print('nothing'), print('nothing', file=sys.stderr), sys.stdin.read()\n"
        "names = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]\n"
        "open(sys.argv[1], 'w').write(' '.join(names))\n"
    )
    told = tmp_path / "told"
    words = [sys.executable, "-c", program, str(told)]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], timeout=60, check=True)
    assert told.read_text() == " ".join([os.devnull] * 3)


def test_a_server_that_cannot_tell_that_it_is_ready_does_not_start(tmp_path: Path) -> None:
    """It names its output, not its data directory, and stops cleanly."""
    command = [sys.executable, "-m", "headgate", "serve", "--listen", "127.0.0.1:0"]
    for number, path in enumerate((Path("/dev/full"), None)):
        read, write = os.pipe()
        os.close(read)
        with path.open("w") if path else os.fdopen(write, "w") as output:
            done = subprocess.run(
                [*command, "--data-dir", str(tmp_path / str(number))],
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        reason = "No space left on device" if path else "Broken pipe"
        said = [line for line in done.stderr.splitlines() if line.startswith("headgate: ")]
        assert said == [f"headgate: cannot start: standard output cannot be written: {reason}"]
        assert done.returncode == 1
