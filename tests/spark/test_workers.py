"""The work of a landing in the workers of Spark ends with the call that waits for it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import wait_until

from headgate.fleet.audit import run_on_spark as run_audit_on_spark
from headgate.spark.landing import run_on_spark as run_landing_on_spark
from headgate.spark.landing.workers import run_in_workers
from headgate.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_end_with_an_interrupted_call(spark: SparkSession, tmp_path: Path) -> None:
    """As in a notebook, whose Ctrl-C is Python's own, not Spark's, which ends all jobs."""

    def wait(name: str) -> None:
        began = Path(name)
        began.with_suffix(".tmp").write_text(str(os.getpid()))
        began.with_suffix(".tmp").rename(began)
        time.sleep(60)

    began, main = [tmp_path / "one", tmp_path / "two"], threading.get_ident()

    def interrupt() -> None:
        while not all(each.exists() for each in began):
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interruption = threading.Thread(target=interrupt)
    try:
        interruption.start()
        with pytest.raises(KeyboardInterrupt):
            run_in_workers(spark, wait, [str(each) for each in began])
    finally:
        interruption.join()
        signal.signal(signal.SIGINT, before)
    # Spark has ended both tasks, and has told their workers' parent to kill them.
    processes = [int(each.read_text()) for each in began]
    wait_until(lambda: not any(map(_runs, processes)), "the end of the workers")
    assert run_in_workers(spark, str.upper, ["a", "b"]) == ["A", "B"]


def test_an_interrupted_call_is_one_also_if_the_jvm_refuses_what_pyspark_asks_last() -> None:
    """PySpark resets the call site when it leaves; the error of that took the place of Ctrl-C."""

    class Interrupted:
        """A context whose call is interrupted at a moment that no test can choose."""

        def parallelize(self, *given: object) -> Interrupted:
            return self

        map = addJobTag = parallelize  # noqa: N815

        def collect(self) -> None:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise OSError("Answer from Java side is empty")  # noqa: B904

    session: Any = type("SparkSession", (), {"sparkContext": Interrupted()})()
    with pytest.raises(KeyboardInterrupt) as raised:
        run_in_workers(session, str.upper, ["a"])
    assert isinstance(raised.value.__cause__, OSError)


def _runs(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("run_on_spark", [run_landing_on_spark, run_audit_on_spark])
def test_a_session_of_spark_connect_is_refused_with_what_to_do(
    run_on_spark: Callable[[SparkSession], object],
) -> None:
    """It has no context: an error of Spark about the JVM would tell nobody what to do."""
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(OptionError, match=r"Spark Connect cannot .*: leave out run_on_spark.*spark-submit"):
        run_on_spark(session)
