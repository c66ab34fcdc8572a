"""`headgate topics`: create, describe, change and delete topics, by the options of kafka-topics.sh."""

from headgate.cli.topics.command import topics

__all__ = ["topics"]
