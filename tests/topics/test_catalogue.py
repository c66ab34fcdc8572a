"""The catalogue's log stays short: the current state is written again, and older records are removed."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.topics.disk import DATA, NOW, Disk

from headgate.domain.ids import TopicId, TopicName
from headgate.log.filesystem import Fault, PowerCut
from headgate.log.log import Log, LogSettings
from headgate.topics import catalogue as catalogue_module
from headgate.topics.catalogue import (
    Catalogue,
    CatalogueEntry,
    broker_configured,
    group_configured,
    leader_epoch_raised,
    partitions_added,
    producer_ids_reserved,
    topic_configured,
    topic_created,
    topic_deleted,
)

DIRECTORY = DATA / "catalogue"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set small limits."""
    monkeypatch.setattr(catalogue_module, "_FEWEST_TO_TIDY", 10)
    monkeypatch.setattr(catalogue_module, "_REWRITTEN_AT_ONCE", 3)
    monkeypatch.setattr(catalogue_module, "_FORMER_A_RECORD", 2)
    yield


def open_on(disk: Disk) -> Catalogue:
    """Open the catalogue as a start does, in segments of a few records."""
    disk.files.make_directory(DIRECTORY)
    disk.files.sync_directory(DATA)
    return Catalogue(Log.open(disk.files, DIRECTORY, LogSettings(segment_bytes=2000), clean=False))


def state_of(catalogue: Catalogue) -> Any:
    """Return the whole state of the catalogue."""
    return (
        sorted(
            (one.name, one.topic_id, one.partition_count, one.overrides, one.created_at, one.offsets_from)
            for one in catalogue.by_id.values()
        ),
        {name: one.topic_id for name, one in catalogue.topics.items()},
        catalogue.former_ids,
        catalogue.former_names,
        catalogue.group_overrides,
        catalogue.broker_overrides,
        catalogue.leader_epoch,
        catalogue._reserved_producer_ids,
    )


class Changes:
    """Random changes of every kind that are possible in the present state."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def one(self, catalogue: Catalogue) -> None:
        """Make one change. Raises OSError."""
        self._count += 1
        topics = list(catalogue.by_id)
        kinds = ["create", "create", "delete", "add", "set", "group", "broker", "epoch", "ids"]
        kind = self._random.choice(kinds)
        if kind == "create" or (not topics and kind in ("delete", "add", "set")):
            name = TopicName(f"topic-{self._random.randrange(8)}")
            if name not in catalogue.topics:
                offsets_from = [self._count, 0] if name in catalogue.former_names else None
                entry = CatalogueEntry(name, TopicId(self._random.randbytes(16)), 1, {}, NOW, offsets_from)
                catalogue.commit([topic_created(entry)], NOW)
        elif kind == "delete":
            catalogue.commit([topic_deleted(self._random.choice(topics))], NOW)
        elif kind == "add":
            catalogue.commit([partitions_added(self._random.choice(topics), self._count)], NOW)
        elif kind == "set":
            settings = {"retention.ms": str(self._count)} if self._count % 3 else {}
            catalogue.commit([topic_configured(self._random.choice(topics), settings)], NOW)
        elif kind == "group":
            settings = {"consumer.session.timeout.ms": str(self._count)} if self._count % 3 else {}
            catalogue.commit([group_configured(f"group-{self._random.randrange(4)}", settings)], NOW)
        elif kind == "broker":
            settings = {"log.retention.ms": str(self._count)} if self._count % 3 else {}
            catalogue.commit([broker_configured(self._random.choice(["", "1", "2", "3"]), settings)], NOW)
        elif kind == "epoch":
            catalogue.commit([leader_epoch_raised(catalogue.leader_epoch + 1)], NOW)
        else:
            catalogue.commit([producer_ids_reserved(catalogue._reserved_producer_ids + 1000)], NOW)


@pytest.mark.parametrize("seed", range(8))
def test_tidying_during_changes_keeps_the_state(seed: int) -> None:
    """With changes and restarts between any two steps nothing is lost, and the log stays short."""
    disk, changes = Disk(), Changes(seed)
    catalogue = open_on(disk)
    shortened = 0
    for number in range(400):
        changes.one(catalogue)
        before, expected = catalogue._log.log_start_offset, deepcopy(state_of(catalogue))
        catalogue.tidy(NOW)
        shortened += catalogue._log.log_start_offset > before
        assert state_of(catalogue) == expected
        if number % 37 == 0:
            if number % 2:
                catalogue.close()
            else:
                disk.files.crash()
            catalogue = open_on(disk)
            assert state_of(catalogue) == expected
    assert shortened > 3
    while catalogue.tidy(NOW):
        pass
    former = len(catalogue.former_ids) // 2 + 1
    standing = len(catalogue.topics) + len(catalogue.group_overrides) + former
    assert catalogue._log.log_end_offset - catalogue._log.log_start_offset <= 10 + 5 * standing
    assert catalogue._log.size_bytes < 200 * (10 + 6 * standing) + 4000


@pytest.mark.parametrize("torn_bytes", [0, 7])
def test_a_power_cut_at_any_step_of_tidying_up_loses_nothing(torn_bytes: int) -> None:
    """Answered changes are durable at every step, and the next start can tidy."""
    struck = 0
    for moment in range(200):
        disk, changes = Disk(), Changes(5)
        catalogue = open_on(disk)
        for _ in range(110):
            changes.one(catalogue)
        expected = state_of(catalogue)
        assert catalogue._end_offset > 40
        disk.files.cut_power_after(moment, torn_bytes=torn_bytes)
        try:
            while catalogue.tidy(NOW):
                pass
            is_done = True
        except PowerCut:
            struck, is_done = struck + 1, False
        disk.files.crash(random.Random(moment))
        again = open_on(disk)
        assert state_of(again) == expected, moment
        while again.tidy(NOW):
            pass
        assert state_of(again) == expected
        if is_done:
            break
    assert struck > 20


def test_tidying_restarts_after_a_disk_error() -> None:
    """The error is raised, and a failed write is repeated."""
    disk, changes = Disk(), Changes(3)
    catalogue = open_on(disk)
    for _ in range(110):
        changes.one(catalogue)
    expected = state_of(catalogue)
    assert catalogue.tidy(NOW)
    disk.files.inject(Fault(errno.ENOSPC, "pwrite", path_ends=".log"))
    with pytest.raises(OSError, match="No space"):
        catalogue.tidy(NOW)
    disk.files.heal()
    steps = 0
    while catalogue.tidy(NOW):
        steps += 1
    assert steps > 5
    assert catalogue._log.log_start_offset > 0
    disk.files.crash()
    assert state_of(open_on(disk)) == expected
