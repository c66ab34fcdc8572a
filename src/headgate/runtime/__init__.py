"""The runtime of shards: their logs, group commit, loading, checkpoints, timers."""
