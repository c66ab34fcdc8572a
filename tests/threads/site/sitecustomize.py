"""Puts the guard of threads into the server processes of the tests: Python imports this before all else."""

import importlib.util
import os
import sys
from pathlib import Path

if "HEADGATE_THREAD_REPORT" in os.environ and "serve" in sys.orig_argv:
    spec = importlib.util.spec_from_file_location(
        "headgate_tests_guard", Path(__file__).parents[1] / "guard.py"
    )
    assert spec is not None and spec.loader is not None
    guard = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guard)
    guard.Guard(guard.appender(Path(os.environ[guard.REPORT_VARIABLE]))).install()
