"""Long work shows a progress bar on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

import headgate
from headgate.admin import Admin, TopicPartition

SEVERAL, ONE = ["g0", "g1", "g2"], ["alone"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--history"], "reading the history"),
        (["--offsets-as-of", "2030-01-01T00:00:00Z"], "reading the history"),
        (["--undo"], "planning"),
        (["--undo", "--execute"], "restoring"),
    ],
)
def test_the_history_of_several_groups_shows_how_far_it_is(words: list[str], text: str) -> None:
    """The bar is on standard error. One group needs none."""
    with headgate.run() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        for group_id in SEVERAL + ONE:
            for offset in (3, 0):
                admin.alter_offsets(group_id, {TopicPartition("t", 0): offset})
        for groups in (SEVERAL, ONE):
            shown, printed = on_terminal(broker.bootstrap_servers, words, groups)
            assert (text in shown) == (len(groups) > 1), shown
            assert text not in printed
            assert all(group_id in printed for group_id in groups), printed


def on_terminal(servers: str, words: list[str], groups: list[str]) -> tuple[str, str]:
    """What the command shows on a terminal that is its standard error, and what it prints."""
    command = [sys.executable, "-m", "headgate", "consumer-groups", "--bootstrap-server", servers, *words]
    command += ["--all-topics"] if "--undo" in words else []
    command += [word for group_id in groups for word in ("--group", group_id)]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert running.stdout is not None
        printed = running.stdout.read()
    os.close(ours)
    assert running.returncode == 0, shown
    return shown.decode(), printed
