"""A program with franz-go, in `go`, built where Go is installed and its modules can be had."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.paths import BUILD

SOURCES = Path(__file__).parents[1] / "go"
PROGRAMS = BUILD / "compat-go"
DOWNLOAD_TIMEOUT_S = 60
BUILD_TIMEOUT_S = 200

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed (https://go.dev/dl)")


def franz_version() -> str:
    """The version of franz-go that go.mod demands."""
    (line,) = (line for line in (SOURCES / "go.mod").read_text().splitlines() if "twmb/franz-go v" in line)
    return line.split()[1].removeprefix("v")


def built() -> Path:
    """Return the program; skip the test if Go is too old for its modules, or if they cannot be had.

    It is there as a whole or not at all, because several processes run these tests.
    """
    files = [SOURCES / name for name in ("go.mod", "go.sum", "main.go")]
    version = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = PROGRAMS / f"franz-{version}"
    if program.exists():
        return program
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    download = ["go", "mod", "download"]
    try:
        subprocess.run(
            download,
            cwd=SOURCES,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the modules of franz-go cannot be fetched: the proxy does not answer")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"the modules of franz-go cannot be had: {failed.stderr.strip()}")
    with tempfile.TemporaryDirectory(dir=PROGRAMS) as scratch:
        new = Path(scratch) / "franz"
        build = ["go", "build", "-o", str(new), "."]
        subprocess.run(build, cwd=SOURCES, env=environment, check=True, timeout=BUILD_TIMEOUT_S)
        new.replace(program)
    return program
