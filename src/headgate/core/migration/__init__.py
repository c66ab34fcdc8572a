"""Migration of groups between the classic and the consumer protocol, while they have members.

A classic group of consumers becomes a consumer group when the first member of the consumer protocol joins
(`upgrade`). Until the last classic member has left, the group supports both protocols (`classic_members`).
When only classic members are left it becomes a classic group again (`downgrade`). The broker's policy decides
which of these are allowed.
"""
