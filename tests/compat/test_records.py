"""Records: what one library writes, with any codec, every other one reads."""

from __future__ import annotations

import time

import pytest
from tests.compat.support.driver import ALL_CODECS, Can, Driver, Received, Sent

LONG = "abc " * 600  # long enough for a codec to make it shorter, and for several blocks to be written
RECORDS_PER_CODEC = 20


def _records(codec: str, partition: int) -> list[Sent]:
    return [
        Sent(
            value=f"{codec} {number} {LONG}",
            key=f"key {number}",
            partition=partition,
            headers=(("codec", codec), ("language", "français")),
        )
        for number in range(RECORDS_PER_CODEC)
    ]


@pytest.mark.drivers()
@pytest.mark.other_drivers()
def test_what_one_library_writes_another_reads(
    driver: Driver, other_driver: Driver, admin: Driver, name: str
) -> None:
    """Keys, values, headers and order survive every codec of the writer, for every reader."""
    admin.create_topic(name, len(ALL_CODECS))
    before_ms = int(time.time() * 1000)
    for codec in driver.codecs:
        driver.produce(name, _records(codec, ALL_CODECS.index(codec)), codec=codec)
    received = other_driver.consume(name, RECORDS_PER_CODEC * len(driver.codecs))
    for codec in driver.codecs:
        partition = ALL_CODECS.index(codec)
        found = [record for record in received if record.partition == partition]
        assert [record.offset for record in found] == list(range(RECORDS_PER_CODEC)), codec
        for record, sent in zip(found, _records(codec, partition), strict=True):
            assert (record.key, record.value) == (sent.key, sent.value), codec
            assert sorted(record.headers) == sorted(sent.headers), codec
            assert before_ms - 1000 <= record.timestamp_ms <= time.time() * 1000 + 1000, codec


@pytest.mark.drivers(Can.IDEMPOTENCE)
def test_an_idempotent_producer_writes_everything_once(driver: Driver, admin: Driver, name: str) -> None:
    """Two producers, one after the other, with ids of their own, write in order and without gaps."""
    admin.create_topic(name, 2)
    values = [str(number) for number in range(200)]
    for half in (values[:100], values[100:]):
        driver.produce(name, [Sent(value=v, partition=int(v) % 2) for v in half], idempotent=True)
    received = admin.consume(name, 200)
    for partition in range(2):
        found = [record for record in received if record.partition == partition]
        assert [record.value for record in found] == values[partition::2]
        assert [record.offset for record in found] == list(range(100))


@pytest.mark.drivers()
def test_a_record_may_lack_key_and_be_empty(driver: Driver, admin: Driver, name: str) -> None:
    """Absence and emptiness are two things, and both arrive as they were sent."""
    admin.create_topic(name, 1)
    admin.produce(name, [Sent(value="no key"), Sent(value="", key="empty value"), Sent(value="x", key="k")])
    found = [(record.key, record.value) for record in driver.consume(name, 3)]
    assert found == [(None, "no key"), ("empty value", ""), ("k", "x")]


@pytest.mark.drivers()
def test_a_batch_of_almost_a_megabyte_passes(driver: Driver, admin: Driver, name: str) -> None:
    """A record near the limit of one megabyte is written and read back whole."""
    admin.create_topic(name, 1)
    value = "m" * 900_000
    driver.produce(name, [Sent(value=value)])
    (record,) = driver.consume(name, 1)
    assert record.value == value


@pytest.mark.drivers(Can.ASSIGN)
def test_reading_starts_where_it_is_told(driver: Driver, admin: Driver, name: str) -> None:
    """A consumer without a group reads one partition from the offset it seeks."""
    admin.create_topic(name, 2)
    admin.produce(name, [Sent(value=f"{p}-{n}", partition=p) for p in range(2) for n in range(50)])
    found = driver.read_from(name, 1, 40, 10)
    assert [record.value for record in found] == [f"1-{n}" for n in range(40, 50)]
    assert [record.offset for record in found] == list(range(40, 50))


@pytest.mark.drivers(Can.OFFSETS_BY_TIME)
def test_an_offset_is_found_by_time(driver: Driver, admin: Driver, name: str) -> None:
    """The answer is the first record at or after the asked moment; after the last there is none."""
    admin.create_topic(name, 1)
    base_ms = 1_700_000_000_000
    for number in range(5):
        admin.produce(name, [Sent(value=str(number), timestamp_ms=base_ms + number * 1000)])
    assert driver.offset_at(name, 0, base_ms) == 0
    assert driver.offset_at(name, 0, base_ms + 2000) == 2
    assert driver.offset_at(name, 0, base_ms + 2001) == 3
    # Libraries tell "none" in their own ways: -1, or the end of the log.
    assert driver.offset_at(name, 0, base_ms + 4001) in (-1, 5)


@pytest.mark.drivers(Can.OFFSETS_BY_TIME, Can.ADMIN)
def test_timestamps_that_a_producer_gives_are_kept(driver: Driver, admin: Driver, name: str) -> None:
    """A record's own timestamp comes back with it."""
    admin.create_topic(name, 1)
    given_ms = 1_600_000_000_123
    driver.produce(name, [Sent(value="then", timestamp_ms=given_ms)])
    found: list[Received] = admin.consume(name, 1)
    assert found[0].timestamp_ms == given_ms
