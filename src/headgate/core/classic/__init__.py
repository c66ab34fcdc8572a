"""The classic group protocol: members join, one of them assigns, all sync, and heartbeats keep them in."""
