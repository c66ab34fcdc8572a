"""Which requests are administrative changes of offsets, whose authors are recorded.

A commit of a member is none, and neither is that of a consumer without membership, which may commit a
thousand times a second. Recorded are commits with conditions (those of Headgate's tools), those of Java's
Admin and its command-line tools, which name themselves in their client ids, and deletions.
"""

from __future__ import annotations

from typing import Final

from headgate.api.contract import Call
from headgate.core.offsets.authors import Author
from headgate.domain.ids import Millis
from headgate.wire.messages.offset_commit import OffsetCommitRequest

ADMIN_CLIENTS: Final = ("adminclient", "headgate")
"""How the default client ids of Java's Admin and of Headgate's begin."""


def author_of(call: Call) -> Author:
    """Return the client of a request."""
    return Author(call.client_id or "", call.client_host)


def author_of_commit(call: Call, request: OffsetCommitRequest, *, has_conditions: bool) -> Author | None:
    """Return the client of a commit, if it is an administrative change."""
    if request.generation_id_or_member_epoch >= 0:
        return None
    if has_conditions or (call.client_id or "").startswith(ADMIN_CLIENTS):
        undone_ms = request.undone_ms if has_conditions else None
        return author_of(call)._replace(undone_at=None if undone_ms is None else Millis(undone_ms))
    return None
