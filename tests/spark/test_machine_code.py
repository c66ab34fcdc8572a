"""Machine code is compiled and kept; whatever is wrong with numba or its files, records are read."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.support import numbered, write_segment

from headgate.log import machine_code

needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason="numba is not installed: pip install '.[spark-fast]'"
)

DOUBLE = "def double(numbers, out):\n    for at in range(len(numbers)):\n        out[at] = 2 * numbers[at]\n"

READ = """
import sys
from headgate.log import machine_code, record_kernel
from headgate.spark.options import parse
from headgate.spark.source import RECORDS_VIEW, ViewReader
reader = ViewReader(RECORDS_VIEW, parse({"path": sys.argv[1], "topic": "flights"}))
tasks = reader.partitions()
assert "numba" not in sys.modules, "a plan does not wait for numba"
keys = [row["key"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
assert keys == [b"k%d" % at for at in range(5)], keys
print("numpy" if record_kernel.compiled_find_fields() is None else "machine code")
"""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warn anew in each test."""
    monkeypatch.setattr(machine_code, "_told", set())


@pytest.fixture
def double(tmp_path: Path) -> Callable[..., None]:
    """A function in a file of its own."""
    return load(tmp_path / "doubling.py")


def load(path: Path) -> Callable[..., None]:
    path.write_text(DOUBLE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., None] = module.double
    return function


def compiled(function: Callable[..., None]) -> Any:
    return machine_code.compiled(function, "void", machine_code.COLUMN, machine_code.COLUMN_TO_FILL)


def check(kernel: Any) -> None:
    """It does what the function does."""
    out = np.zeros(3, np.int64)
    kernel(np.array([1, 2, -(1 << 62)], np.int64), out)
    assert out.tolist() == [2, 4, -(1 << 63)]


def is_kept(kernel: Any) -> bool:
    return bool(sum(kernel.stats.cache_hits.values()) == 1)


def read(data: Path, **surroundings: str) -> tuple[str, list[str]]:
    """Read five records in a process of its own; return the way, and the lines on standard error."""
    write_segment(data, "flights", 0, [numbered(5)])
    done = subprocess.run(
        [sys.executable, "-c", READ, str(data)],
        env={**os.environ, **surroundings},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.splitlines()


@needs_numba
def test_code_is_kept_for_the_next_process(
    double: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is compiled once, for one list of types."""
    first, second = compiled(double), compiled(double)
    check(first)
    check(second)
    assert not is_kept(first)
    assert is_kept(second)
    with pytest.raises(TypeError):
        second(np.zeros(3, np.float64), np.zeros(3, np.int64))
    assert capsys.readouterr().err == ""


@needs_numba
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x05N.", pickle.dumps("0.1") + b"rest"], ids=repr)
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_code_is_compiled_again(
    kind: str, content: bytes, double: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a power cut or a full disk leave it, or another version of numba."""
    compiled(double)
    (file,) = (tmp_path / "__pycache__").glob(f"*.{kind}")
    file.write_bytes(content)
    again = compiled(double)
    check(again)
    assert not is_kept(again)
    assert is_kept(compiled(double))
    assert capsys.readouterr().err == ""


@needs_numba
def test_without_a_place_for_code_numpy_reads(
    double: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package that cannot be written and no home: one line says what to set."""
    (tmp_path / "doubling.py").unlink()  # numba keeps nothing for code without a file
    assert compiled(double) is None
    assert compiled(double) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "headgate: numba cannot compile or keep machine code (NUMBA_CACHE_DIR tells it where)"
    )
    assert "no locator available" in line


@needs_numba
def test_a_place_that_cannot_be_written_any_more_is_no_failure(
    double: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a full disk."""
    compiled(double)
    (index,) = (tmp_path / "__pycache__").glob("*.nbi")
    index.unlink()
    index.mkdir()
    assert compiled(double) is None
    assert len(capsys.readouterr().err.splitlines()) == 1


@needs_numba
def test_a_function_that_numba_cannot_compile_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later numba may refuse what this one takes."""
    function = load(tmp_path / "doubling.py")
    assert machine_code.compiled(function, "void", "unicode_type", "float64") is None
    assert len(capsys.readouterr().err.splitlines()) == 1


@needs_numba
def test_two_processes_compile_at_once(tmp_path: Path) -> None:
    """Neither reads what the other has half written, nor does the next one."""
    write_segment(tmp_path, "flights", 0, [numbered(5)])
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, "-c", READ, str(tmp_path)]
    both = [
        subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=200) for process in both] == [("machine code\n", "")] * 2
    assert read(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == ("machine code", [])


@pytest.mark.parametrize(
    "failure",
    [
        "ImportError('Numba needs NumPy 2.4 or less. Got NumPy 2.5.')",
        "OSError('libllvmlite.so: cannot open shared object file')",
        "AttributeError('module numpy has no attribute trapz')",
        "SystemError('initialization of _internal failed')",
        "ModuleNotFoundError('No module named llvmlite', name='llvmlite')",
    ],
)
def test_a_numba_that_does_not_work_is_told_of_in_one_line(failure: str, tmp_path: Path) -> None:
    """It may be too old or too new for Python or numpy."""
    broken = tmp_path / "packages" / "numba"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(f"raise {failure}\n")
    path = os.pathsep.join([str(broken.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    way, (line,) = read(tmp_path, PYTHONPATH=path)
    assert way == "numpy"
    assert line.startswith("headgate: numba cannot be used, so numpy reads, which is slower: ")
    assert failure.partition("(")[0] in line


@pytest.mark.parametrize("switch", ["HEADGATE_NUMBA=no", "NUMBA_DISABLE_JIT=1"])
def test_numba_can_be_switched_off(switch: str, tmp_path: Path) -> None:
    """Without a word, and never for functions in plain Python."""
    name, _, setting = switch.partition("=")
    assert read(tmp_path, **{name: setting}) == ("numpy", [])


def test_without_numba_there_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], double: Callable[..., None]
) -> None:
    """It is optional."""
    monkeypatch.setitem(sys.modules, "numba", None)
    machine_code._numba.cache_clear()
    try:
        assert compiled(double) is None
    finally:
        machine_code._numba.cache_clear()
    assert capsys.readouterr().err == ""


@needs_numba
def test_spark_reads_the_same_without_numba() -> None:
    """The tests of Spark's tables once more, from a JVM whose workers read with numpy."""
    tests = Path(__file__).with_name("test_source.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(
        command,
        env={**os.environ, "HEADGATE_NUMBA": "no"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "skipped" not in done.stdout
