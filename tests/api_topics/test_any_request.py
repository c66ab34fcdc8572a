"""Handlers answer every request: they raise nothing, and the response can be encoded in its version."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api_topics.node import OneNode
from tests.topics.disk import NOW, batch

from headgate.api import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k33_alter_configs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k44_incremental_alter_configs,
    k46_list_partition_reassignments,
    k60_describe_cluster,
    k61_describe_producers,
    k74_list_config_resources,
    k75_describe_topic_partitions,
)
from headgate.api.registration import Api
from headgate.wire.layout import FieldLayout, layout_of
from headgate.wire.message import Struct

APIS = [
    k00_produce.API,
    k01_fetch.API,
    k02_list_offsets.API,
    k03_metadata.API,
    k19_create_topics.API,
    k20_delete_topics.API,
    k21_delete_records.API,
    k22_init_producer_id.API,
    k23_offset_for_leader_epoch.API,
    k32_describe_configs.API,
    k33_alter_configs.API,
    k35_describe_log_dirs.API,
    k37_create_partitions.API,
    k44_incremental_alter_configs.API,
    k46_list_partition_reassignments.API,
    k60_describe_cluster.API,
    k61_describe_producers.API,
    k74_list_config_resources.API,
    k75_describe_topic_partitions.API,
]

ID = b"\1" * 16


def _integers(bits: int) -> st.SearchStrategy[int]:
    widest = 1 << (bits - 1)
    return st.one_of(st.integers(-7, 7), st.sampled_from([-widest, widest - 1]))


def _some_batches() -> st.SearchStrategy[bytes]:
    good = batch(b"a", b"b", producer=(3, 0, 0))
    spoilt = st.builds(
        lambda at, flip: good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :],
        st.integers(0, len(good) - 1),
        st.integers(1, 255),
    )
    return st.one_of(
        st.just(good), spoilt, st.binary(max_size=80), st.integers(0, 90).map(lambda end: good[:end])
    )


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uuid": st.sampled_from([bytes(16), b"\0" * 15 + b"\1", ID]),
    "string": st.sampled_from(
        [
            "letters",
            "new",
            "",
            "a b",
            "__consumer_offsets",
            "retention.ms",
            "cleanup.policy",
            "1",
            "delete",
            "x" * 300,
        ]
    ),
    "records": _some_batches(),
}


def _field(layout: FieldLayout, version: int) -> st.SearchStrategy[Any]:
    is_struct = layout.struct_type is not None
    one = _struct(layout.struct_type, version) if layout.struct_type else KINDS[layout.kind]
    field = st.lists(one, max_size=3) if layout.is_array else one
    can_be_null = version in layout.null_versions or (is_struct and layout.tag is not None)
    return st.none() | field if can_be_null else field


@cache
def _struct(struct_type: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Structs that this version can carry."""
    fields = {
        layout.name: st.tuples(st.booleans(), _field(layout, version))
        for layout in layout_of(struct_type)
        if version in layout.versions
    }

    def build(values: dict[str, tuple[bool, Any]]) -> Struct:
        # Left out half the time: a default is what a client sends most often.
        return struct_type(**{name: value for name, (is_set, value) in values.items() if is_set})

    return st.fixed_dictionaries(fields).map(build)


@pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_request_is_answered(api: Api, data: st.DataObject) -> None:
    """At once or after its timeout, on a node with topics, records and an internal topic."""
    node = OneNode()
    letters = node.topic("letters", 3)
    node.topic("__consumer_offsets", 2)
    letters.partition(0).append(batch(b"a"), NOW)
    for _ in range(2):
        version = data.draw(st.integers(api.min_version, api.max_version))
        request = data.draw(_struct(api.request_type, version))  # type: ignore[arg-type]  # mypy: type[Any]
        call = node.send(api, request, version)
        node.pass_time(1 << 31)
        assert call.is_finished
    node.restart()
