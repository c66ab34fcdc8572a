"""`headgate consumer-groups`: the options of kafka-consumer-groups.sh, with help that tells what they do.

    options.py    what was asked for, and which options go together
    arguments.py  topics with partitions, dates, durations, files of offsets
    reports.py    --list and --describe
    changes.py    --reset-offsets, --delete-offsets and --delete
    printing.py   rows as a table, JSON or CSV

Exit codes: 0 all was done; 1 something was refused, or nobody answers; 2 the command line cannot be meant.
"""

from headgate.cli.consumer_groups.command import OptionalValues, consumer_groups

__all__ = ["OptionalValues", "consumer_groups"]
