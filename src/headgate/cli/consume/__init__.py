"""`headgate consume`: print records, by the options of kafka-console-consumer.sh.

options.py    all options with their help
command.py    the command, which takes the options
run.py        reads records, without a group or as a member of one
formats.py    records as text, JSON lines or CSV
"""

from headgate.cli.consume.command import consume

__all__ = ["consume"]
