"""Print the oldest version of each dependency that pyproject.toml allows, as constraints for pip.

    python tools/oldest_versions.py > build/oldest.txt
    pip install --constraint build/oldest.txt .

`make test-oldest` runs tests with them, so that a lower bound is a version that works.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def oldest_versions(project: Path = PROJECT) -> list[str]:
    """Return `name==version` for each dependency of the package without extras. Raises ValueError for one
    without a lower bound.
    """
    constraints = []
    for dependency in tomllib.loads(project.read_text())["project"]["dependencies"]:
        bound = re.match(r"([\w.-]+)>=([\w.]+)", dependency)
        if bound is None:
            raise ValueError(f"{dependency}: a lower bound is expected, as in numpy>=1.26")
        constraints.append(f"{bound[1]}=={bound[2]}")
    return constraints


if __name__ == "__main__":
    print("\n".join(oldest_versions()))
