"""Names of Headgate's extensions to the protocol, as ApiVersions advertises them (KIP-584).

A client checks for the name before it sends an extension field, because other brokers skip unknown fields.
"""

from __future__ import annotations

CONDITIONAL_COMMIT = "headgate.conditional.commit"
"""OffsetCommit from version 8: a request's partitions have `expected_offset`, a response's `current_offset`.

In a request with a condition, `committed_offset` -1 removes the committed offset."""
