"""Whether this installation has compiled modules: the same source, compiled where requests pass through.

It has them if there was a C compiler when it was built. It does the same without, more slowly.
"""

from __future__ import annotations

import platform
from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether modules are compiled; asked without loading any of them."""
    spec = find_spec("headgate.server.turn")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def build_text() -> str:
    """The interpreter and whether modules are compiled, for people: `CPython 3.11.7, compiled`."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {'compiled' if is_compiled() else 'not compiled'}"
