"""Records of the coordinator's log: a commit, and a group with a member that has an assignment."""

from __future__ import annotations

import struct

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicName
from headgate.records import GroupMember, GroupMetadata, OffsetCommit

NOW = Millis(1_700_000_000_000)
ASSIGNMENT = (
    struct.pack(">hi", 0, 2)
    + struct.pack(">h", 1) + b"a" + struct.pack(">iii", 2, 0, 3)
    + struct.pack(">h", 1) + b"b" + struct.pack(">ii", 1, 7)
    + struct.pack(">i", -1)
)  # fmt: skip
MEMBER = GroupMember(
    MemberId("m-1"), InstanceId("i-1"), "client", "/10.0.0.1", 60_000, 45_000, b"sub", ASSIGNMENT
)
GROUP = GroupMetadata(GroupId("g"), "consumer", 4, "range", MemberId("m-1"), NOW, (MEMBER,))
COMMIT = OffsetCommit(GroupId("g"), TopicName("t"), 0, 5, -1, "", NOW)
