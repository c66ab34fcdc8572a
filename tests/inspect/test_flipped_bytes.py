"""A changed byte is found, wherever in the directory it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.inspect.damage import CATALOGUE, FIELDS, FIRST, LAST, MIDDLE, batch_positions, flip
from tests.inspect.support import FLIGHTS, OFFSETS, errors, notes


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST, CATALOGUE])
def test_a_flipped_byte_in_a_batch_is_found_there(data_dir: Path, name: str, field: str, which: str) -> None:
    """In every field of a batch, in every segment, also in fields that no checksum covers."""
    positions = batch_positions(data_dir / name)
    position = {"first": positions[0], "middle": positions[len(positions) // 2], "last": positions[-1]}[which]
    flip(data_dir / name, position + FIELDS[field])
    found = [error for error in errors(data_dir) if error.file == name]
    assert found
    following = [each for each in positions if each > position]
    # An offset that is too large is found at the next batch.
    assert found[0].position in (position, *following[:1], None)


@pytest.mark.parametrize(
    "name",
    [
        f"{FLIGHTS}/{99:020d}.index",
        f"{FLIGHTS}/{195:020d}.index",
        f"{FLIGHTS}/{99:020d}.timeindex",
        f"{FLIGHTS}/{195:020d}.timeindex",
        f"{FLIGHTS}/leader-epoch-checkpoint",
        f"{FLIGHTS}/producers.snapshot",
        f"{FLIGHTS}/headgate.checkpoint",
        f"{FLIGHTS}/headgate.synced",
        f"{OFFSETS}/shard.checkpoint",
        "clean-shutdown",
    ],
)
def test_a_flipped_byte_in_another_file_is_found(data_dir: Path, name: str) -> None:
    """In indexes, snapshots and markers, every changed byte causes an error that names the file."""
    path = data_dir / name
    whole = path.read_bytes()
    chance = random.Random(name)
    for at in sorted(chance.sample(range(len(whole)), min(len(whole), 14))):
        flip(path, at, 1 << chance.randrange(8))
        found = errors(data_dir)
        assert found, f"byte {at}"
        assert not [error for error in found if error.next_step.startswith("Nothing")], f"byte {at}"
        # Wrong leader epochs are found in the batches that disagree with them.
        assert name in {error.file for error in found} or "leader-epoch-checkpoint" in found[0].what
        path.write_bytes(whole)
    assert errors(data_dir) == []


@pytest.mark.parametrize("log", [FLIGHTS, "catalogue"])
def test_a_damaged_sync_mark_is_to_be_removed(data_dir: Path, log: str) -> None:
    """So that an error has a step that ends it; a start writes it again only when the log is used."""
    mark = data_dir / log / "headgate.synced"
    flip(mark, 30)
    (error,) = errors(data_dir)
    assert error.next_step.endswith("then remove the file, or run `headgate log mend`.")
    mark.unlink()
    assert errors(data_dir) == []


def test_an_invalid_cluster_id_is_found(data_dir: Path) -> None:
    """With a malformed id the server does not start. A missing id is written again."""
    path = data_dir / "meta.properties"
    path.write_bytes(path.read_bytes() + b"\xff\x80")  # the server reads the line of the id, and no other
    assert errors(data_dir) == []
    path.write_text("version=1\ncluster.id=short\n")
    assert [error.file for error in errors(data_dir)] == ["meta.properties"]
    path.unlink()
    assert errors(data_dir) == []
    (note,) = [note for note in notes(data_dir) if note.file == "meta.properties"]
    assert "the next start writes the file again" in note.next_step
