"""Groups on their way from one protocol to the other, while their members go on.

A classic group with consumers in it becomes a consumer group when the first member of the new protocol comes
(`upgrade`); until the last classic member has gone, the group speaks both (`classic_members`); and when only
classic members are left it is a classic group again (`downgrade`). Which way is open is the broker's policy.
"""
