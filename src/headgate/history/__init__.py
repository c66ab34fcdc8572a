"""What compaction takes out of the coordinator's log: keeping it, and reading it."""
