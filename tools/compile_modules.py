"""Compile modules of the package into extension modules with mypyc, from the same source.

    python tools/compile_modules.py OUT headgate/server/turn.py ...

`OUT` gets the compiled files, in the folders of the package. mypyc, setuptools and a C compiler are required.
On an error it exits with the message of mypyc or the compiler.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

SOURCE = Path(__file__).resolve().parent.parent / "src"
NEEDS_NO_PROMISE = "-Werror"
"""A compiler option of mypyc that is removed: newer compilers have warnings that older ones do not have."""
NO_WARNINGS = "-Wno-all"
"""Python's own options ask for all warnings: to look for them takes longer than to compile the code."""
OPTIMIZATION = "1"
"""The C compiler's. With 3 modules are not faster, but the compilation takes half as long again."""


def compile_modules(out: Path, modules: list[str]) -> None:
    """Compile modules into `out`."""
    out = out.resolve()
    os.chdir(SOURCE)  # modules are named by their path in the package
    with tempfile.TemporaryDirectory(prefix="headgate-compile-") as scratch:
        extensions = mypycify(
            ["--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={scratch}/types", *modules],
            target_dir=f"{scratch}/c",
            group_name="headgate",
            debug_level="0",
            opt_level=OPTIMIZATION,
        )
        for extension in extensions:
            if NEEDS_NO_PROMISE in extension.extra_compile_args:
                extension.extra_compile_args.remove(NEEDS_NO_PROMISE)
            if os.name == "posix":
                extension.extra_compile_args.append(NO_WARNINGS)
        setup(
            name="headgate",
            packages=[],
            ext_modules=extensions,
            script_args=["--quiet", "build_ext", f"--build-lib={out}", f"--build-temp={scratch}/objects"],
        )


if __name__ == "__main__":
    compile_modules(Path(sys.argv[1]), sys.argv[2:])
