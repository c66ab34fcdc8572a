"""Whatever happens to the files of a stopped server, it serves all that was durable, or refuses part of it.

What `verify` says before is what happens. The table in docs/correctness.md is what comes out here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.damage.damages import ROWS, Damage, Target
from tests.damage.directories import Ends, build
from tests.damage.document import lines_in_document, lines_of, titles, titles_in_document
from tests.damage.observe import Seen, observe
from tests.damage.table import cells_of

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    """The directories. Not to be changed."""
    return build(tmp_path_factory.mktemp("ends"))


@pytest.fixture(scope="module")
def whole(ends: Ends, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What a server makes of them undamaged."""
    place = tmp_path_factory.mktemp("whole") / "data"
    shutil.copytree(ends.closed, place)
    return observe(place)


def test_a_directory_without_damage_is_served_whole(ends: Ends, whole: Seen, tmp_path: Path) -> None:
    """After a SIGKILL as after a clean stop: else the table would tell nothing."""
    shutil.copytree(ends.killed, tmp_path / "data")
    seen = observe(tmp_path / "data")
    assert seen.refused is None
    assert seen.records == whole.records
    assert seen.shards == whole.shards
    assert len(whole.shards) == 6
    assert not whole.shut
    assert not whole.logged
    assert {len(records) for records in whole.records.values()} == {49, 135, 147}


@pytest.mark.parametrize(("target", "damages"), ROWS, ids=titles())
def test_a_damage_comes_to_what_is_documented(
    ends: Ends, whole: Seen, target: Target, damages: dict[str, Damage], tmp_path: Path
) -> None:
    """Each cell of the table, tried out; `python -m tests.damage` rewrites the table."""
    assert lines_of(target, cells_of(ends, whole, target, damages, tmp_path)) == lines_in_document(target)


def test_the_document_has_every_file(ends: Ends) -> None:
    """And no other."""
    assert titles_in_document() == titles()
