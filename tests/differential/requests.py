"""The requests that scenarios are made of, each with what is mostly meant and room for anything else."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.differential.wire import Request

NO_TOPIC = uuid.UUID(int=0)
REBALANCE_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 30_000

Offsets = Mapping[Any, Mapping[int, Any]]
"""Topic (name, or id from version 10 on) -> partition -> offset, or what `offset` makes."""


def offset(
    committed_offset: int, metadata: str | None = "", leader_epoch: int = -1, **more: Any
) -> dict[str, Any]:
    """A partition's entry in a commit."""
    return {
        "committed_offset": committed_offset,
        "committed_metadata": metadata,
        "committed_leader_epoch": leader_epoch,
    } | more


def of_topic(topic: Any) -> dict[str, Any]:
    """The fields by which a request names a topic: by its id, or by its name."""
    return {"name": "", "topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}


def commit(
    group: str, offsets: Offsets, version: int = 9, *, member: str = "", epoch: int = -1, **more: Any
) -> Request:
    """OffsetCommit."""
    topics = [
        of_topic(topic)
        | {
            "partitions": [
                {"partition_index": index} | (value if isinstance(value, dict) else offset(value))
                for index, value in partitions.items()
            ]
        }
        for topic, partitions in offsets.items()
    ]
    values = {
        "group_id": group,
        "generation_id_or_member_epoch": epoch,
        "member_id": member,
        "retention_time": -1,
        "topics": topics,
    }
    return Request("offset_commit", version, values | more)


def fetch(
    group: str, partitions: Mapping[Any, Sequence[int]] | None, version: int = 9, **more: Any
) -> Request:
    """OffsetFetch of one group; None asks for everything. From version 8 on it could ask for several."""
    topics = (
        None
        if partitions is None
        else [of_topic(topic) | {"partition_indexes": list(of)} for topic, of in partitions.items()]
    )
    require_stable = more.pop("require_stable", False)
    if version < 8:
        values = {"group_id": group, "topics": topics, "require_stable": require_stable}
    else:
        values = {"groups": [{"group_id": group, "topics": topics} | more], "require_stable": require_stable}
    return Request("offset_fetch", version, values)


def fetch_all(groups: Mapping[str, Mapping[Any, Sequence[int]] | None], version: int = 9) -> Request:
    """OffsetFetch of several groups."""
    asked = [fetch(group, partitions, version).values["groups"][0] for group, partitions in groups.items()]
    return Request("offset_fetch", version, {"groups": asked, "require_stable": False})


def delete_offsets(group: str, partitions: Mapping[str, Sequence[int]]) -> Request:
    """OffsetDelete."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": index} for index in of]}
        for topic, of in partitions.items()
    ]
    return Request("offset_delete", 0, {"group_id": group, "topics": topics})


# --- classic groups ---


def subscription(
    topics: Sequence[str], owned: Mapping[str, Sequence[int]] | None = None, version: int = 1
) -> bytes:
    """A consumer's subscription, as the metadata of a protocol; `owned` from version 1 on."""
    data = struct.pack(">hi", version, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)
    return data + _partitions(owned or {}) if version else data


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """What a leader assigns to a consumer."""
    return struct.pack(">h", 1) + _partitions(partitions) + struct.pack(">i", -1)


def _partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    return struct.pack(">i", len(partitions)) + b"".join(
        _text(topic) + struct.pack(f">i{len(of)}i", len(of), *of) for topic, of in partitions.items()
    )


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def join(
    group: str,
    protocols: Mapping[str, bytes] | None = None,
    version: int = 9,
    *,
    member: str = "",
    instance: str | None = None,
    **more: Any,
) -> Request:
    """JoinGroup; one protocol "range" with no metadata unless told."""
    offered = {"range": b""} if protocols is None else protocols
    values = {
        "group_id": group,
        "session_timeout": SESSION_TIMEOUT_MS,
        "rebalance_timeout": REBALANCE_TIMEOUT_MS,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": data} for name, data in offered.items()],
        "reason": None,
    }
    return Request("join_group", version, values | more)


def sync(
    group: str,
    member: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    version: int = 5,
    **more: Any,
) -> Request:
    """SyncGroup."""
    values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": who, "assignment": what} for who, what in (assignments or {}).items()],
    }
    return Request("sync_group", version, values | more)


def heartbeat(
    group: str, member: str, generation: int, version: int = 4, instance: str | None = None
) -> Request:
    """Heartbeat of a classic member."""
    values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
    }
    return Request("heartbeat", version, values)


def leave(group: str, *members: str | tuple[str, str | None], version: int = 5) -> Request:
    """LeaveGroup of members, by id or by (id, instance id)."""
    pairs = [(one, None) if isinstance(one, str) else one for one in members]
    if version < 3:
        return Request("leave_group", version, {"group_id": group, "member_id": pairs[0][0]})
    listed = [{"member_id": who, "group_instance_id": instance, "reason": None} for who, instance in pairs]
    return Request("leave_group", version, {"group_id": group, "members": listed})


# --- consumer groups ---


def beat(group: str, member: str, epoch: int, version: int = 1, **more: Any) -> Request:
    """ConsumerGroupHeartbeat that says nothing but that the member lives.

    `owned` is topic id -> partitions, as `topic_partitions`.
    """
    values: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if "owned" in more:
        owned = more.pop("owned")
        more["topic_partitions"] = (
            None
            if owned is None
            else [{"topic_id": topic_id, "partitions": list(of)} for topic_id, of in owned.items()]
        )
    values |= {"topic_partitions": None, "server_assignor": None}
    return Request("consumer_group_heartbeat", version, values | more)


def enter(group: str, member: str, topics: Iterable[str] | None, version: int = 1, **more: Any) -> Request:
    """ConsumerGroupHeartbeat of a member that joins."""
    given: dict[str, Any] = {
        "rebalance_timeout": REBALANCE_TIMEOUT_MS,
        "subscribed_topic_names": None if topics is None else list(topics),
        "owned": {},
    }
    return beat(group, member, 0, version, **(given | more))


# --- looking at groups ---


def describe_consumer_groups(*groups: str, version: int = 1) -> Request:
    """ConsumerGroupDescribe."""
    values = {"group_ids": list(groups), "include_authorized_operations": False}
    return Request("consumer_group_describe", version, values)


def describe_groups(*groups: str, version: int = 6) -> Request:
    """DescribeGroups."""
    values = {"groups": list(groups), "include_authorized_operations": False}
    return Request("describe_groups", version, values)


def list_groups(version: int = 5, states: Sequence[str] = (), types: Sequence[str] = ()) -> Request:
    """ListGroups, of all groups there are."""
    return Request("list_groups", version, {"states_filter": list(states), "types_filter": list(types)})


def delete_groups(*groups: str, version: int = 2) -> Request:
    """DeleteGroups."""
    return Request("delete_groups", version, {"groups_names": list(groups)})


def find_coordinator(*keys: str, version: int = 6, key_type: int = 0) -> Request:
    """FindCoordinator; one key before version 4."""
    values = {"key": keys[0]} if version < 4 else {"coordinator_keys": list(keys)}
    return Request("find_coordinator", version, values | {"key_type": key_type})


# --- topics and settings ---


def metadata(*topics: str, version: int = 12) -> Request:
    """Metadata of topics by name; creates none."""
    values = {
        "topics": [{"name": name, "topic_id": None} for name in topics],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return Request("metadata", version, values)


def create_topics(
    topics: Mapping[str, int], version: int = 7, configs: Mapping[str, str | None] | None = None, **more: Any
) -> Request:
    """CreateTopics: name -> partitions, all with the same settings."""
    return create_topic_entries(
        *(
            {"name": name, "num_partitions": count, "configs": _configs(configs or {})}
            for name, count in topics.items()
        ),
        version=version,
        **more,
    )


def create_topic_entries(*entries: Mapping[str, Any], version: int = 7, **more: Any) -> Request:
    """CreateTopics with entries that say what they like."""
    filled = [
        {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | dict(entry)
        for entry in entries
    ]
    return Request(
        "create_topics", version, {"topics": filled, "timeout": 10_000, "validate_only": False} | more
    )


def _configs(configs: Mapping[str, str | None]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in configs.items()]


def delete_topics(*names: str, version: int = 6) -> Request:
    """DeleteTopics by name."""
    if version < 6:
        return Request("delete_topics", version, {"topic_names": list(names), "timeout": 10_000})
    topics = [{"name": name, "topic_id": None} for name in names]
    return Request("delete_topics", version, {"topics": topics, "timeout": 10_000})


def delete_topic_ids(*topic_ids: uuid.UUID) -> Request:
    """DeleteTopics by id."""
    topics = [{"name": None, "topic_id": topic_id} for topic_id in topic_ids]
    return Request("delete_topics", 6, {"topics": topics, "timeout": 10_000})


def create_partitions(counts: Mapping[str, int], version: int = 3, **more: Any) -> Request:
    """CreatePartitions: name -> how many there are to be."""
    topics = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
    return Request(
        "create_partitions", version, {"topics": topics, "timeout": 10_000, "validate_only": False} | more
    )


TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe_configs(
    resource_type: int, name: str, keys: Sequence[str] | None, version: int = 4, **more: Any
) -> Request:
    """DescribeConfigs of one resource."""
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    values = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    return Request("describe_configs", version, values | more)


def alter_configs(
    resource_type: int,
    name: str,
    changes: Mapping[str, tuple[int, str | None]],
    version: int = 1,
    **more: Any,
) -> Request:
    """IncrementalAlterConfigs of one resource: setting -> (operation, value)."""
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, (operation, value) in changes.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    return Request(
        "incremental_alter_configs", version, {"resources": [resource], "validate_only": False} | more
    )
