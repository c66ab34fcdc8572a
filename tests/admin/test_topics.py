"""Topics and settings from Python, with plain strings and numbers."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import asdict

import pytest
from confluent_kafka import Producer

from headgate.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    NewTopic,
    PartlyRefused,
    RequestRefused,
    ResourceType,
    TopicPartition,
)
from headgate.domain.errors import ErrorCode

pytestmark = pytest.mark.timeout(60)


def test_topics_are_created_described_grown_and_deleted(admin: Admin) -> None:
    """Some of them: the others are done when one is refused."""
    admin.create_topics([NewTopic(name="made-1", partitions=2, configs={"retention.ms": "1000"})])
    with pytest.raises(PartlyRefused) as raised:
        admin.create_topics([NewTopic(name="made-1"), NewTopic(name="made-2"), NewTopic(name="a/b")])
    assert {name: error.error for name, error in raised.value.refused.items()} == {
        "made-1": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    described = admin.describe_topics(["made-2", "made-1", "never-made"])
    assert list(described) == ["made-2", "made-1", "never-made"]
    assert described["never-made"] is None
    first = described["made-1"]
    assert first is not None and first.topic_id is not None
    assert [one.leader for one in first.partitions] == [1, 1]
    admin.create_partitions({"made-1": 4})
    assert admin.partitions_of("made-1")[-1] == TopicPartition("made-1", 3)
    with pytest.raises(PartlyRefused, match="made-1: INVALID_PARTITIONS"):
        admin.create_partitions({"made-1": 3})
    admin.delete_topics(["made-1", "made-2"])
    with pytest.raises(PartlyRefused, match="made-1: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.delete_topics(["made-1"])


def test_a_new_topic_is_copied_as_a_dict() -> None:
    """Also one without settings: a program that logs or stores what it creates need not know its fields."""
    new = NewTopic(name="x")
    assert asdict(new) == {
        "name": "x", "partitions": -1, "replication_factor": -1, "configs": {}, "assignment": ()
    }  # fmt: skip
    assert pickle.loads(pickle.dumps(new)) == deepcopy(new) == new


def test_a_check_creates_nothing(admin: Admin) -> None:
    """`validate_only` raises what creating would raise."""
    admin.create_topics([NewTopic(name="only-checked")], validate_only=True)
    assert "only-checked" not in admin.topics()
    with pytest.raises(PartlyRefused, match="INVALID_CONFIG"):
        admin.create_topics([NewTopic(name="only-checked", configs={"no.such": "1"})], validate_only=True)


def test_records_are_deleted_up_to_an_offset(admin: Admin, bootstrap_servers: str) -> None:
    """The first offset rises; one after the end is refused."""
    admin.create_topic("emptied", partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(10):
        producer.produce("emptied", b"x", partition=0)
    assert producer.flush(20) == 0
    first, second = admin.partitions_of("emptied")
    assert admin.delete_records({first: 4, second: -1}) == {first: 4, second: 0}
    assert admin.log_start_offsets([first]) == {first: 4}
    assert admin.log_end_offsets([first]) == {first: 10}
    with pytest.raises(PartlyRefused, match="emptied-0: OFFSET_OUT_OF_RANGE"):
        admin.delete_records({first: 11})
    with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.delete_records({TopicPartition("emptied", 9): 1})


def test_settings_are_changed_all_or_none(admin: Admin) -> None:
    """Set, appended to, taken back; each with the level that its value comes from."""
    admin.create_topic("settled")
    topic = ConfigResource(ResourceType.TOPIC, "settled")
    admin.set_topic_config("settled", {"retention.ms": "1000", "cleanup.policy": "delete"})
    admin.alter_configs(topic, [ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)])
    assert admin.topic_config("settled")["cleanup.policy"] == "delete,compact"
    with pytest.raises(RequestRefused, match=r"topic settled: INVALID_CONFIG .*segment\.bytes"):
        admin.set_topic_config("settled", {"retention.ms": "2000", "segment.bytes": "tiny"})
    entries = {one.name: one for one in admin.describe_configs([topic], documented=True)[topic]}
    assert (entries["retention.ms"].value, entries["retention.ms"].is_own) == ("1000", True)
    assert entries["retention.ms"].documentation
    assert entries["segment.bytes"].source == "DEFAULT_CONFIG"
    admin.set_topic_config("settled", {"retention.ms": None})
    assert admin.topic_config("settled")["retention.ms"] != "1000"


def test_a_misspelt_setting_is_not_taken_back_in_silence(admin: Admin) -> None:
    """A broker accepts that it is deleted. The refusal is that of a misspelt setting with a value."""
    admin.create_topic("misspelt", configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    messages = []
    for value in ("1", None):
        with pytest.raises(RequestRefused, match=r"topic misspelt: .*did you mean retention\.ms") as refused:
            admin.set_topic_config("misspelt", {"cleanup.policy": None, "retention.mss": value})
        messages.append(str(refused.value))
        assert refused.value.error is ErrorCode.INVALID_CONFIG
        assert admin.topic_config("misspelt")["cleanup.policy"] == "compact"
    assert messages[0] == messages[1]
    admin.set_topic_config("misspelt", {"cleanup.policy": None, "segment.ms": None})  # this one has no value
    assert admin.topic_config("misspelt")["cleanup.policy"] == "delete"
    with pytest.raises(RequestRefused, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.set_topic_config("nowhere", {"retention.ms": None})


def test_settings_of_what_does_not_exist_are_refused(admin: Admin) -> None:
    """A topic and a broker; the message has the brokers that there are."""
    with pytest.raises(RequestRefused, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.topic_config("nowhere")
    with pytest.raises(RequestRefused, match=r"broker 99: BROKER_ID_NOT_REGISTERED \(the brokers are 1\)"):
        admin.describe_configs([ConfigResource(ResourceType.BROKER, "99")])
    with pytest.raises(TypeError, match="several strings"):
        admin.delete_topics("settled")
