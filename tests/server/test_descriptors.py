"""Connections and logs share the file descriptors of the process."""

from __future__ import annotations

import resource

import pytest

from headgate.server.connection_limits import ConnectionLimits
from headgate.server.descriptors import most_connections, most_open_logs

BRIEFLY_OPEN = 0.1
"""Share of all descriptors, up to a thousand, that files may need which are open for a moment only."""
OF_THE_PROCESS = 26


class _Connection:
    def take_place(self) -> None:
        """Never called: `max.connections` is not reached."""


@pytest.mark.parametrize("are_logs_open", [True, False])
@pytest.mark.parametrize("most", [64, 128, 256, 1024, 4096, 65_536])
def test_connections_and_logs_have_their_shares_whoever_comes_first(
    most: int, are_logs_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log closes its files when another one needs the descriptor; a connection that has it does not."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (most, most))
    monkeypatch.setattr("headgate.server.descriptors._open_now", lambda: OF_THE_PROCESS)
    limits = ConnectionLimits()
    accepted = 0
    first = OF_THE_PROCESS + (most_open_logs() if are_logs_open else 0)
    for descriptor in range(first, most):
        limits.opened(_Connection())
        if not limits.leaves_descriptors(descriptor):
            break
        accepted += 1
    assert accepted == most_connections() >= (most // 2 - OF_THE_PROCESS)
    assert accepted + most_open_logs() + OF_THE_PROCESS <= most - min(most, 1000) * BRIEFLY_OPEN
