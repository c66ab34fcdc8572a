"""Change the code in small ways and tell which changes no test notices (mutation testing, by mutmut).

    python -m tools.mutants core/offsets log/sync_mark.py --minutes 20 --digits 37

Each module is mutated function by function (`<` to `<=`, `and` to `or`, `0` to `1` ...), and the tests of its
room run against each change. Survivors are printed as differences. A survivor that means nothing (the changed
code does the same) is listed with its reason in `tests/mutants/equivalent.toml` and is left out of the count.

The work lives in `build/mutants`; a second run with the same arguments tries what the first one had no time
for. The exit code is 1 if less than `--wanted` per cent of the changes were caught.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/headgate")
EQUIVALENT = TOP / "tests/mutants/equivalent.toml"
WORK = TOP / "build/mutants"
NEEDED = ("src", "tests", "bench", "demo", "tools")

TESTS_OF_ROOM = {
    "api": ("tests/api", "tests/api_topics", "tests/wire"),
    "core": ("tests/core",),
    "log": ("tests/log",),
    "records": ("tests/records", "tests/core/offsets"),
    "server": ("tests/server",),
    "topics": ("tests/topics", "tests/api_topics"),
    "wire": ("tests/wire",),
}
"""The tests that have to notice changes of a room. Those of other rooms may notice too."""

WORDS_ARE_NOT_BEHAVIOUR = (r"^\s*logger\.", r"^\s*extra=", r"^\s*f?\"", r"^\s*assert ", r"^\s*raise ")
"""Lines that are left as they are: what is said to people, and checks for our own mistakes."""

CAUGHT = {"killed", "timeout", "segfault", "caught by type check"}


@dataclass(frozen=True, slots=True)
class Survivor:
    """A change that no test noticed."""

    name: str
    difference: str
    """As `diff -u` prints it."""

    @property
    def change(self) -> tuple[str, str]:
        """The lines taken out and put in, without the white space around them."""
        lines = self.difference.splitlines()[2:]

        def lines_with(sign: str) -> str:
            return "\n".join(line[1:].strip() for line in lines if line.startswith(sign))

        return lines_with("-"), lines_with("+")


def main() -> None:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="+", help="modules or folders below src/headgate, all of one room")
    parser.add_argument("--minutes", type=float, default=20, help="how long to try changes (default 20)")
    parser.add_argument(
        "--digits", default="0123456789", help="only changes whose number ends so (default: all)"
    )
    parser.add_argument(
        "--wanted", type=float, default=95, help="per cent of changes to be caught (default 95)"
    )
    told = parser.parse_args()
    rooms = {module.partition("/")[0] for module in told.modules}
    if len(rooms) > 1 or not rooms <= TESTS_OF_ROOM.keys():
        parser.error(f"modules of one of these rooms are needed: {', '.join(TESTS_OF_ROOM)}")
    for module in told.modules:
        if not (TOP / PACKAGE / module).exists():
            parser.error(f"{PACKAGE / module} does not exist")
    work = _lay_out(rooms.pop(), told.modules)
    _run(work, told.modules, told.digits, told.minutes)
    sys.exit(_tell(work, told.modules, told.wanted))


def _lay_out(room: str, modules: list[str]) -> Path:
    """A copy of the tree to be changed, with mutmut's settings for it."""
    work = WORK / room
    for name in NEEDED:
        shutil.copytree(
            TOP / name, work / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(TOP / name, work / name)
    lists = {
        "source_paths": ["src"],
        "only_mutate": [
            str(PACKAGE / (name if name.endswith(".py") else f"{name}/*.py")) for name in modules
        ],
        "do_not_mutate_patterns": list(WORDS_ARE_NOT_BEHAVIOUR),
        "pytest_add_cli_args": ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(TESTS_OF_ROOM[room]),
        "also_copy": [name for name in NEEDED if name not in ("src", "tests")] + ["README.md"],
    }
    text = "[mutmut]\n" + "".join(
        f"{name} =\n" + "".join(f"    {value}\n" for value in values) for name, values in lists.items()
    )
    (work / "setup.cfg").write_text(text)
    return work


def _run(work: Path, modules: list[str], digits: str, minutes: float) -> None:
    """Try changes until all were tried or the time is over; mutmut keeps what it found."""
    names = [
        f"headgate.{name.removesuffix('.py').replace('/', '.')}.*__mutmut_*{digit}"
        for name in modules
        for digit in digits
    ]
    untried = [] if digits == "0123456789" else names
    mutmut = subprocess.Popen([str(Path(sys.executable).with_name("mutmut")), "run", *untried], cwd=work)
    try:
        mutmut.wait(minutes * 60)
    except subprocess.TimeoutExpired:
        os.kill(mutmut.pid, signal.SIGINT)
        mutmut.wait()


def _tell(work: Path, modules: list[str], wanted: float) -> int:
    from mutmut.stats import status_by_exit_code  # where the settings are, which it reads when it is imported

    counts: Counter[str] = Counter()
    survivors = []
    known = {(entry["was"].strip(), entry["becomes"].strip()) for entry in equivalent_changes()}
    for meta in sorted((work / "mutants" / PACKAGE).rglob("*.meta")):
        module = str(meta.relative_to(work / "mutants" / PACKAGE))
        if not any(module.startswith(wish) for wish in modules):
            continue
        for name, exit_code in json.loads(meta.read_text())["exit_code_by_key"].items():
            status = status_by_exit_code[exit_code]
            if status in ("survived", "no tests", "suspicious"):
                survivor = Survivor(name, _difference(work, name))
                status = "equivalent" if survivor.change in known else status
                if status != "equivalent":
                    survivors.append(survivor)
            counts[status] += 1
    for survivor in survivors:
        print(f"\n{survivor.name}\n{survivor.difference}")
    caught = sum(counts[status] for status in CAUGHT)
    tried = caught + len(survivors)
    print("\n" + ", ".join(f"{status}: {count}" for status, count in counts.most_common()))
    if not tried:
        print("No change was tried; give it more minutes.")
        return 1
    share = 100 * caught / tried
    print(f"{caught} of {tried} changes were caught: {share:.1f} % ({wanted:g} wanted)")
    return int(share < wanted)


def _difference(work: Path, name: str) -> str:
    told = subprocess.run(
        [str(Path(sys.executable).with_name("mutmut")), "show", name],
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.partition("\n")[2]


def equivalent_changes() -> list[dict[str, str]]:
    """The entries of the list: `was`, `becomes`, `why`."""
    entries: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text()).get("change", [])
    return entries


if __name__ == "__main__":
    main()
