"""What the documents and the CI's script name exists, and git tracks nothing at the top that nobody knows."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headgate"
TOPS = (ROOT, SOURCE, ROOT / "tests", ROOT / "src")
"""Paths in documents are relative to one of these."""
PAGES = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
FOLDERS_AT_THE_TOP = {".ci", "bench", "demo", "docs", "ops", "src", "tests", "tools"}
FILES_AT_THE_TOP = {
    *(".dockerignore", ".gitignore", "Dockerfile", "LICENSE", "Makefile", "pyproject.toml"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"),
}
ROOMS = {each.name for top in TOPS for each in top.iterdir() if each.is_dir()} - {"build"}
OF_A_READER = {"test_orders.py"}
"""Files that the examples ask the reader to write."""


def sections(page: Path) -> Iterator[str]:
    """Yield the text of each section, without blocks of code."""
    yield from re.split(
        r"^#", re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S), flags=re.M
    )


def is_a_path(word: str) -> bool:
    """Tell whether a word in code marks names a module, a test or a folder of the repository."""
    if word in OF_A_READER or re.search(r"NAME|kNN_|<", word):
        return False
    return word.endswith(".py") or (word.partition("/")[0] in ROOMS and "/" in word)


def places(word: str, named_before: list[Path]) -> list[Path]:
    """Return where it is: relative to a top, or to a folder that the section has named before."""
    folders = [*TOPS, *named_before, *(folder.parent for folder in named_before)]
    return [place for folder in folders for place in folder.glob(word.rstrip("/"))]


def missing(section: str) -> Iterator[str]:
    """Yield the paths in code marks that do not exist."""
    named: list[Path] = []
    for code in re.findall(r"`([^`]+)`", section):
        for word in re.findall(r"[^\s,()]+", code.partition("::")[0]):
            if re.fullmatch(r"[\w.*][\w./*]*", word) and is_a_path(word):
                found = places(word, named)
                named += [place if place.is_dir() else place.parent for place in found[:1]]
                if not found:
                    yield word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_tests_in_code_marks_exist(page: Path) -> None:
    """Relative to the repository, `src/headgate`, `tests`, or a folder that the section has named."""
    assert [word for section in sections(page) for word in missing(section)] == []


def targets_named() -> list[str]:
    """Return the targets of make that the CI's script, the documents and their blocks of code name."""
    script = re.sub(r"^\s*#.*", "", (ROOT / ".ci/run").read_text(), flags=re.M)
    found = set(re.findall(r"\bmake ([\w./-]+)|^run ([\w./-]+)", script, re.M))
    found |= {
        (name, "")
        for page in PAGES
        for name in re.findall(r"(?:`|^ *)make ([\w./-]+)", page.read_text(), re.M)
    }
    return sorted({one or other for one, other in found})


@pytest.mark.parametrize("target", targets_named())
def test_targets_of_make_exist(target: str) -> None:
    """The Makefile has a rule for each, and everything that the rule needs."""
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_git_tracks_at_the_top_what_is_known() -> None:
    """A commit of everything in the directory takes copies and results along."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = done.stdout.rstrip("\0").split("\0")
    assert {path for path in tracked if "/" not in path} == FILES_AT_THE_TOP
    assert {path.partition("/")[0] for path in tracked if "/" in path} == FOLDERS_AT_THE_TOP
