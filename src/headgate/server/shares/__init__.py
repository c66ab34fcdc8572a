"""The delivery of records to share groups on this node."""
