"""The columns of every reader and transform of `headgate.spark`, as constants.

All columns are nullable, because a Python data source may not declare otherwise; where a null has a meaning,
a comment tells it. Times are UTC timestamps with milliseconds, offsets are log offsets.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns.items()])


_BINARY, _BOOLEAN, _INTEGER, _LONG = BinaryType(), BooleanType(), IntegerType(), LongType()
_STRING, _TIMESTAMP = StringType(), TimestampType()

HEADER = _struct(key=_STRING, value=_BINARY)

RECORDS = _struct(
    topic=_STRING,
    partition=_INTEGER,
    offset=_LONG,
    timestamp=_TIMESTAMP,  # null: the producer set none
    timestampType=_INTEGER,  # 0 the producer's time (CreateTime), 1 the broker's (LogAppendTime)
    key=_BINARY,
    value=_BINARY,
    headers=ArrayType(HEADER, containsNull=True),  # null: the record has none
)
"""Any topic's records: the columns of Spark's own Kafka connector."""

STREAM_RECORDS = StructType([*RECORDS.fields, StructField("epoch", _INTEGER, nullable=True)])
"""The records of a stream, with the epoch: a record that a rewind delivers again has a higher one."""

OFFSET_COMMITS = _struct(
    log_partition=_INTEGER,
    log_offset=_LONG,
    log_timestamp=_TIMESTAMP,
    log_leader_epoch=_INTEGER,  # of the batch that the record is in
    group_id=_STRING,
    topic=_STRING,
    partition=_INTEGER,
    committed_offset=_LONG,  # null: a tombstone, or a value of a version this release cannot read
    leader_epoch=_INTEGER,  # null: the commit had none
    metadata=_STRING,
    commit_timestamp=_TIMESTAMP,
    expire_timestamp=_TIMESTAMP,  # null: the group's retention decides
    is_tombstone=_BOOLEAN,
    value_version=_INTEGER,  # null: a tombstone
    is_transactional=_BOOLEAN,  # true: takes effect when a commit marker of `producer_id` follows
    producer_id=_LONG,  # null: no idempotent or transactional producer
)
"""One row for each offset commit or removal in the coordinator's log."""

ASSIGNED_PARTITION = _struct(topic=_STRING, partition=_INTEGER)

OWNED_PARTITION = _struct(topic_id=_STRING, partition=_INTEGER, assignment_epoch=_INTEGER)

SHARE_PARTITION = _struct(topic_id=_STRING, topic=_STRING, partition=_INTEGER)

DELETED_TOPIC = _struct(topic_id=_STRING, topic=_STRING)

PAUSED_PARTITION = _struct(
    topic_id=_STRING,
    partition=_INTEGER,
    paused_at=_TIMESTAMP,  # null, and the next two empty: written by a coordinator that does not keep them
    caller=_STRING,
    reason=_STRING,
)

MEMBER = _struct(
    member_id=_STRING,
    group_instance_id=_STRING,  # null: a dynamic member
    client_id=_STRING,
    client_host=_STRING,
    rebalance_timeout_ms=_INTEGER,
    session_timeout_ms=_INTEGER,
    subscription=_BINARY,
    assignment=_BINARY,
    assigned=ArrayType(ASSIGNED_PARTITION, containsNull=True),  # null: not the consumer protocol's format
)

GROUP_EVENTS = _struct(
    log_partition=_INTEGER,
    log_offset=_LONG,
    log_timestamp=_TIMESTAMP,
    log_leader_epoch=_INTEGER,
    record_type=_INTEGER,  # the version in the key; null: no key, or a key too short for it
    record_name=_STRING,  # null: a type without a name in Kafka's schemas
    group_id=_STRING,
    event=_STRING,  # see EVENTS
    generation=_INTEGER,
    protocol_type=_STRING,
    protocol=_STRING,
    leader=_STRING,
    state_timestamp=_TIMESTAMP,
    members=ArrayType(MEMBER, containsNull=True),
    # Columns of consumer groups (KIP-848) and share groups (KIP-932):
    epoch=_INTEGER,  # of the group, the target assignment, or the member, by the event
    previous_epoch=_INTEGER,  # of the member
    member_id=_STRING,
    group_instance_id=_STRING,
    client_id=_STRING,
    client_host=_STRING,
    rack_id=_STRING,
    rebalance_timeout_ms=_INTEGER,
    member_state=_STRING,  # STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS or UNKNOWN
    server_assignor=_STRING,
    topics=ArrayType(_STRING, containsNull=True),  # subscribed, matched, or known, by the event
    regular_expression=_STRING,
    assigned=ArrayType(OWNED_PARTITION, containsNull=True),
    pending_revocation=ArrayType(OWNED_PARTITION, containsNull=True),
    # Of a share group, by the share-partitions' states: requested, there, and the topics whose are removed
    initializing=ArrayType(SHARE_PARTITION, containsNull=True),
    initialized=ArrayType(SHARE_PARTITION, containsNull=True),
    deleting=ArrayType(DELETED_TOPIC, containsNull=True),
    paused=ArrayType(PAUSED_PARTITION, containsNull=True),  # all paused partitions of a group of any kind
    is_tombstone=_BOOLEAN,
    producer_id=_LONG,  # of a transaction marker; null otherwise
    key=_BINARY,  # null for a record that the columns above show in full
    value=_BINARY,
)
"""One row for each record of the coordinator's log that is not an offset commit."""

EVENTS = (
    "assigned",  # a generation got its assignment: the members and the partitions of each
    "emptied",  # the last member left
    "removed",  # the group's own record was removed
    "transaction_committed",  # a marker: offsets committed with its producer id take effect
    "transaction_aborted",
    "group_epoch",  # of a consumer or share group, as are the following; with is_tombstone, the removal
    "member",  # the metadata of a member
    "target_epoch",  # the epoch that the target assignment was made for
    "member_target",  # the target assignment of a member
    "member_assignment",  # the current assignment of a member
    "regular_expression",  # the topics that a regular expression of the group matches
    "partition_metadata",  # the topics of the group, as written by brokers before Kafka 4.1
    "share_partitions",  # of a share group: the partitions that have a state of deliveries, or will have one
    "paused_partitions",  # of a group of any kind (KIP-1249); with is_tombstone, nothing is paused any more
    "offsets_changed",  # who changed offsets of one topic, in the records before: an administrator
    "other",  # a record without columns in this release; `key` and `value` have it
    "malformed",  # a record with invalid content; likewise
)

TRANSACTIONS = _struct(
    log_partition=_INTEGER,
    log_offset=_LONG,
    log_timestamp=_TIMESTAMP,
    log_leader_epoch=_INTEGER,
    transactional_id=_STRING,
    event=_STRING,  # see TRANSACTION_EVENTS
    state=_STRING,  # Kafka's name, such as Ongoing or PrepareCommit
    producer_id=_LONG,
    producer_epoch=_INTEGER,
    last_producer_epoch=_INTEGER,  # null: none, or written by Apache Kafka, which does not keep it
    previous_producer_id=_LONG,  # null: none, as in the next one
    next_producer_id=_LONG,
    timeout_ms=_INTEGER,
    partitions=ArrayType(ASSIGNED_PARTITION, containsNull=True),  # of the open or prepared transaction
    started_at=_TIMESTAMP,  # null: no transaction was begun
    updated_at=_TIMESTAMP,
    client_transaction_version=_INTEGER,  # the protocol that the client used last: 0 or 2
    is_tombstone=_BOOLEAN,
    key=_BINARY,  # null for a record that the columns above show in full
    value=_BINARY,
)
"""One row for each record of `__transaction_state`: a transition of a transactional id."""

TRANSACTION_EVENTS = (
    "transition",  # the transactional id has this state from here on
    "removed",  # the transactional id expired
    "other",  # a record of a version that this release does not know; `key` and `value` have it
    "malformed",  # a record with invalid content; likewise
)

STATE_BATCH = _struct(
    first_offset=_LONG,
    last_offset=_LONG,  # inclusive
    delivery_state=_STRING,  # AVAILABLE, ACKNOWLEDGED, ARCHIVING or ARCHIVED
    delivery_count=_INTEGER,
)

SHARE_DELIVERIES = _struct(
    log_partition=_INTEGER,
    log_offset=_LONG,
    log_timestamp=_TIMESTAMP,
    log_leader_epoch=_INTEGER,
    group_id=_STRING,
    topic_id=_STRING,
    partition=_INTEGER,
    event=_STRING,  # see SHARE_EVENTS
    snapshot_epoch=_INTEGER,
    state_epoch=_INTEGER,  # null in an update, which does not change it
    leader_epoch=_INTEGER,  # null: unchanged
    start_offset=_LONG,  # null: unchanged, or not known yet
    delivery_complete_count=_INTEGER,  # null: unchanged, or not known yet
    created_at=_TIMESTAMP,  # of a snapshot, as is the next one
    written_at=_TIMESTAMP,
    batches=ArrayType(STATE_BATCH, containsNull=True),
    is_tombstone=_BOOLEAN,
    key=_BINARY,  # null for a record that the columns above show in full
    value=_BINARY,
)
"""One row for each record of `__share_group_state`."""

SHARE_EVENTS = (
    "snapshot",  # the whole state of a share-partition
    "update",  # what changed since: batches to merge into the state
    "removed",  # the share-partition has no state any more
    "other",  # a record of a type or version that this release does not know; `key` and `value` have it
    "malformed",  # a record with invalid content; likewise
)

SHARE_STATES = _struct(
    group_id=_STRING,
    topic_id=_STRING,
    partition=_INTEGER,
    is_known=_BOOLEAN,  # false: records were removed before they were landed; the columns to batches are null
    snapshot_epoch=_INTEGER,
    state_epoch=_INTEGER,
    leader_epoch=_INTEGER,
    start_offset=_LONG,
    delivery_complete_count=_INTEGER,
    batches=ArrayType(STATE_BATCH, containsNull=True),
    log_partition=_INTEGER,
    log_offset=_LONG,  # of the last record, as is the next one
    log_timestamp=_TIMESTAMP,
)
"""The state of each share-partition at one position of the log of share states."""

CORRUPTIONS = _struct(
    topic=_STRING,
    partition=_INTEGER,
    place=_STRING,  # a file, or a partition and its broker
    position=_LONG,  # in the file, or in the fetched bytes of the partition
    size=_LONG,  # skipped bytes
    base_offset=_LONG,
    reason=_STRING,
    is_tail=_BOOLEAN,  # true: only an incomplete batch at the end of the log, as in a live broker
)
"""One row for each part of a topic's log that cannot be read."""

COMMITS_PER_INTERVAL = _struct(
    group_id=_STRING, topic=_STRING, partition=_INTEGER, at=_TIMESTAMP, commits=_LONG, last_offset=_LONG
)

LATEST_OFFSETS = _struct(
    group_id=_STRING,
    topic=_STRING,
    partition=_INTEGER,
    committed_offset=_LONG,
    leader_epoch=_INTEGER,
    metadata=_STRING,
    commit_timestamp=_TIMESTAMP,
    log_partition=_INTEGER,
    log_offset=_LONG,
)

END_OFFSETS = _struct(topic=_STRING, partition=_INTEGER, at=_TIMESTAMP, end_offset=_LONG)

LAG = _struct(
    group_id=_STRING,
    topic=_STRING,
    partition=_INTEGER,
    at=_TIMESTAMP,
    end_offset=_LONG,
    committed_offset=_LONG,
    lag=_LONG,
)

REBALANCES = _struct(
    group_id=_STRING,
    at=_TIMESTAMP,
    generation=_INTEGER,
    event=_STRING,
    protocol=_STRING,
    leader=_STRING,
    member_count=_INTEGER,
    joined=ArrayType(_STRING, containsNull=True),
    left=ArrayType(_STRING, containsNull=True),
    since_previous_ms=_LONG,  # null: the first of the group, or since it was removed
    log_partition=_INTEGER,
    log_offset=_LONG,
)

ASSIGNMENTS = _struct(
    group_id=_STRING,
    group_type=_STRING,  # classic, consumer or share
    member_id=_STRING,
    epoch=_INTEGER,  # the generation of a classic group, else the member's epoch
    topic=_STRING,  # null in a consumer or share group, whose records have topic ids
    topic_id=_STRING,  # null in a classic group
    partition=_INTEGER,
    at=_TIMESTAMP,
    log_partition=_INTEGER,
    log_offset=_LONG,
)

PAUSES = _struct(
    group_id=_STRING,
    topic_id=_STRING,
    partition=_INTEGER,
    change=_STRING,  # paused or resumed
    paused_at=_TIMESTAMP,  # of the pause, as are the next two; see PAUSED_PARTITION
    caller=_STRING,
    reason=_STRING,
    log_timestamp=_TIMESTAMP,
    log_partition=_INTEGER,
    log_offset=_LONG,
)
"""One row for each partition of a group that was paused or resumed."""

END_OFFSET_SAMPLES = _struct(
    topic=_STRING,
    topic_id=_STRING,  # null: from a data directory that does not tell
    partition=_INTEGER,
    at=_TIMESTAMP,
    end_offset=_LONG,
)
"""One row for each partition and sample of end offsets."""

LAG_SAMPLES = _struct(
    group_id=_STRING,
    topic=_STRING,
    topic_id=_STRING,
    partition=_INTEGER,
    at=_TIMESTAMP,
    end_offset=_LONG,  # null, and lag too: the partition does not exist, or could not be asked
    committed_offset=_LONG,
    lag=_LONG,
    log_partition=_INTEGER,
    log_offset=_LONG,  # of the commit
)
"""One row for each committed offset and sample of end offsets."""

UNKNOWN_RECORDS = _struct(
    log_partition=_INTEGER,
    log_offset=_LONG,
    log_timestamp=_TIMESTAMP,
    record_type=_INTEGER,
    record_name=_STRING,
    group_id=_STRING,
    event=_STRING,  # other or malformed
    is_tombstone=_BOOLEAN,
    key=_BINARY,
    value=_BINARY,
)


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type that Spark expects for one of the types above."""
    match kind:
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType), nullable=kind.containsNull))
        case StructType():
            return pa.struct(arrow_schema(kind))
    return _ARROW[type(kind)]


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of a data source with this schema."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType), field.nullable) for field in schema])


_ARROW: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}
