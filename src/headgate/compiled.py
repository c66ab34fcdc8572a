"""Whether this installation has compiled modules: the same source, compiled in the path of requests.

They are compiled if a C compiler was available at the build. Without them everything works, but slower.
"""

from __future__ import annotations

import platform
from importlib.util import find_spec


def is_compiled() -> bool:
    """Return whether modules are compiled, without importing any of them."""
    spec = find_spec("headgate.server.turn")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def build_text() -> str:
    """Return the interpreter and whether modules are compiled, as text: `CPython 3.11.7, compiled`."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {'compiled' if is_compiled() else 'not compiled'}"
