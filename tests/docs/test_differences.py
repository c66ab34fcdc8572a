"""The page of differences from Kafka has every difference that the comparison with Kafka accepts."""

from __future__ import annotations

import re
from pathlib import Path

from tests.differential.accepted import ACCEPTED
from tests.differential.lives.playing import ACCEPTED_IN_LIVES

PAGE = Path(__file__).parents[2] / "docs/differences.md"


def test_every_accepted_difference_is_on_the_page() -> None:
    """Under its name: the words in bold with which an entry of the page begins."""
    named = re.findall(r"^\* \*\*(.+?)\.\*\* ", PAGE.read_text().replace("\n  ", " "), re.MULTILINE)
    assert len(named) == len(set(named))
    missing = {one.difference for one in (*ACCEPTED, *ACCEPTED_IN_LIVES)} - set(named)
    assert not missing, f"describe these in {PAGE.name}, as `* **NAME.** ...`"
