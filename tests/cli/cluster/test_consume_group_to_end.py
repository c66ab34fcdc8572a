"""`headgate consume --group --to-end` ends when the group has read what there was at the start."""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka import Consumer
from tests.cli.cluster.conftest import Headgate
from tests.waiting import wait_until

from headgate.admin import Admin

pytestmark = pytest.mark.timeout(90)


def committed(bootstrap_servers: str, group: str) -> dict[int, int]:
    """Return the committed offset of each partition that has one."""
    with Admin(bootstrap_servers) as admin:
        return {where.partition: one.offset for where, one in admin.committed_offsets(group).items()}


def test_a_group_reads_to_the_end_and_commits_it(
    headgate: Headgate, name: str, bootstrap_servers: str
) -> None:
    """Of all partitions, also those without records; the next run has nothing to read, and ends, too."""
    headgate("topics", "--create", "--topic", name, "--partitions", "3")
    headgate("produce", "--topic", name, stdin="".join(f"{number}\n" for number in range(6)))
    words = ("consume", "--topic", name, "--group", name, "--from-beginning", "--to-end")
    done = headgate(*words)
    assert (done.exit_code, sorted(done.stdout.split())) == (0, list("012345")), done.stderr
    assert sum(committed(bootstrap_servers, name).values()) == 6
    again = headgate(*words)
    assert (again.exit_code, again.stdout) == (0, ""), again.stderr


def test_a_new_group_that_begins_at_the_end_is_there_at_once(headgate: Headgate, name: str) -> None:
    """Without --from-beginning it has nothing to read."""
    headgate("produce", "--topic", name, stdin="one\n")
    done = headgate("consume", "--topic", name, "--group", name, "--to-end")
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr


def test_records_behind_the_end_are_neither_printed_nor_committed(
    name: str, headgate: Headgate, bootstrap_servers: str
) -> None:
    """Those that come after the start of the command are left to the next one, in the same fetch, too."""
    headgate("topics", "--create", "--topic", name, "--partitions", "1")
    headgate("produce", "--topic", name, stdin="one\n")
    holder = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": name, "group.protocol": "consumer"}
    )
    holder.subscribe([name])
    wait_until(lambda: holder.poll(0.1) is None and bool(holder.assignment()), "the holder has the partition")
    words = ["--bootstrap-server", bootstrap_servers, "--topic", name, "--group", name]
    with subprocess.Popen(
        [sys.executable, "-m", "headgate", "consume", *words, "--from-beginning", "--to-end"],
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        with Admin(bootstrap_servers) as admin:

            def has_two_members() -> bool:
                described = admin.describe_group(name)
                return described is not None and len(described.members) == 2

            wait_until(has_two_members, "the command has joined, after it asked for the end")
            headgate("produce", "--topic", name, stdin="two\nthree\n")
            assert admin.committed_offsets(name) == {}
        holder.close()  # without a commit: it began behind the record
        printed, _ = command.communicate(timeout=60)
    assert (command.returncode, printed) == (0, "one\n")
    assert committed(bootstrap_servers, name) == {0: 1}
    rest = headgate("consume", "--topic", name, "--group", name, "--to-end")
    assert rest.stdout == "two\nthree\n"


def test_partitions_of_other_members_are_waited_for(
    name: str, headgate: Headgate, bootstrap_servers: str
) -> None:
    """The command ends when the others have committed the end: nothing that was there is left unread."""
    headgate("topics", "--create", "--topic", name, "--partitions", "1")
    headgate("produce", "--topic", name, stdin="one\n")
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": name, "group.protocol": "consumer"}
    other = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    other.subscribe([name])
    wait_until(lambda: other.poll(0.1) is not None, "the other member has read the record")
    words = ["--bootstrap-server", bootstrap_servers, "--topic", name, "--group", name]
    with subprocess.Popen(
        [sys.executable, "-m", "headgate", "consume", *words, "--from-beginning", "--to-end"],
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(4)
        other.commit(asynchronous=False)
        assert command.wait(30) == 0
        assert command.stdout is not None and command.stdout.read() == ""
    other.close()
