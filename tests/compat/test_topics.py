"""Topics, as each library's admin client sees them."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka.admin import KafkaAdminClient
from tests.compat.support.driver import Can, Driver, Refused, Sent
from tests.waiting import wait_until

TOPIC_ALREADY_EXISTS = 36
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


@pytest.mark.drivers(Can.ADMIN)
def test_a_topic_lives_from_create_to_delete(driver: Driver, name: str) -> None:
    """A created topic is listed with its partitions, and is gone once deleted."""
    driver.create_topic(name, 3)
    assert name in driver.topics()
    assert driver.partition_count(name) == 3
    driver.delete_topic(name)
    wait_until(lambda: name not in driver.topics(), f"{name} is no longer listed")


def test_kafka_python_lists_the_apis(bootstrap: str) -> None:
    """It takes no key that it does not know."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        names = {key.name for key in admin.api_versions()}
    assert {"Produce", "OffsetCommit", "ShareFetch"} <= names


@pytest.mark.drivers(Can.ADMIN)
def test_a_topic_is_created_once(driver: Driver, name: str) -> None:
    """The second creation of a topic is refused with the error that says why."""
    driver.create_topic(name)
    with pytest.raises(Refused) as refused:
        driver.create_topic(name)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


@pytest.mark.drivers(Can.ADMIN)
def test_what_does_not_exist_cannot_be_deleted(driver: Driver, name: str) -> None:
    """Deleting an unknown topic is refused as unknown."""
    with pytest.raises(Refused) as refused:
        driver.delete_topic(name)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.drivers()
def test_the_metadata_names_the_broker_as_it_is_reached(driver: Driver, bootstrap: str) -> None:
    """There is one broker, and its advertised address is the one that was connected to."""
    assert driver.brokers() == {bootstrap}


@pytest.mark.drivers()
def test_the_first_record_makes_its_topic(driver: Driver, admin: Driver, name: str) -> None:
    """With auto.create.topics.enable, which is Kafka's default, a producer need not ask first."""
    driver.produce(name, [Sent(value="the first", key="k")])
    assert admin.partition_count(name) == 1
    assert [record.value for record in admin.consume(name, 1)] == ["the first"]


@pytest.mark.drivers(Can.ADD_PARTITIONS)
def test_partitions_are_added_and_can_be_written(driver: Driver, name: str) -> None:
    """A topic grows, never shrinks, and its new partitions take records."""
    driver.create_topic(name, 1)
    driver.add_partitions(name, 4)
    wait_until(lambda: driver.partition_count(name) == 4, f"{name} has 4 partitions")
    driver.produce(name, [Sent(value="in the new one", partition=3)])
    assert driver.watermarks(name, 3) == (0, 1)
    with pytest.raises(Refused) as refused:
        driver.add_partitions(name, 2)
    assert refused.value.code == INVALID_PARTITIONS


@pytest.mark.drivers(Can.CONFIGS)
def test_settings_given_at_creation_are_described(driver: Driver, name: str) -> None:
    """What a topic was created with is what its description says, beside the defaults."""
    driver.create_topic(name, 1, {"retention.ms": "123456", "cleanup.policy": "compact"})
    config = driver.topic_config(name)
    assert config["retention.ms"] == "123456"
    assert config["cleanup.policy"] == "compact"
    assert config["max.message.bytes"] == "1048588"


@pytest.mark.drivers(Can.CONFIGS)
def test_a_setting_is_altered(driver: Driver, name: str) -> None:
    """A changed setting is described with its new value."""
    driver.create_topic(name)
    driver.set_topic_config(name, "retention.ms", "654321")
    wait_until(lambda: driver.topic_config(name)["retention.ms"] == "654321", "the new value is described")
    assert driver.topic_config(name)["retention.ms"] == "654321"


@pytest.mark.drivers(Can.CONFIGS)
def test_a_value_that_is_none_is_refused(driver: Driver, name: str) -> None:
    """A value that the setting cannot have is refused, and the old one stays."""
    driver.create_topic(name, 1, {"retention.ms": "1000"})
    with pytest.raises(Refused) as refused:
        driver.set_topic_config(name, "retention.ms", "a while")
    assert refused.value.code == INVALID_CONFIG
    assert driver.topic_config(name)["retention.ms"] == "1000"


@pytest.mark.drivers(Can.DELETE_RECORDS)
def test_records_are_deleted_up_to_an_offset(driver: Driver, name: str) -> None:
    """The log starts where records were deleted up to, and reading from the beginning starts there too."""
    driver.create_topic(name)
    driver.produce(name, [Sent(value=str(number)) for number in range(10)])
    driver.delete_records(name, 0, 6)
    wait_until(lambda: driver.watermarks(name, 0) == (6, 10), "the log starts at 6")
    assert [record.value for record in driver.consume(name, 4)] == ["6", "7", "8", "9"]
