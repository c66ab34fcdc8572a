"""The past of offsets that were committed in transactions: of committed ones only."""

from __future__ import annotations

from tests.history.past import GROUP, TOPIC, Life, Past, SetClock
from tests.server.disk import new_disk

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets.history import HistoryQuery
from headgate.shards.group_batches import TurnBatches


def append(life: Life, batches: TurnBatches) -> None:
    """Append what was encoded, durably."""
    life.partition.append_internal(batches.take())
    request = life.partition.log.begin_sync()
    request.run()
    life.partition.log.complete_sync(request)


def commit_in(life: Life, producer: int, offset: int, partition: int = 0) -> None:
    """Commit an offset in the transaction of a producer."""
    batches = TurnBatches()
    batches.add_transactional([life.record(offset, partition)], Producer(producer, 0), life.clock.time)
    append(life, batches)


def end(life: Life, producer: int, *, is_committed: bool = True) -> None:
    """End the transaction of a producer."""
    batches = TurnBatches()
    batches.add_end(TransactionEnd(Producer(producer, 0), is_committed), life.clock.time)
    append(life, batches)


def past_of(life: Life) -> list[int | None]:
    """The offsets of partition 0, the oldest first."""
    found = life.all_entries().get(0, [])
    return [None if entry.commit is None else entry.commit.offset for entry in found]


def test_only_committed_transactions_are_part_of_the_past() -> None:
    """Open and aborted ones are not, in this run and in the next one, over several segments."""
    files, clock, past = new_disk(), SetClock(), Past()
    life = Life(files, clock)
    for step in range(6):
        base = 100 * step
        life.commit(base + 1, [0], past)
        commit_in(life, 7, base + 2)
        commit_in(life, 8, base + 3)
        life.commit(base + 4, [0], past)
        commit_in(life, 9, base + 5)
        end(life, 7)
        end(life, 8, is_committed=False)
        end(life, 9)
    commit_in(life, 7, 999)
    assert len(list(life.partition.log.segments)) > 2
    expected = [base + one for base in range(0, 600, 100) for one in (1, 2, 4, 5)]
    assert past_of(life) == expected
    life.end()
    life.topics.close()
    life = Life(files, clock)
    assert past_of(life) == expected
    end(life, 7)
    assert past_of(life) == [*expected, 999]
    life.end()


def test_the_present_offset_is_that_of_the_log() -> None:
    """A transactional commit has the place of its record: a later plain commit is the present one."""
    life, past = Life(new_disk(), SetClock()), Past()
    commit_in(life, 7, 5)
    life.commit(6, [0], past)
    end(life, 7)
    answer = life.ask(HistoryQuery(GROUP, [(TOPIC, [0])], limit=1))
    assert [entry.commit.offset for entry in answer.partitions[0].entries if entry.commit] == [6]
    life.end()
