"""Compile the modules on the path of requests when the package is built, if there is a C compiler.

The modules are listed in pyproject.toml. HEADGATE_COMPILE=no disables compilation. With HEADGATE_COMPILE=yes
a failed compilation fails the build; otherwise the build prints a message and continues without: the package
is then the same, only slower. An editable installation is never compiled, because edits would have no effect.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILE = Path(__file__).with_name("compile_modules.py")


def missing_headers(include: Path) -> str | None:
    """Return what to do if Python's C headers are not in this directory. The compiler would tell only after a
    minute that they are missing, and not what to do.
    """
    header = include / "Python.h"
    if header.exists():
        return None
    return (
        f"Python's C headers are missing: there is no {header}. Debian and Ubuntu have them in python3-dev."
    )


def compile_into(out: Path, modules: list[str]) -> str | None:
    """Compile these modules of the package; return what went wrong."""
    command = [sys.executable, str(COMPILE), str(out), *modules]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return finished.stdout if finished.returncode else None


class CompileHook(BuildHookInterface[Any]):
    """Adds extension modules to a wheel."""

    _out: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the compiled files."""
        wish = os.environ.get("HEADGATE_COMPILE", "if possible")
        if wish not in ("yes", "no", "if possible"):
            raise ValueError(f"HEADGATE_COMPILE is yes or no, not {wish!r}")
        if version == "editable" or wish == "no":
            return
        self._out = tempfile.TemporaryDirectory(prefix="headgate-compiled-")
        out = Path(self._out.name)
        include = Path(sysconfig.get_path("include"))
        problem = missing_headers(include) or compile_into(out, self.config["compiled"])
        if problem is not None:
            self._out.cleanup()
            problem = f"headgate could not be compiled:\n{problem}"
            if wish == "yes":
                raise RuntimeError(problem)
            self.app.display_warning(f"{problem}\nIt is installed as it is, and is slower.")
            return
        compiled = [path for path in out.rglob("*") if path.is_file()]
        build_data["force_include"] |= {str(path): str(path.relative_to(out)) for path in compiled}
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files, which are in the wheel now."""
        if self._out is not None:
            self._out.cleanup()
