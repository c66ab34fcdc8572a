"""Change the code in small ways and tell which changes no test notices (mutation testing, by mutmut).

    python -m tools.mutants core/offsets log/sync_mark.py --minutes 20 --digits 37
    python -m tools.mutants log/recovery.py --tests tests/log/test_recovery.py tests/log/test_crashes.py

Each module is mutated function by function (`<` to `<=`, `and` to `or`, `0` to `1` ...). For each change,
the tests of the module's room that reach the changed function run until the first one fails. The program
prints the survivors, the changes after which all tests passed, as differences with file and line, and a table
with their number for each module. A survivor without effect (the changed code does the same) is listed with
its reason in `tests/mutants/equivalent.toml` and is not counted.

Each choice of modules and tests has a folder in `build/mutants`. A second call tries the remaining changes
and the survivors; caught changes are tried again only if their module has changed. The exit code is 1 if
less than `--wanted` per cent of the changes were caught, and 2 if none could be tried because the tests
fail without any change.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/headgate")
EQUIVALENT = TOP / "tests/mutants/equivalent.toml"
WORK = TOP / "build/mutants"
NEEDED = ("src", "tests", "bench", "demo", "tools")
MUTMUT = str(Path(sys.executable).with_name("mutmut"))

TESTS_OF_ROOM = {
    "api": ("tests/api", "tests/api_topics", "tests/wire"),
    "core": ("tests/core",),
    "log": ("tests/log",),
    "records": ("tests/records", "tests/core/offsets"),
    "history": ("tests/history",),
    "runtime": ("tests/runtime", "tests/server"),
    "server": ("tests/server",),
    "security": ("tests/security", "tests/server/test_access.py"),
    "topics": ("tests/topics", "tests/api_topics"),
    "wire": ("tests/wire",),
}
"""The tests that must fail after a change in a room. Tests of other rooms may fail too."""

WORDS_ARE_NOT_BEHAVIOUR = (r"^\s*logger\.", r"^\s*extra=", r"^\s*f?\"", r"^\s*assert ", r"^\s*raise ")
"""Lines that are not changed: messages for people, and assertions."""

SECONDS_FOR_A_TEST = 30
"""A change that makes a loop endless counts as caught after this processor time of a test."""

SECONDS_TO_WAIT = 600
"""A change that makes a test wait forever counts as caught after this time."""

SECONDS_TO_STOP = 20
"""Maximum time for mutmut to stop at the time limit; it is killed after that."""

CAUGHT = {"killed", "timeout", "segfault", "caught by type check"}
SURVIVED = {"survived", "no tests", "suspicious"}


@dataclass(frozen=True, slots=True)
class Survivor:
    """A change after which all tests passed."""

    name: str
    module: str
    """Path of its module below `src/headgate`."""
    difference: str
    """In the format of `diff -u`; line numbers count from the start of the function."""

    @property
    def change(self) -> tuple[str, str]:
        """Return the removed and the added lines, stripped."""
        lines = self.difference.splitlines()[2:]

        def lines_with(sign: str) -> str:
            return "\n".join(line[1:].strip() for line in lines if line.startswith(sign))

        return lines_with("-"), lines_with("+")

    def line_in(self, source: str) -> int:
        """Return the number of the changed line in its module's `source`; else the function's."""
        last, _, _ = self.name.rpartition(".")[2].rpartition("__mutmut_")
        *classes, function = last.removeprefix("x").replace("ǁ", " ").split()
        function = function if classes else function.removeprefix("_")
        for node in _functions(ast.parse(source), classes):
            if node.name == function:
                before = re.search(r"^@@ -(\d+)", self.difference, re.MULTILINE)
                near = node.lineno + int(before[1]) + 2 if before else node.lineno
                was = self.change[0].partition("\n")[0]
                places = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                text = source.splitlines()
                same = [number for number in places if text[number - 1].strip() == was]
                return min(same, key=lambda number: abs(number - near), default=node.lineno)
        return 1


def _functions(tree: ast.Module, classes: list[str]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    places: list[ast.Module | ast.ClassDef] = [tree]
    if classes:
        places = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == classes[0]]
    for place in places:
        yield from (node for node in place.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def main() -> None:
    """Run the program as in the module's docstring."""
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="+", help="modules or folders below src/headgate, all of one room")
    parser.add_argument("--minutes", type=float, default=20, help="how long to try changes (default 20)")
    parser.add_argument(
        "--digits", default="0123456789", help="only changes whose number ends so (default: all)"
    )
    parser.add_argument(
        "--wanted", type=float, default=95, help="per cent of changes to be caught (default 95)"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        help="the tests to run (default: all of the room); fewer are faster, and notice less",
    )
    parser.add_argument(
        "--children", type=int, default=os.cpu_count() or 2, help="how many changes to try at a time"
    )
    told = parser.parse_args()
    rooms = {module.partition("/")[0] for module in told.modules}
    if len(rooms) > 1 or not rooms <= TESTS_OF_ROOM.keys():
        parser.error(f"modules of one of these rooms are needed: {', '.join(TESTS_OF_ROOM)}")
    tests = told.tests or list(TESTS_OF_ROOM[rooms.pop()])
    for path in [str(PACKAGE / module) for module in told.modules] + tests:
        if not (TOP / path).exists():
            parser.error(f"{path} does not exist")
    work = _lay_out(told.modules, tests)
    _run(work, told.modules, told.digits, told.minutes, told.children)
    if not list((work / "mutants").glob("mutmut-stats.json")):
        print("No change was tried: the tests fail, or take too long, as the code is.")
        sys.exit(2)
    sys.exit(_tell(work, told.modules, told.digits, told.wanted))


def _lay_out(modules: list[str], tests: list[str]) -> Path:
    """Return a copy of the tree to be mutated, with mutmut's settings.

    Each choice has its own folder: mutmut neither mutates a module that it has copied before, nor learns
    which tests reach it.
    """
    choice = "\n".join(["modules", *sorted(modules), "tests", *tests])
    room = modules[0].partition("/")[0]
    work = WORK / f"{room}-{zlib.crc32(choice.encode()):08x}"
    for name in NEEDED:
        shutil.rmtree(work / name, ignore_errors=True)
        if name != "src":
            shutil.rmtree(work / "mutants" / name, ignore_errors=True)
        shutil.copytree(TOP / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(TOP / name, work / name)
    for path in (work / "mutants" / PACKAGE).rglob("*.py"):
        source = work / path.relative_to(work / "mutants")
        if not path.with_name(f"{path.name}.meta").exists() and path.read_bytes() != source.read_bytes():
            path.unlink()  # mutmut was stopped while it wrote this file
    lists = {
        "source_paths": ["src"],
        "only_mutate": [
            str(PACKAGE / (name if name.endswith(".py") else f"{name}/*.py")) for name in modules
        ],
        "do_not_mutate_patterns": list(WORDS_ARE_NOT_BEHAVIOUR),
        "pytest_add_cli_args": [
            *("-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
            f"--timeout={SECONDS_TO_WAIT}",
            f"--processor-seconds={SECONDS_FOR_A_TEST}",
            "--hypothesis-profile=mutants",
        ],
        "pytest_add_cli_args_test_selection": tests,
        "also_copy": [name for name in NEEDED if name not in ("src", "tests")] + ["README.md"],
    }
    text = f"[mutmut]\ntimeout_multiplier = 15\ntimeout_constant = {SECONDS_TO_WAIT / 15}\n" + "".join(
        f"{name} =\n" + "".join(f"    {value}\n" for value in values) for name, values in lists.items()
    )
    (work / "setup.cfg").write_text(text)
    return work


def _run(work: Path, modules: list[str], digits: str, minutes: float, children: int) -> None:
    """Try changes until all are tried or the time is over; mutmut stores the results."""
    names = _to_be_tried(work, modules, digits)
    if not names:
        return
    mutmut = subprocess.Popen(
        [MUTMUT, "run", "--max-children", str(children), *names], cwd=work, start_new_session=True
    )
    try:
        mutmut.wait(minutes * 60)
    except subprocess.TimeoutExpired:
        os.kill(mutmut.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            mutmut.wait(SECONDS_TO_STOP)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(mutmut.pid, signal.SIGKILL)
        mutmut.wait()


def _to_be_tried(work: Path, modules: list[str], digits: str) -> list[str]:
    """Return the changes to try, or patterns for modules that changed since they were mutated."""
    names = []
    for module in modules:
        for path in (
            [work / PACKAGE / module] if module.endswith(".py") else (work / PACKAGE / module).glob("*.py")
        ):
            mutated = work / "mutants" / path.relative_to(work)
            meta = mutated.with_name(f"{mutated.name}.meta")
            if meta.exists() and path.stat().st_mtime < mutated.stat().st_mtime:
                names += [
                    name
                    for name, exit_code in _exit_codes(meta).items()
                    if name[-1] in digits and _status(work, exit_code) not in CAUGHT
                ]
            else:
                dotted = ".".join(path.relative_to(work / "src").with_suffix("").parts)
                names += [f"{dotted}.*__mutmut_*{digit}" for digit in digits]
    return names


def _exit_codes(meta: Path) -> dict[str, int | None]:
    codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    return codes


def _status(work: Path, exit_code: int | None) -> str:
    with contextlib.chdir(work):  # mutmut reads its settings there when it is imported
        from mutmut.stats import status_by_exit_code
    return status_by_exit_code[exit_code]


def _tell(work: Path, modules: list[str], digits: str, wanted: float) -> int:
    """Print the survivors and the table; return the exit code."""
    known = {
        (entry["where"], entry["was"].strip(), entry["becomes"].strip()) for entry in equivalent_changes()
    }
    by_module: dict[str, Counter[str]] = {}
    for meta in sorted((work / "mutants" / PACKAGE).rglob("*.meta")):
        module = str(meta.relative_to(work / "mutants" / PACKAGE)).removesuffix(".meta")
        if not any(module == wish or fnmatch(module, f"{wish}/*.py") for wish in modules):
            continue
        counts = by_module.setdefault(module, Counter())
        for name, exit_code in _exit_codes(meta).items():
            if name[-1] not in digits:
                continue
            status = _status(work, exit_code)
            if status in SURVIVED:
                survivor = Survivor(name, module, _difference(work, name, PACKAGE / module))
                if (module, *survivor.change) in known:
                    counts["equivalent"] += 1
                    continue
                line = survivor.line_in((work / PACKAGE / module).read_text())
                print(f"\n{PACKAGE / module}:{line} {status}: {name}\n{survivor.difference}")
            counts["caught" if status in CAUGHT else "survived" if status in SURVIVED else "not tried"] += 1
    return _table(by_module, wanted)


def _table(by_module: dict[str, Counter[str]], wanted: float) -> int:
    columns = ("caught", "survived", "equivalent", "not tried")
    total: Counter[str] = sum(by_module.values(), Counter())
    print(f"\n{'module':36}" + "".join(f"{name:>11}" for name in columns) + "   per cent")
    for module, counts in [*by_module.items(), ("all", total)]:
        tried = counts["caught"] + counts["survived"]
        share = f"{100 * counts['caught'] / tried:11.1f}" if tried else f"{'-':>11}"
        print(f"{module:36}" + "".join(f"{counts[name]:11}" for name in columns) + share)
    tried = total["caught"] + total["survived"]
    if not tried:
        print("No change was tried; give it more minutes.")
        return 1
    share_of_all = 100 * total["caught"] / tried
    print(f"{total['caught']} of {tried} changes were caught: {share_of_all:.1f} % ({wanted:g} wanted)")
    return int(share_of_all < wanted)


def _difference(work: Path, name: str, path: Path) -> str:
    with contextlib.chdir(work):
        from mutmut.mutation.diff_apply import get_diff_for_mutant

        return str(get_diff_for_mutant(name, path=path))


def equivalent_changes() -> list[dict[str, str]]:
    """Return the entries of the list: `where`, `was`, `becomes`, `why`."""
    entries: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text()).get("change", [])
    return entries


if __name__ == "__main__":
    main()
