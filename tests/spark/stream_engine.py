"""What Spark does with the reader of a stream, in this process: offset log, batches, replay."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field

from headgate.spark.formats import HeadgateDataSource
from headgate.spark.stream.reader import GroupStreamReader

Row = tuple[int, int, int]
"""Partition, offset and epoch."""


@dataclass
class Checkpoint:
    """Ends of batches as text, and how many of them are finished."""

    ends: list[str] = field(default_factory=list)
    finished: int = 0
    rows: list[Row] = field(default_factory=list)
    """What the sink has."""


class Engine:
    """One run of a query: a new reader, and the checkpoint of earlier runs."""

    def __init__(self, options: dict[str, str], checkpoint: Checkpoint) -> None:
        source = HeadgateDataSource(options)
        self.schema = source.schema()
        reader = source.streamReader(self.schema)
        assert isinstance(reader, GroupStreamReader)
        self.reader = reader
        self.tasks = copy.deepcopy(reader)
        """The copy of the reader that the tasks have."""
        self.checkpoint = checkpoint
        self._is_started = False

    def plan(self) -> bool:
        """Log the next batch, as Spark does before it runs it; False if there is none."""
        done = self.checkpoint
        if not self._is_started and len(done.ends) > done.finished:
            self._is_started = True
            return True  # the batch that the previous run did not finish is run again
        self._is_started = True
        start = self._start()
        end = json.dumps(self.reader.latestOffset(json.loads(start), self.reader.getDefaultReadLimit()))
        if end == start:
            return False
        done.ends.append(end)
        return True

    def run(self) -> list[Row]:
        """Run the batch that was logged last; the rows reach the sink."""
        rows = self.read()
        self.checkpoint.rows += rows
        self.checkpoint.finished = len(self.checkpoint.ends)
        return rows

    def read(self) -> list[Row]:
        """Read the batch that was logged last; nothing reaches the sink."""
        tasks = self.reader.partitions(json.loads(self._start()), json.loads(self.checkpoint.ends[-1]))
        found = [
            (row["partition"], row["offset"], row["epoch"])
            for task in tasks
            for batch in self.tasks.read(task)
            for row in batch.to_pylist()
        ]
        return sorted(found)

    def trigger(self) -> list[Row]:
        """Plan and run a batch; return its rows."""
        return self.run() if self.plan() else []

    def available_now(self) -> None:
        """Run batches up to what is there now, with the trigger `availableNow`."""
        self.reader.prepareForTriggerAvailableNow()
        while self.plan():
            self.run()

    def stop(self) -> None:
        """End the query."""
        self.reader.stop()

    def _start(self) -> str:
        if self.checkpoint.finished == 0:
            self.reader.initialOffset()
            return json.dumps(self.reader.initialOffset())
        return self.checkpoint.ends[self.checkpoint.finished - 1]
