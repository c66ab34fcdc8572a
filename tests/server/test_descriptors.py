"""Connections and logs share the file descriptors of the process."""

from __future__ import annotations

import resource

import pytest

from headgate.server.connection_limits import ConnectionLimits
from headgate.server.descriptors import most_open_logs

BRIEFLY_OPEN = 0.1
"""Share of all descriptors, up to a thousand, that files may need which are open for a moment only."""


@pytest.mark.parametrize("most", [128, 256, 1024, 4096, 65_536])
def test_logs_have_descriptors_when_no_more_connections_are_accepted(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log closes its files when another one needs the descriptor; a connection that has it does not."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (most, most))
    limits = ConnectionLimits()
    accepted = sum(map(limits.leaves_descriptors, range(most)))
    assert accepted >= most // 2
    assert accepted + most_open_logs() <= most - min(most, 1000) * BRIEFLY_OPEN
