"""Names for what a node knows beyond Kafka's documents, as ApiVersions advertises them (KIP-584).

A client that sends a field of ours asks for the name first: who does not know the field skips it.
"""

from __future__ import annotations

CONDITIONAL_COMMIT = "headgate.conditional.commit"
"""OffsetCommit from version 8 on: `expected_offset` in a partition, `current_offset` in the answer.

Of a request with a condition, `committed_offset` -1 removes the offset."""
