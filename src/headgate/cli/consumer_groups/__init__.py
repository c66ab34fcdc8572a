"""`headgate consumer-groups`: the options of kafka-consumer-groups.sh and more.

    options.py    all options with their help, and their values
    command.py    the command, which takes the options
    usage.py      the valid combinations of options
    run.py        runs the action, returns the exit code
    arguments.py  parsers of topics with partitions, dates, durations, files of offsets
    groups.py     the requested groups
    reports.py    --list and --describe
    changes.py    --reset-offsets, --delete-offsets and --delete
    pausing.py    --pause, --resume and --paused-partitions
    rewinding.py  --rewind
    history.py    --history, --offsets-as-of and --undo
    regex.py      --validate-regex
    remarks.py    remarks of --describe on a group's state

Exit codes: 0: everything was done. 1: something was refused, or no server responds. 2: invalid command line.
"""

from headgate.cli.consumer_groups.command import OptionalValues, consumer_groups

__all__ = ["OptionalValues", "consumer_groups"]
