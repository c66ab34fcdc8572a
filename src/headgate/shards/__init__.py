"""The kinds of shards that a node runs, each a module with its registration (`runtime/shard_kind.py`)."""
