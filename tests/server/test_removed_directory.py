"""A data directory that is removed while the server runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.clients import commit
from tests.server.raw import RawConnection
from tests.waiting import wait_until

from headgate.broker import run
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headgate.wire.messages.offset_commit import OffsetCommitResponse
from headgate.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


@pytest.mark.parametrize(
    ("name", "is_removed"), [("t-0", True), ("__consumer_offsets-*", False), ("catalogue", True)]
)
def test_a_server_stops_when_a_log_is_taken_away(tmp_path: Path, name: str, is_removed: bool) -> None:
    """Later acknowledged writes would be missing at the next start, which then recovers."""
    data = tmp_path / "data"
    with run(data_dir=data) as broker:
        connection = RawConnection(broker.port)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        connection.request(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
        batch = encode_batch([Record(None, b"v")])
        partition = PartitionProduceData(index=0, records=bytes(batch))
        produce = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
        connection.request(produce, 9, ProduceResponse)
        connection.request(commit(1, [0]), 8, OffsetCommitResponse)
        connection.socket.close()
        for directory in [one for one in data.glob(name) if list(one.glob("*.log"))]:
            directory.rename(tmp_path / "elsewhere")
            if is_removed:
                shutil.rmtree(tmp_path / "elsewhere")
        process = broker._process
        assert process is not None
        wait_until(lambda: process.poll() is not None, "it ends", 20)
        assert process.returncode == 1
    said = broker.log_path.read_text()
    assert said.count("ERROR a log was removed or replaced") == 1
    assert "Traceback" not in said
    assert not (data / "clean-shutdown").exists()


@pytest.mark.parametrize("what", ["data", "data/.lock"])
def test_a_server_stops_when_its_directory_is_taken_away(tmp_path: Path, what: str) -> None:
    """Acknowledged writes would be lost, and without the lock another server could write to the directory."""
    with run(data_dir=tmp_path / "data") as broker:
        (tmp_path / what).rename(tmp_path / "elsewhere")
        process = broker._process
        assert process is not None
        wait_until(lambda: process.poll() is not None, "it ends", 20)
        assert process.returncode == 1
    said = broker.log_path.read_text()
    assert said.count("ERROR the data directory was removed or replaced") == 1
    assert said.splitlines()[-1].startswith("headgate: stopped: ")
    assert "Traceback" not in said


MOVED_WHEN_LOADED = """
import os, sys
from headgate.cli import app
from headgate.server import process

start = process._start_unless_stopped

async def start_and_move(node, stop):
    started = await start(node, stop)
    os.rename(sys.argv[1], sys.argv[1] + "-elsewhere")
    return started

process._start_unless_stopped = start_and_move
app(["serve", "--data-dir", sys.argv[1], "--listen", "127.0.0.1:0"])
"""


def test_a_server_stops_when_its_directory_is_taken_away_during_the_start(tmp_path: Path) -> None:
    """Between its lock and the line `ready`."""
    command = [sys.executable, "-c", MOVED_WHEN_LOADED, str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("ERROR the data directory was removed or replaced") == 1
    assert "Traceback" not in ended.stderr
