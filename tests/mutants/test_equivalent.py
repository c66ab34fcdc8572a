"""The list of changes that mean nothing."""

from __future__ import annotations

from tools.mutants import PACKAGE, TOP, Survivor, equivalent_changes


def test_each_has_a_reason_and_is_about_code_that_is_there() -> None:
    """An entry whose code was changed since is of no use any more, and would hide a survivor."""
    code = "\n".join(
        line.strip()
        for file in sorted((TOP / PACKAGE).rglob("*.py"))
        for line in file.read_text().splitlines()
    )
    for entry in equivalent_changes():
        assert entry["why"].strip(), entry
        assert entry["was"].strip() in code, f"stale: {entry['was']}"


def test_a_survivor_is_known_by_its_changed_lines() -> None:
    """What stands around a change, and how far it is indented, does not matter."""
    survivor = Survivor(
        "a", "--- a\n+++ a\n@@ -1,3 +1,3 @@\n     if x:\n-        return 1\n+        return 2\n"
    )
    assert survivor.change == ("return 1", "return 2")
