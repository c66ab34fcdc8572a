"""The history of offsets: records that compaction removes from the coordinator's log, kept and read."""
