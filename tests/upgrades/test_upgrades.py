"""Directories that released versions wrote are opened, and those of newer versions are refused."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.upgrades.life import HERE, ORDERS, SETTINGS, seen

import headgate
from headgate.domain.ids import Millis
from headgate.inspect.verify import verify
from headgate.log.filesystem import OsFileSystem
from headgate.topics.catalogue import NEWEST_RECORD_VERSION
from headgate.topics.catalogue_opening import open_catalogue

RELEASED = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("headgate-*.tar.xz"))


def unpacked(release: str, home: Path) -> Path:
    """Unpack the directory that a version wrote."""
    with tarfile.open(HERE / f"{release}.tar.xz") as archive:
        archive.extractall(home, filter="data")
    return home / "data"


def test_there_is_a_directory_of_this_version_too() -> None:
    """A release adds its own: `python -m tests.upgrades.life`."""
    assert f"headgate-{headgate.__version__}" in RELEASED


@pytest.mark.parametrize("release", RELEASED)
def test_a_directory_of_a_released_version_is_opened(release: str, tmp_path: Path) -> None:
    """Clients see what they saw then, and go on; the check finds no damage before and after."""
    data = unpacked(release, tmp_path)
    assert [str(one) for one in verify(data).findings.listed] == []
    expected = json.loads((HERE / f"{release}.json").read_text())
    with headgate.run(SETTINGS, data_dir=data) as broker:
        found = json.loads(json.dumps(seen(broker.bootstrap_servers)))
        assert found == expected
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(ORDERS, b"next", partition=0)
        assert producer.flush(20) == 0
        log = broker.log_path.read_text()
    assert "last_stop=clean" in log and " ERROR " not in log, log
    assert [str(one) for one in verify(data).findings.listed] == []


@pytest.mark.parametrize("release", RELEASED)
def test_a_directory_of_a_newer_version_is_refused(release: str, tmp_path: Path) -> None:
    """The message says why; nothing is changed, so the newer version still reads it."""
    data = unpacked(release, tmp_path)
    catalogue = open_catalogue(OsFileSystem(), data, 0)
    catalogue.commit([{"v": NEWEST_RECORD_VERSION + 1, "type": "of the future"}], Millis(0))
    catalogue.close()
    (data / "clean-shutdown").unlink()
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    with pytest.raises(headgate.BrokerFailed, match="was written by a newer one"):
        headgate.run(SETTINGS, data_dir=data).__enter__()
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
