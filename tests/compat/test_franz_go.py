"""franz-go, the Go client: transactions, groups of all three protocols, and its administrator."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.compat.support.franz_go import BUILD_TIMEOUT_S, DOWNLOAD_TIMEOUT_S, built, needs_go

RUN_TIMEOUT_S = 55
RECORDS, PARTITIONS = 12, 3


@needs_go
@pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + BUILD_TIMEOUT_S + RUN_TIMEOUT_S + 10)
def test_franz_go_writes_in_transactions_and_reads_in_groups_of_every_protocol(
    bootstrap: str, name: str
) -> None:
    """Its groups get what a transaction committed and nothing of what another one aborted."""
    finished = subprocess.run(
        [str(built()), bootstrap, name], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert finished.returncode == 0, finished.stderr
    committed = [f"kept-{number:02}" for number in range(RECORDS)]
    markers = 2 * PARTITIONS
    assert json.loads(finished.stdout) == {
        "classic": committed,
        "consumer": committed,
        "share": committed,
        "members": 2,
        "owned": PARTITIONS,
        "lag": RECORDS + markers,  # it commits the position after the last record that it was given
        "open": [name, name],
        "start": 1,
    }
