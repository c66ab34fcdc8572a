"""The allocator of a server: memory that a fetch reads into is used again, not taken from the system anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS_OF_READS = """
import resource
from headgate.server.memory import give_back_large_blocks

give_back_large_blocks()
def read():
    return [bytes(1024 * 1024 + 61) for _ in range(4)]  # a fetch of four partitions
read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    read()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library's settings are glibc's")
def test_blocks_of_a_fetch_are_used_again() -> None:
    """Each new block of a megabyte is 256 pages."""
    command = [sys.executable, "-c", FAULTS_OF_READS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100 * 4 * 256 / 10
