"""What runs the shards of a coordinator: their logs, group commit, loading, checkpoints, timers."""
