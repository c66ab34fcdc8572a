"""The table of damages as it stands in the documentation."""

from __future__ import annotations

from pathlib import Path

from tests.damage.damages import ROWS, Target
from tests.damage.table import Cell

DOCUMENT = Path(__file__).parents[2] / "docs" / "correctness.md"
_BEGIN, _END = "<!-- damages: begin -->", "<!-- damages: end -->"
_HEADER = """| file | damage | after a clean stop | `verify` | after SIGKILL | `verify` |
|---|---|---|---|---|---|"""

Cells = dict[str, tuple[Cell | None, Cell | None]]
"""By damage: what became of it after a clean stop and after a SIGKILL."""


def lines_of(target: Target, cells: Cells) -> list[str]:
    """The lines of one file."""
    lines = []
    for damage, ends in cells.items():
        texts = [(cell.outcome, cell.verified) if cell is not None else ("no such file", "") for cell in ends]
        lines.append(f"| {target.title} | {damage} | {' | '.join(text for end in texts for text in end)} |")
    return lines


def lines_in_document(target: Target) -> list[str]:
    """The same as the document has them."""
    return [line for line in _table().splitlines() if line.startswith(f"| {target.title} |")]


def write(lines: list[str]) -> None:
    """Put the table into the document."""
    text = DOCUMENT.read_text()
    before, after = text.split(_BEGIN)[0], text.split(_END)[1]
    DOCUMENT.write_text("\n".join([before + _BEGIN, _HEADER, *lines, _END]) + after)


def titles_in_document() -> list[str]:
    """The files that the document's table has, in order."""
    rows = _table().splitlines()[2:]
    return list(dict.fromkeys(row.split(" | ")[0].removeprefix("| ") for row in rows))


def titles() -> list[str]:
    """Those that it should have."""
    return [target.title for target, _ in ROWS]


def _table() -> str:
    return DOCUMENT.read_text().split(_BEGIN)[1].split(_END)[0].strip()
