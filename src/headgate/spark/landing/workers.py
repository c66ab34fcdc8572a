"""Work of one job in the workers of a Spark session, which ends with the call that waits for it.

Where Spark's own handler of Ctrl-C is not in place, as in a cell of a notebook, an interrupted call leaves
its job running: the tasks of a landing would write beside the next one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from headgate.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")

END_TIMEOUT_S = 30.0
"""How long an interrupted call waits for the end of its tasks, which takes Spark some two seconds."""
_PAUSE_S = 0.05


IN_THIS_PROCESS: Final = "leave out run_on_spark, which does the work in this process"


def context_of(spark: SparkSession, instead: str = IN_THIS_PROCESS) -> SparkContext:
    """Return the context of a session, which gives workers tasks of Python.

    Raises OptionError for a session of Spark Connect, which has none; `instead` says what to do then.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise OptionError(
            f"a session of Spark Connect cannot give tasks to workers: {instead}, or run this in the driver, "
            "for instance by spark-submit"
        )
    return spark.sparkContext


def run_in_workers(spark: SparkSession, function: Callable[[_T], _R], tasks: Sequence[_T]) -> list[_R]:
    """Call the function with each task, in one Spark task each. If it is interrupted, the tasks end first."""
    if not tasks:
        return []
    context, tag = context_of(spark), f"headgate-{uuid.uuid4().hex}"
    given = context.parallelize(list(tasks), len(tasks))
    context.addJobTag(tag)
    try:
        found: list[_R] = given.map(function).collect()
    except BaseException as problem:
        with suppress(Exception):  # a session that has ended has no tasks either
            _end(context, tag)
        if _is_interruption(problem):
            raise KeyboardInterrupt from problem
        raise
    context.removeJobTag(tag)
    return found


def _is_interruption(problem: BaseException) -> bool:
    """Return whether another error took the place of Ctrl-C: on its way out PySpark asks the JVM once more,
    which can refuse a new connection just then.
    """
    context = problem.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context is not None and not isinstance(problem, KeyboardInterrupt)


def _end(context: SparkContext, tag: str) -> None:
    """Cancel the jobs of a tag, and wait until none of their tasks runs."""
    context.cancelJobsWithTag(tag)
    context.removeJobTag(tag)
    tracker, deadline = context.statusTracker(), time.monotonic() + END_TIMEOUT_S
    jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # PySpark's tracker knows groups only
    stages = [stage for job in map(tracker.getJobInfo, jobs) if job for stage in job.stageIds]
    while time.monotonic() < deadline:
        if not any(stage.numActiveTasks for stage in map(tracker.getStageInfo, stages) if stage):
            return
        time.sleep(_PAUSE_S)
