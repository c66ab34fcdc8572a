"""The share coordinator: the persisted state of share-partitions, a shard of `__share_group_state`."""
