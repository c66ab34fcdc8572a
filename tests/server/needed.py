"""An example request of each API, with the rights it needs, one row per API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.server.clients import T

from headgate.api.registry import apis_by_key
from headgate.security.authorizer import Need
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType
from headgate.topics.configs import ResourceType as Config
from headgate.wire.layout import layout_of
from headgate.wire.message import Request, Struct

Values = dict[str, Any]
Example = Callable[[int], tuple[Request[Any], list[Need]]]

_APIS = apis_by_key()
_WITH_IDS = {0: 13, 1: 13, 8: 10, 9: 10}
"""First version in which these APIs identify topics by id alone."""


def _topic(operation: Operation, name: str = "t", otherwise: Operation | None = None) -> Need:
    instead = None if otherwise is None else Need(otherwise, CLUSTER)
    return Need(operation, Resource(ResourceType.TOPIC, name), instead)


def _group(operation: Operation, name: str = "g") -> Need:
    return Need(operation, Resource(ResourceType.GROUP, name))


def _transaction(operation: Operation) -> Need:
    return Need(operation, Resource(ResourceType.TRANSACTIONAL_ID, "x"))


def _cluster(operation: Operation) -> Need:
    return Need(operation, CLUSTER)


def _struct(struct_type: type[Struct], values: Values) -> Any:
    """Make a struct from the values of its fields; nested structs are dictionaries."""
    types = {field.name: field.struct_type for field in layout_of(struct_type)}
    made: Values = {}
    for name, value in values.items():
        inner = types[name]
        made[name] = value if inner is None else [_struct(inner, one) for one in value]
    return struct_type(**made)


def _example(key: int, values: Callable[[int], Values] | Values, *needs: Need) -> tuple[int, Example]:
    def example(version: int) -> tuple[Request[Any], list[Need]]:
        given = values(version) if callable(values) else values
        return _struct(_APIS[key].request_type, given), list(needs)

    return key, example


def _named(key: int, version: int) -> Values:
    return {"topic_id": T} if version >= _WITH_IDS[key] else {"topic" if key == 1 else "name": "t"}


def _produced(version: int) -> Values:
    data = {**_named(0, version), "partition_data": [{"index": 0}, {"index": 1}]}
    return {"acks": -1, "transactional_id": "x", "topic_data": [data]}


def _fetched(version: int) -> Values:
    return {"topics": [{**_named(1, version), "partitions": [{"partition": 0}]}]}


def _committed(version: int) -> Values:
    partitions = [{"partition_index": 0}, {"partition_index": 1}]
    return {"group_id": "g", "topics": [{**_named(8, version), "partitions": partitions}]}


def _offsets_asked(version: int) -> Values:
    group = {"group_id": "g", "topics": [{**_named(9, version), "partition_indexes": [0, 1]}]}
    return group if version < 8 else {"groups": [group]}


def _deleted(version: int) -> Values:
    return {"topic_names": ["t"]} if version < 6 else {"topics": [{"name": None, "topic_id": T}]}


def _coordinator(version: int) -> Values:
    return {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}


def _added(version: int) -> tuple[Request[Any], list[Need]]:
    """Partitions of a transaction: as a client adds them, or from version 4 a broker."""
    topics = [{"name": "t", "partitions": [0]}]
    if version < 4:
        values: Values = {"v3_and_below_transactional_id": "x", "v3_and_below_topics": topics}
        needs = [_transaction(Operation.WRITE), _topic(Operation.WRITE)]
    else:
        values = {"transactions": [{"transactional_id": "x", "topics": topics}]}
        needs = [_cluster(Operation.CLUSTER_ACTION)]
    return _struct(_APIS[24].request_type, values), needs


_RESOURCES = {
    "resources": [
        {"resource_type": kind, "resource_name": name}
        for kind, name in ((Config.TOPIC, "t"), (Config.GROUP, "g"), (Config.BROKER, "1"))
    ]
}
_PARTITIONS = [{"partition_index": 0}]

EXAMPLES: dict[int, Example] = dict(
    [
        _example(0, _produced, _transaction(Operation.WRITE), _topic(Operation.WRITE)),
        _example(1, _fetched, _topic(Operation.READ)),
        _example(2, {"topics": [{"name": "t", "partitions": _PARTITIONS}]}, _topic(Operation.DESCRIBE)),
        _example(
            3,
            {"topics": [{"name": "t"}, {"name": "new"}]},
            _topic(Operation.DESCRIBE),
            _topic(Operation.DESCRIBE, "new"),
            _topic(Operation.CREATE, "new", Operation.CREATE),
        ),
        _example(8, _committed, _group(Operation.READ), _topic(Operation.READ)),
        _example(9, _offsets_asked, _group(Operation.DESCRIBE), _topic(Operation.DESCRIBE)),
        _example(10, _coordinator, _group(Operation.DESCRIBE)),
        _example(11, {"group_id": "g"}, _group(Operation.READ)),
        _example(12, {"group_id": "g"}, _group(Operation.READ)),
        _example(13, {"group_id": "g"}, _group(Operation.READ)),
        _example(14, {"group_id": "g"}, _group(Operation.READ)),
        _example(15, {"groups": ["g", "h"]}, _group(Operation.DESCRIBE), _group(Operation.DESCRIBE, "h")),
        _example(16, {}, _cluster(Operation.DESCRIBE)),
        _example(19, {"topics": [{"name": "t"}]}, _topic(Operation.CREATE, "t", Operation.CREATE)),
        _example(20, _deleted, _topic(Operation.DELETE, "t", Operation.DELETE)),
        _example(21, {"topics": [{"name": "t", "partitions": _PARTITIONS}]}, _topic(Operation.DELETE)),
        _example(22, {"transactional_id": None}, _cluster(Operation.IDEMPOTENT_WRITE)),
        _example(
            23,
            {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]},
            _topic(Operation.DESCRIBE, "t", Operation.CLUSTER_ACTION),
        ),
        (24, _added),
        _example(
            25,
            {"transactional_id": "x", "group_id": "g"},
            _transaction(Operation.WRITE),
            _group(Operation.READ),
        ),
        _example(26, {"transactional_id": "x"}, _transaction(Operation.WRITE)),
        _example(
            27,
            {"markers": [{"topics": [{"name": "t", "partition_indexes": [0]}]}]},
            Need(Operation.ALTER, CLUSTER, _cluster(Operation.CLUSTER_ACTION)),
        ),
        _example(
            28,
            {"transactional_id": "x", "group_id": "g", "topics": [{"name": "t", "partitions": _PARTITIONS}]},
            _transaction(Operation.WRITE),
            _group(Operation.READ),
            _topic(Operation.READ),
        ),
        _example(65, {"transactional_ids": ["x"]}, _transaction(Operation.DESCRIBE)),
        _example(66, {}, _cluster(Operation.DESCRIBE)),
        _example(
            32,
            _RESOURCES,
            _topic(Operation.DESCRIBE_CONFIGS),
            _group(Operation.DESCRIBE_CONFIGS),
            _cluster(Operation.DESCRIBE_CONFIGS),
        ),
        *(
            _example(
                key,
                _RESOURCES,
                _topic(Operation.ALTER_CONFIGS),
                _group(Operation.ALTER_CONFIGS),
                _cluster(Operation.ALTER_CONFIGS),
            )
            for key in (33, 44)
        ),
        _example(35, {"topics": [{"topic": "t", "partitions": [0]}]}, _cluster(Operation.DESCRIBE)),
        _example(37, {"topics": [{"name": "t", "count": 50}]}, _topic(Operation.ALTER)),
        _example(42, {"groups_names": ["g", "h"]}, _group(Operation.DELETE), _group(Operation.DELETE, "h")),
        _example(46, {}, _cluster(Operation.DESCRIBE)),
        _example(61, {"topics": [{"name": "t", "partition_indexes": [0]}]}, _topic(Operation.READ)),
        _example(
            47,
            {"group_id": "g", "topics": [{"name": "t", "partitions": _PARTITIONS}]},
            _group(Operation.DELETE),
            _topic(Operation.READ),
        ),
        _example(
            68,
            {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["t"]},
            _group(Operation.READ),
            _topic(Operation.DESCRIBE),
        ),
        _example(69, {"group_ids": ["g"]}, _group(Operation.DESCRIBE)),
        _example(74, {}, _cluster(Operation.DESCRIBE_CONFIGS)),
        _example(75, {"topics": [{"name": "t"}]}, _topic(Operation.DESCRIBE)),
        *(
            _example(
                key,
                {
                    "group_id": "g",
                    "member_id": "m",
                    "topics": [{"topic_id": T, "partitions": [{"partition_index": 0}]}],
                },
                _group(Operation.READ),
                _topic(Operation.READ),
            )
            for key in (78, 79)
        ),
        *(
            _example(
                key,
                {"group_id": "g", "topics": [{"topic_id": T, "partitions": [{"partition": 0}]}]},
                _cluster(Operation.CLUSTER_ACTION),
            )
            for key in (83, 84, 85, 86, 87)
        ),
        _example(
            76,
            {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["t"]},
            _group(Operation.READ),
            _topic(Operation.DESCRIBE),
        ),
        _example(77, {"group_ids": ["g"]}, _group(Operation.DESCRIBE)),
        _example(
            90,
            {"groups": [{"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}]},
            _group(Operation.DESCRIBE),
            _topic(Operation.DESCRIBE),
        ),
        _example(
            91,
            {"group_id": "g", "topics": [{"topic_name": "t", "partitions": _PARTITIONS}]},
            _group(Operation.READ),
            _topic(Operation.READ),
        ),
        _example(
            92,
            {"group_id": "g", "topics": [{"topic_name": "t"}]},
            _group(Operation.DELETE),
            _topic(Operation.READ),
        ),
        *(
            _example(
                key,
                {"group_id": "g", "topics": [{"name": "t", "partitions": _PARTITIONS}]},
                _group(Operation.READ),
                _topic(Operation.READ),
            )
            for key in (20001, 20002)
        ),
        _example(20003, {"group_id": "g"}, _group(Operation.DESCRIBE)),
        _example(
            20004,
            {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
            _group(Operation.DESCRIBE),
            _topic(Operation.DESCRIBE),
        ),
        _example(20005, {"group_id": "g"}, _group(Operation.DESCRIBE)),
        _example(20006, {}, _cluster(Operation.DESCRIBE)),
        *(
            _example(key, {"group_id": "g", "topic_name": "t"}, _group(operation), _topic(operation))
            for key, operation in ((20007, Operation.DESCRIBE), (20008, Operation.READ))
        ),
    ]
)
"""By API key: makes a request in a version, and its needs in the order of their checks."""
