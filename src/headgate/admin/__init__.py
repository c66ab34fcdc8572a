"""The Admin API: describe consumer groups, their assignments, offsets and lag, and change their offsets.

    from headgate.admin import Admin, ToEarliest, TopicPartition

    with Admin("127.0.0.1:9092") as admin:
        for position in admin.positions("billing"):
            print(position.partition, position.lag)
        admin.reset_offsets("billing", [TopicPartition("flights", 0)], ToEarliest())

It works with Headgate and with a Kafka cluster. `AsyncAdmin` has the same methods as coroutines.
"""

from headgate.admin.admin import Admin
from headgate.admin.async_admin import AsyncAdmin
from headgate.admin.errors import (
    AlreadyUndone,
    GroupIsActive,
    HistoryUnknown,
    IsShareGroup,
    NothingToReset,
    NotPaused,
    NotReleased,
    RewindUnfinished,
    TopicGone,
)
from headgate.admin.hanging import HangingTransaction
from headgate.admin.pausing import OnWaiting, Waiting
from headgate.admin.positions import Position
from headgate.admin.reset import (
    ByDuration,
    PlannedOffset,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
)
from headgate.admin.resets import PlansOfGroups
from headgate.admin.restore import ChosenPartitions, OffsetAsOf, PlannedRestore, PlannedUndo
from headgate.admin.rewind import OnProgress, RewindProgress, RewindStep, RewoundPartition, Where
from headgate.admin.share_groups import ShareTarget
from headgate.admin.share_rewind import RewoundSharePartition
from headgate.admin.survey import GroupSurvey, SurveyedGroup
from headgate.client.errors import (
    AuthenticationFailed,
    BadResponse,
    ClientError,
    ConnectionFailed,
    NoNodeReachable,
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    RequestRefused,
    RequestTimedOut,
    TlsFailed,
    Unsendable,
    VersionNotSupported,
)
from headgate.client.expiry import GroupExpiry, GroupExpiryListing
from headgate.client.groups import GroupDescription, GroupListing, GroupsMissing, MemberDescription
from headgate.client.history import (
    ChangeAuthor,
    Earlier,
    HistoryTopic,
    OffsetChange,
    OffsetHistory,
    PartitionHistory,
    TopicNow,
)
from headgate.client.offsets import CommittedOffset
from headgate.client.pauses import PausedPartition, PauseState
from headgate.client.resource_configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)
from headgate.client.security import Security, SecurityProblem
from headgate.client.share_deliveries import (
    AlteredShareRecords,
    ShareAlteration,
    ShareRecords,
    ShareRecordState,
)
from headgate.client.share_groups import ShareGroupDescription, ShareMemberDescription, ShareOffset
from headgate.client.topics import NewTopic, PartitionDescription, TopicDescription
from headgate.client.transactions import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionsMissing,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicPartition

__all__ = [
    "Admin",
    "AlreadyUndone",
    "AlteredShareRecords",
    "AsyncAdmin",
    "AuthenticationFailed",
    "BadResponse",
    "ByDuration",
    "ChangeAuthor",
    "ChosenPartitions",
    "ClientError",
    "CommittedOffset",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSynonym",
    "ConnectionFailed",
    "Earlier",
    "ErrorCode",
    "FencedProducer",
    "GroupDescription",
    "GroupExpiry",
    "GroupExpiryListing",
    "GroupIsActive",
    "GroupListing",
    "GroupSurvey",
    "GroupsMissing",
    "HangingTransaction",
    "HistoryTopic",
    "HistoryUnknown",
    "IsShareGroup",
    "MemberDescription",
    "NewTopic",
    "NoNodeReachable",
    "NotPaused",
    "NotReleased",
    "NothingToReset",
    "OffsetAsOf",
    "OffsetChange",
    "OffsetHistory",
    "OffsetsMoved",
    "OnProgress",
    "OnWaiting",
    "OutcomeUnknown",
    "PartitionDescription",
    "PartitionHistory",
    "PartlyRefused",
    "PauseState",
    "PausedPartition",
    "PlannedOffset",
    "PlannedRestore",
    "PlannedUndo",
    "PlansOfGroups",
    "Position",
    "ProducerState",
    "RequestRefused",
    "RequestTimedOut",
    "ResourceType",
    "RewindProgress",
    "RewindStep",
    "RewindUnfinished",
    "RewoundPartition",
    "RewoundSharePartition",
    "Security",
    "SecurityProblem",
    "ShareAlteration",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "ShareOffset",
    "ShareRecordState",
    "ShareRecords",
    "ShareTarget",
    "ShiftBy",
    "SurveyedGroup",
    "Target",
    "TlsFailed",
    "ToCurrent",
    "ToDatetime",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToOffsets",
    "TopicDescription",
    "TopicGone",
    "TopicNow",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "TransactionsMissing",
    "Unsendable",
    "VersionNotSupported",
    "Waiting",
    "Where",
]
