"""The records of `__consumer_offsets`: typed values and their binary format on disk, which Spark reads too.

`encode` and `decode` convert between a `Record` and its key and value bytes in Kafka's format.
"""

from headgate.records.codec import decode, encode
from headgate.records.columns import Change
from headgate.records.consumer_model import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
    MemberState,
)
from headgate.records.errors import MalformedRecord
from headgate.records.model import (
    ChangeAuthor,
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    OffsetCommit,
    OffsetTombstone,
    Record,
    UnknownRecord,
)
from headgate.records.offset_batches import ColumnBatch, ColumnShape, OffsetBatch, RecordShape
from headgate.records.paused_model import (
    Pause,
    PausedPartitions,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
)

__all__ = [
    "Change",
    "ChangeAuthor",
    "ClassicMemberMetadata",
    "ColumnBatch",
    "ColumnShape",
    "ConsumerGroupCurrentAssignment",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupMetadata",
    "ConsumerGroupPartitionMetadata",
    "ConsumerGroupRegularExpression",
    "ConsumerGroupTargetMember",
    "ConsumerGroupTargetMetadata",
    "ConsumerGroupTombstone",
    "ConsumerRecord",
    "ConsumerRecordType",
    "GroupMember",
    "GroupMetadata",
    "GroupTombstone",
    "MalformedRecord",
    "MemberState",
    "OffsetBatch",
    "OffsetCommit",
    "OffsetTombstone",
    "Pause",
    "PausedPartitions",
    "PausedTopicPartitions",
    "PausedTopicPartitionsTombstone",
    "Record",
    "RecordShape",
    "UnknownRecord",
    "decode",
    "encode",
]
