"""Whatever happens to the logs of a stopped server, `headgate log mend` makes it serve every whole batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.damage.damages import ROWS, SEGMENT, Damage, Target
from tests.damage.directories import Ends, build
from tests.damage.mending import check_mended
from tests.damage.observe import Seen, observe

pytestmark = pytest.mark.timeout(240)

LOGS = [row for row in ROWS if SEGMENT.keys() <= row[1].keys() and "catalogue" not in row[0].pattern]


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


@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.parametrize(("target", "damages"), LOGS, ids=[target.title for target, _ in LOGS])
def test_every_whole_batch_is_served_after_mending(
    ends: Ends, whole: Seen, target: Target, damages: dict[str, Damage], ending: str, tmp_path: Path
) -> None:
    """At its offset. The dry run foretells what is lost and changes nothing; a repetition finds nothing."""
    for number, (name, damage) in enumerate(damages.items()):
        check_mended(
            ends,
            ending,
            whole,
            (target, damage),
            tmp_path / str(number),
            is_foreign=name.startswith("swapped"),
            is_flip=name.startswith("a byte flipped"),
        )
