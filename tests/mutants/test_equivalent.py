"""The list of changes that mean nothing."""

from __future__ import annotations

from tools.mutants import PACKAGE, TOP, Survivor, equivalent_changes


def test_each_has_a_reason_and_is_about_code_that_is_there() -> None:
    """An entry whose code was changed since is of no use any more, and would hide a survivor."""
    for entry in equivalent_changes():
        source = (TOP / PACKAGE / entry["where"]).read_text()
        code = "\n".join(line.strip() for line in source.splitlines())
        assert entry["why"].strip(), entry
        assert entry["was"].strip() in code, f"stale: {entry['was']}"


DIFFERENCE = "--- a\n+++ a\n@@ -2,3 +2,3 @@\n     if x:\n-        return 1\n+        return 2\n"


def test_a_survivor_is_known_by_its_changed_lines() -> None:
    """What stands around a change, and how far it is indented, does not matter."""
    assert Survivor("m.x_f__mutmut_3", "m.py", DIFFERENCE).change == ("return 1", "return 2")


def test_a_survivor_is_reported_by_its_line() -> None:
    """Of lines that read the same the one is meant that is in the function, and nearest to the change."""
    function = "def f(x):\n    # why\n    if x:\n        return 1\n    if x > 1:\n        return 1\n"
    method = "class C:\n" + "".join(f"    {line}\n" for line in function.splitlines())
    source = f"{function}\n\n{method}"
    assert Survivor("m.x_f__mutmut_3", "m.py", DIFFERENCE).line_in(source) == 4
    assert Survivor("m.xǁCǁf__mutmut_3", "m.py", DIFFERENCE).line_in(source) == 13
