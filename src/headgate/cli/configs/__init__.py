"""`headgate configs`: show and change settings, by the options of kafka-configs.sh."""

from headgate.cli.configs.command import configs

__all__ = ["configs"]
