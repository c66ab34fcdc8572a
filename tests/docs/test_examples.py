"""Every Python example of the documents is correct for `mypy --strict`, as a reader's program would be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
NO_TYPES = (
    "aiokafka",
    "confluent_kafka",
    "deltalake",
    "kafka",
    "matplotlib",
    "pandas",
    "pyarrow",
    "pyspark",
)
"""Libraries of others, whose types are not this project's."""

IGNORED = "ignore_missing_imports = True\nfollow_imports = skip\n"

CONTINUED = """\
import headgate.spark
from headgate.spark.transforms import commits_per_minute, end_offsets_over_time, lag_over_time
from pyspark.sql import DataFrame, SparkSession

spark: SparkSession
commits: DataFrame
target: str
"""
"""What an example of Spark has from those before it, if it does not make a session itself."""


def examples() -> dict[str, str]:
    """Return the programs by a name that is a module's."""
    return {
        f"{page.stem.lower().replace('-', '_')}_{number}": in_full(code)
        for page in PAGES
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)
    }


def in_full(code: str) -> str:
    """Return an example with what comes before it."""
    return code if "SparkSession" in code or "spark" not in code else CONTINUED + code


@pytest.mark.timeout(300)
def test_every_example_has_correct_types(tmp_path: Path) -> None:
    """In one run of mypy, with this project's own types."""
    found = examples()
    assert len(found) > 15
    for name, code in found.items():
        (tmp_path / f"{name}.py").write_text(code)
    config = tmp_path / "mypy.ini"
    ignored = "".join(f"[mypy-{name}.*]\n{IGNORED}" for name in NO_TYPES)
    config.write_text(f"[mypy]\nstrict = True\nfollow_imports = silent\n{ignored}")
    cache = ROOT / ".mypy_cache" / "of_examples"
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(cache)]
    done = subprocess.run(
        [*command, *(f"{name}.py" for name in found)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
