"""`headgate share-groups`: share groups, their members, offsets and lag, by the options of Kafka's tool."""

from headgate.cli.share_groups.command import share_groups

__all__ = ["share_groups"]
