"""`headgate consumer-groups`: the options of kafka-consumer-groups.sh, with help that tells what they do.

    options.py    every option with its help, and what was given
    command.py    the command, which takes them
    usage.py      which options go together
    run.py        from there to the action, and its exit code
    arguments.py  topics with partitions, dates, durations, files of offsets
    groups.py     which groups were asked for
    reports.py    --list and --describe
    changes.py    --reset-offsets, --delete-offsets and --delete
    pausing.py    --pause, --resume and --paused-partitions
    rewinding.py  --rewind
    history.py    --history, --offsets-as-of and --undo
    printing.py   rows as a table, JSON or CSV
    advice.py     errors in words, with what to do next

Exit codes: 0 all was done; 1 something was refused, or nobody answers; 2 the command line cannot be meant.
"""

from headgate.cli.consumer_groups.command import OptionalValues, consumer_groups

__all__ = ["OptionalValues", "consumer_groups"]
