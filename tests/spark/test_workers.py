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
from tests.spark.test_landing import Broker, broker
from tests.waiting import wait_until

from headgate.fleet import audit
from headgate.fleet.audit import run_on_spark as run_audit_on_spark
from headgate.fleet.report import gather
from headgate.spark.landing import run_on_spark as run_landing_on_spark
from headgate.spark.landing.workers import run_in_workers
from headgate.spark.options import OptionError, parse
from headgate.spark.source import plan

__all__ = ["broker"]

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


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (run_landing_on_spark, "leave out run_on_spark,"),
        (run_audit_on_spark, "leave out run_on_spark,"),
        (lambda session: gather(session, "nowhere"), "use `headgate spark report`,"),
    ],
    ids=["landing", "audit", "gather"],
)
def test_a_session_of_spark_connect_is_refused_with_what_to_do(
    call: Callable[[SparkSession], object], advice: str
) -> None:
    """It has no context: an error of Spark about the JVM would tell nobody what to do."""
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(OptionError, match=f"Spark Connect cannot .*: {advice}.*spark-submit"):
        call(session)


def test_an_audit_and_a_landing_are_given_to_the_workers_by_the_same_function(
    spark: SparkSession, broker: Broker
) -> None:
    """The documents name one `run_on_spark` for both."""
    source = str(broker.directory)
    here = audit(source)
    assert len(here) > 0
    assert audit(source, run=run_landing_on_spark(spark)) == here
    assert audit(source, run=run_audit_on_spark(spark)) == here


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_directory_that_a_worker_does_not_have_is_no_loss_of_data(broker: Broker, fails: str) -> None:
    """It is on another machine: nothing was deleted, and an empty result would be wrong."""
    options = parse(
        {"path": str(broker.directory), "subscribe": "__consumer_offsets", "failOnDataLoss": fails}
    )
    parts = list(plan(options))
    broker.directory.rename(broker.directory.with_name("elsewhere"))
    with pytest.raises(FileNotFoundError, match="no data directory is here; a worker on another machine"):
        for part in parts:
            assert not list(part.scans())


def test_a_relative_directory_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each executor of a Spark cluster has a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    options = parse({"path": "data", "subscribe": "t"})
    assert options.path == tmp_path / "data"
